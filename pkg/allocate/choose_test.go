package allocate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

var (
	numaPolicies = []allocate.NUMAPolicy{allocate.NUMAPrefer, allocate.NUMANone, allocate.NUMARequire}
	nicPolicies  = []allocate.NICPolicy{allocate.NICNone, allocate.NICPrefer, allocate.NICRequire}
)

// checkChoice compares one answer for whole cards with the oracle's.
func checkChoice(tb rapid.TB, c *allocate.Chooser, o *oracle, v *allocate.View, r *allocate.Request) {
	free, k := v.Free, r.Claims[0].Count
	want, wantMeasure := o.best(uint64(free), k, r.NUMA, r.NIC)
	choice, rej, err := c.Choose(v, r)
	if err != nil {
		tb.Fatalf("Choose: %v", err)
	}
	if fits := c.Fits(v, r); (fits == nil) != (rej == nil) {
		tb.Fatalf("free %v, n %d, NUMA %d, NIC %d: Choose says %v, Fits says %v", free, k, r.NUMA, r.NIC, rej, fits)
	}
	if (rej != nil) != (want == 0) {
		tb.Fatalf("free %v, n %d, NUMA %d, NIC %d: rejection %v, the oracle has %v", free, k, r.NUMA, r.NIC, rej, topology.GPUSet(want))
	}
	if rej != nil {
		if rej.Cards() != o.n || rej.Have >= k {
			tb.Fatalf("rejection %q counts %d cards of %d and has %d of %d", rej, rej.Cards(), o.n, rej.Have, k)
		}
		return
	}
	got := choice.Set()
	if got != topology.GPUSet(want) || measureOf(choice.Quality) != wantMeasure {
		tb.Fatalf("free %v, n %d, NUMA %d, NIC %d: chose %v %v, the oracle %v %v", free, k, r.NUMA, r.NIC,
			got, measureOf(choice.Quality), topology.GPUSet(want), wantMeasure)
	}
	if left := (free &^ got).Len(); choice.Quality.FreeLeft != left || choice.Quality.Broken != 0 || choice.Quality.SpareBytes != 0 {
		tb.Fatalf("free %v, n %d: quality %+v", free, k, choice.Quality)
	}
	set, quality, rej, err := c.Assess(v, r)
	if err != nil || rej != nil || set != got || quality != choice.Quality {
		tb.Fatalf("Assess = %v %+v %v %v, Choose = %v %+v", set, quality, rej, err, got, choice.Quality)
	}
}

// checkAll compares all answers for whole cards on one node of up to 8 cards.
func checkAll(tb rapid.TB, n *topology.Node) {
	c, o := allocate.NewChooser(), newOracle(n)
	for free := range topology.GPUSet(1) << n.Len() {
		if !n.Usable().Contains(free) || free&n.MIGCards() != 0 {
			continue
		}
		v := viewOf(n, free)
		for _, numa := range numaPolicies {
			for _, nic := range nicPolicies {
				for k := 1; k <= n.Len()+1; k++ {
					r := whole(k)
					r.NUMA, r.NIC = numa, nic
					checkChoice(tb, c, o, v, r)
				}
			}
		}
	}
}

// TestChooseEqualsOracle covers every shape of the catalogue of up to 8 cards: every set of free cards, every n, every
// policy. Shapes that differ in nothing a choice depends on are done once.
func TestChooseEqualsOracle(t *testing.T) {
	t.Parallel()
	seen := map[[32]byte]bool{}
	machines := catalogue(t, 8)
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		n := node(t, machines[name])
		if fp := n.Shape().Fingerprint(); !seen[fp] {
			seen[fp] = true
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkAll(t, n)
			})
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d shapes were looked at", len(seen))
	}
}

// catalogue returns every machine of the catalogue of up to most cards, without and with adapters.
func catalogue(t *testing.T, most int) map[string]topology.Spec {
	t.Helper()
	out := map[string]topology.Spec{}
	for _, m := range topology.Catalogue() {
		lookup := topology.Lookup
		if m.Bridged {
			lookup = topology.LookupBridged
		}
		for _, count := range m.Counts {
			spec, ok := lookup(m.Product, count)
			if !ok {
				t.Fatalf("the catalogue lists %s with %d cards and does not find it", m.Name, count)
			}
			if count > most {
				continue
			}
			name := fmt.Sprintf("%s x%d", m.Name, count)
			out[name] = spec
			spec.Cards, spec.NICs = slices.Clone(spec.Cards), someNICs(count)
			out[name+" NICs"] = spec
		}
	}
	return out
}

// someNICs are adapters near some cards: one at PIX to the cards 0, 3, 6, one at PXB to card 1.
func someNICs(count int) []topology.NIC {
	a := topology.NIC{Name: "mlx5_0", Links: make([]topology.LinkType, count)}
	b := topology.NIC{Name: "mlx5_1", Links: make([]topology.LinkType, count)}
	for i := range count {
		a.Links[i], b.Links[i] = topology.LinkSYS, topology.LinkPHB
		if i%3 == 0 {
			a.Links[i] = topology.LinkPIX
		}
		if i == 1 {
			b.Links[i] = topology.LinkPXB
		}
	}
	return []topology.NIC{a, b}
}

// anyLink draws a link of two cards.
func anyLink() *rapid.Generator[topology.Link] {
	return rapid.Custom(func(t *rapid.T) topology.Link {
		l := topology.Link{Type: topology.LinkType(rapid.IntRange(int(topology.LinkUnknown), int(topology.LinkNVLink)).Draw(t, "type"))}
		if l.Type == topology.LinkNVLink {
			l.NVLinks = uint8(rapid.IntRange(1, 4).Draw(t, "nvlinks"))
		}
		return l
	})
}

// anySpec draws a node of up to most cards.
func anySpec(most int) *rapid.Generator[topology.Spec] {
	return rapid.Custom(func(t *rapid.T) topology.Spec {
		n := rapid.IntRange(1, most).Draw(t, "cards")
		spec := topology.Spec{Cards: make([]topology.Card, n)}
		for i := range spec.Cards {
			spec.Cards[i] = topology.Card{
				Product:   "NVIDIA A100-SXM4-80GB",
				UUID:      fmt.Sprintf("GPU-%d", i),
				VRAMBytes: 80 * gib,
				NUMA:      rapid.IntRange(topology.NUMAUnknown, 2).Draw(t, "numa"),
			}
		}
		spec.Links = matrix(n, func(int, int) topology.Link { return anyLink().Draw(t, "link") })
		for range rapid.IntRange(0, 2).Draw(t, "nics") {
			nic := topology.NIC{Links: make([]topology.LinkType, n)}
			for i := range nic.Links {
				nic.Links[i] = topology.LinkType(rapid.IntRange(int(topology.LinkUnknown), int(topology.LinkPIX)).Draw(t, "nic link"))
			}
			spec.NICs = append(spec.NICs, nic)
		}
		return spec
	})
}

// mustNode builds a drawn node; all its cards are healthy.
func mustNode(t rapid.TB, spec topology.Spec) *topology.Node {
	for i := range spec.Cards {
		spec.Cards[i].Healthy = true
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatalf("topology.New: %v", err)
	}
	return n
}

func TestChooseEqualsOracleOnRandomShapes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := mustNode(t, anySpec(8).Draw(t, "spec"))
		c, o := allocate.NewChooser(), newOracle(n)
		for range 40 {
			r := whole(rapid.IntRange(1, n.Len()).Draw(t, "n"))
			r.NUMA = rapid.SampledFrom(numaPolicies).Draw(t, "NUMA")
			r.NIC = rapid.SampledFrom(nicPolicies).Draw(t, "NIC")
			free := topology.GPUSet(rapid.Uint64().Draw(t, "free")) & n.All()
			checkChoice(t, c, o, viewOf(n, free), r)
		}
	})
}

// TestChooseEqualsOracleOn16Cards takes samples: the oracle tries all rings, so few cards are free at a time. A sample
// on all 16 cards compares what the oracle can still tell, the measures of the set that was chosen.
func TestChooseEqualsOracleOn16Cards(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(16, 1))
	random := func(int, int) topology.Link {
		l := topology.Link{Type: topology.LinkType(1 + rng.IntN(int(topology.LinkNVLink)))}
		if l.Type == topology.LinkNVLink {
			l.NVLinks = uint8(1 + rng.IntN(6))
		}
		return l
	}
	boards := func(i, j int) topology.Link {
		switch {
		case i/4 == j/4:
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 4}
		case i/8 == j/8:
			return topology.Link{Type: topology.LinkPXB}
		}
		return topology.Link{Type: topology.LinkSYS}
	}
	for name, spec := range map[string]topology.Spec{
		"NVSwitch": {Cards: cards(16, 80*gib), NVSwitch: true, NICs: someNICs(16)},
		"boards":   {Cards: cards(16, 80*gib), Links: matrix(16, boards), NICs: someNICs(16)},
		"random":   {Cards: cards(16, 80*gib), Links: matrix(16, random)},
	} {
		seed := rng.Uint64()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 2))
			n := node(t, spec)
			c, o := allocate.NewChooser(), newOracle(n)
			for range 60 {
				var free topology.GPUSet
				for free.Len() < 8 {
					free = free.With(rng.IntN(16))
				}
				r := whole(1 + rng.IntN(6))
				r.NUMA = numaPolicies[rng.IntN(3)]
				r.NIC = nicPolicies[rng.IntN(3)]
				checkChoice(t, c, o, viewOf(n, free), r)
			}
			for k := 1; k <= 8; k++ {
				q := mustChoose(t, c, emptyView(n), whole(k))
				set := uint64(q.Set())
				got, want := []topology.Bandwidth{q.Quality.Bottleneck, q.Quality.PairSum}, []topology.Bandwidth{o.ring(set), o.sum(set)}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("n %d: bottleneck and sum of %v (-want +got):\n%s", k, q.Set(), diff)
				}
			}
		})
	}
}

// TestChooseProperties holds for every shape and every set of free cards.
func TestChooseProperties(t *testing.T) {
	t.Parallel()
	warm := allocate.NewChooser()
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec(10).Draw(t, "spec")
		n := mustNode(t, spec)
		free := topology.GPUSet(rapid.Uint64().Draw(t, "free")) & n.All()
		r := whole(rapid.IntRange(1, n.Len()).Draw(t, "n"))
		r.NUMA = rapid.SampledFrom(numaPolicies).Draw(t, "NUMA")
		choice, rej := checkPure(t, warm, viewOf(n, free), r)
		if rej != nil {
			return
		}
		if !free.Contains(choice.Set()) || len(choice.Cards) != r.Claims[0].Count {
			t.Fatalf("chose %v of %v", choice.Set(), free)
		}
		for i := range spec.Cards {
			spec.Cards[i].UUID = fmt.Sprintf("GPU-other-%d", 99-i)
		}
		renamed, _, err := warm.Choose(viewOf(mustNode(t, spec), free), r)
		if err != nil || renamed.Set() != choice.Set() || renamed.Quality != choice.Quality {
			t.Fatalf("new UUIDs move the choice from %v to %v: %v", choice.Set(), renamed.Set(), err)
		}
		for i := range (n.All() &^ free).All() {
			more, rej, err := warm.Choose(viewOf(n, free.With(i)), r)
			a, b := more.Quality, choice.Quality
			if rej != nil || err != nil || a.Bottleneck < b.Bottleneck || a.Bottleneck == b.Bottleneck && a.PairSum < b.PairSum {
				t.Fatalf("one more free card, %d, makes %v %+v of %v %+v", i, more.Set(), a, choice.Set(), b)
			}
		}
	})
}

// checkPure checks that an answer changes nothing, depends on nothing but the question, and can be held.
func checkPure(t rapid.TB, warm *allocate.Chooser, v *allocate.View, r *allocate.Request) (allocate.Choice, *allocate.Rejection) {
	before := *v
	before.Use = slices.Clone(v.Use)
	choice, rej, err := warm.Choose(v, r)
	if err != nil {
		t.Fatal(err)
	}
	if v.Topology != before.Topology || v.Free != before.Free || v.Closed != before.Closed || !cmp.Equal(v.Use, before.Use) {
		t.Fatal("Choose changed the view")
	}
	fresh, freshRej, err := allocate.NewChooser().Choose(v, r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fresh, choice) + cmp.Diff(freshRej, rej); diff != "" {
		t.Fatalf("a new Chooser answers otherwise: %s", diff)
	}
	if err := v.CanHold(choice.Cards); err != nil {
		t.Fatal(err)
	}
	return choice, rej
}
