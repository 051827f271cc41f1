package allocate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// container returns what the named container gets.
func container(tb testing.TB, c allocate.Choice, name string) []allocate.CardShare {
	tb.Helper()
	for _, s := range c.Containers {
		if s.Name == name {
			return s.Cards
		}
	}
	tb.Fatalf("no container %q in %+v", name, c.Containers)
	return nil
}

func setOf(shares []allocate.CardShare) topology.GPUSet {
	var s topology.GPUSet
	for _, c := range shares {
		s = s.With(c.Index)
	}
	return s
}

// claims builds a request of whole cards and shares: sizes above 0 are MiB.
func claims(cs ...allocate.Claim) *allocate.Request { return &allocate.Request{Claims: cs} }

func wholeClaim(name string, phase allocate.Phase, n int) allocate.Claim {
	return allocate.Claim{Container: name, Phase: phase, Kind: allocate.KindWhole, Count: n}
}

func shareClaim(name string, phase allocate.Phase, bytes int64) allocate.Claim {
	return allocate.Claim{Container: name, Phase: phase, Kind: allocate.KindShare, Count: 1, VRAMBytes: bytes}
}

func TestCaseB055RejectedCandidatesLeaveNoTrace(t *testing.T) {
	t.Parallel()
	spec := n8p(t).Spec()
	spec.Cards[1].Fault, spec.Cards[5].MIGEnabled = "Xid 79", true
	v := viewOf(node(t, spec), topology.SetOf(0, 3, 4, 6, 7))
	c := allocate.NewChooser()
	if got := mustChoose(t, c, v, whole(2)); got.Set() != topology.SetOf(6, 7) {
		t.Fatalf("chose %v, want the only whole pair", got.Set())
	}
	rapid.Check(t, func(t *rapid.T) {
		v := emptyView(sharingNode().Draw(t, "node"))
		for range 6 {
			r := anyPod().Draw(t, "pod")
			r.NUMA = rapid.SampledFrom(numaPolicies).Draw(t, "NUMA")
			choice, _ := checkPure(t, c, v, r)
			hold(t, v, choice)
		}
	})
}

func TestCaseB070ReplacedPodGetsTheVictimsCards(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(70, 0))
	c, v := allocate.NewChooser(), emptyView(n8s(t))
	pods := make([][]allocate.CardShare, 4)
	for i := range pods {
		pods[i] = mustChoose(t, c, v, whole(2)).Cards
		give(t, v, pods[i])
	}
	for range 100 {
		victim := rng.IntN(4)
		mustReject(t, c, v, whole(2))
		back(v, pods[victim])
		next := mustChoose(t, c, v, whole(2)).Cards
		if setOf(next) != setOf(pods[victim]) {
			t.Fatalf("the victim had %v, the new pod gets %v", setOf(pods[victim]), setOf(next))
		}
		give(t, v, next)
		pods[victim] = next
	}
}

func TestCaseB071SixteenHalfCardPods(t *testing.T) {
	t.Parallel()
	c, half := allocate.NewChooser(), share(40960*mib, 1)
	rng := rand.New(rand.NewPCG(71, 0))
	for round := range 20 {
		v := emptyView(n8s(t))
		// Every second round pods also leave before the rest arrive, in any order.
		pods := fill(t, c, v, half)
		rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, p := range pods[:round%2*rng.IntN(len(pods))] {
			back(v, p)
		}
		fill(t, c, v, half)
		for i, u := range v.Use {
			if u.Holders != 2 || u.VRAMBytes != 81920*mib || u.SliceMask != allocate.WholeCard {
				t.Fatalf("card %d holds %+v, want exactly two halves", i, u)
			}
		}
	}
	v := emptyView(n8s(t))
	for k := 1; k <= 16; k++ {
		give(t, v, mustChoose(t, c, v, half).Cards)
		if inUse := 8 - v.Free.Len(); inUse != (k+1)/2 {
			t.Fatalf("%d pods are on %d cards", k, inUse)
		}
	}
}

// fill places pods until one is rejected and returns what they hold.
func fill(tb testing.TB, c *allocate.Chooser, v *allocate.View, r *allocate.Request) [][]allocate.CardShare {
	tb.Helper()
	var pods [][]allocate.CardShare
	for {
		choice, rej, err := c.Choose(v, r)
		if err != nil {
			tb.Fatal(err)
		}
		if rej != nil {
			return pods
		}
		give(tb, v, choice.Cards)
		pods = append(pods, choice.Cards)
	}
}

func TestCaseB074ThreeHalvesOfOneCard(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	v := viewOf(node(t, topology.Spec{Cards: cards(8, 24576*mib), NVSwitch: true}), topology.SetOf(5))
	for range 2 {
		choice := mustChoose(t, c, v, share(12288*mib, 1))
		if choice.Set() != topology.SetOf(5) {
			t.Fatalf("chose %v", choice.Set())
		}
		give(t, v, choice.Cards)
	}
	rej := mustReject(t, c, v, share(12288*mib, 1))
	if want := "needs 12.0 GiB of 1 GPU: no card has 12.0 GiB free; the largest free part is 0 B (8 used)"; rej.String() != want || rej.Permanent {
		t.Errorf("rejection %q permanent %v, want %q", rej, rej.Permanent, want)
	}
}

func TestCaseB076NoRoundingBeyondTheCard(t *testing.T) {
	t.Parallel()
	third := share(0, 1)
	third.Claims[0].FractionPPB = 333_333_333
	for name, tc := range map[string]struct {
		r    *allocate.Request
		want int
	}{
		"24 pods of 2000 MiB": {share(2000*mib, 1), 23},
		"thirds":              {third, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, v := allocate.NewChooser(), emptyView(flat(t, 1, 46068*mib))
			for i := range tc.want {
				choice := mustChoose(t, c, v, tc.r)
				give(t, v, choice.Cards)
				if v.Use[0].VRAMBytes > 46068*mib {
					t.Fatalf("pod %d brings the card to %d bytes", i, v.Use[0].VRAMBytes)
				}
			}
			mustReject(t, c, v, tc.r)
		})
	}
}

func TestCaseB077TwoContainersDifferentCards(t *testing.T) {
	t.Parallel()
	v := emptyView(flat(t, 2, 10240*mib))
	for _, order := range [][]allocate.Claim{
		{shareClaim("x", allocate.PhaseMain, 10240*mib), shareClaim("y", allocate.PhaseMain, 1024*mib)},
		{shareClaim("y", allocate.PhaseMain, 1024*mib), shareClaim("x", allocate.PhaseMain, 10240*mib)},
	} {
		choice := mustChoose(t, allocate.NewChooser(), v, claims(order...))
		x, y := container(t, choice, "x"), container(t, choice, "y")
		if x[0].Index == y[0].Index || x[0].VRAMBytes != 10240*mib || y[0].VRAMBytes != 1024*mib {
			t.Errorf("x gets %+v, y gets %+v", x, y)
		}
		if x[0].UUID != v.Topology.Card(x[0].Index).UUID || y[0].UUID != v.Topology.Card(y[0].Index).UUID {
			t.Errorf("x gets %+v, y gets %+v: wrong UUID", x, y)
		}
	}
}

// TestCaseB077EightCards packs random pods of containers onto 8 cards and compares with a model that knows only bytes.
func TestCaseB077EightCards(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(77, 0))
	c := allocate.NewChooser()
	for range 60 {
		v := emptyView(flat(t, 8, 10240*mib))
		model := make([]int64, 8)
		for range 12 {
			r := &allocate.Request{}
			for k := range 1 + rng.IntN(3) {
				r.Claims = append(r.Claims, shareClaim(fmt.Sprint(k), allocate.PhaseMain, (1+rng.Int64N(10240))*mib))
			}
			fits := podFits(v, r)
			choice, rej, err := c.Choose(v, r)
			if err != nil || (rej == nil) != fits {
				t.Fatalf("%+v: rejection %v, error %v, by trying everything it fits: %v", r.Claims, rej, err, fits)
			}
			give(t, v, choice.Cards) // nothing where it was rejected
			for _, cs := range choice.Containers {
				model[cs.Cards[0].Index] += cs.Cards[0].VRAMBytes
			}
			checkModel(t, v, model)
		}
	}
}

func checkModel(t *testing.T, v *allocate.View, model []int64) {
	t.Helper()
	for i := range model {
		if vram := v.Topology.Card(i).VRAMBytes; model[i] != v.Use[i].VRAMBytes || model[i] > vram {
			t.Fatalf("card %d of %d: containers hold %d, the card %d", i, vram, model[i], v.Use[i].VRAMBytes)
		}
	}
}

func TestCaseB079SidecarsCountBesideEverything(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	for name, r := range map[string]*allocate.Request{
		"init after the sidecar": claims(wholeClaim("side", allocate.PhaseSidecar, 4),
			wholeClaim("init", allocate.PhaseInit, 2), wholeClaim("main", allocate.PhaseMain, 4)),
		"init before the sidecar": claims(wholeClaim("init", allocate.PhaseInit, 2),
			wholeClaim("side", allocate.PhaseSidecar, 4), wholeClaim("main", allocate.PhaseMain, 4)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := emptyView(n8s(t))
			choice := mustChoose(t, c, v, r)
			side, init, main := setOf(container(t, choice, "side")), setOf(container(t, choice, "init")), setOf(container(t, choice, "main"))
			if choice.Set().Len() != 8 || side.Len() != 4 || main.Len() != 4 || side&main != 0 || init.Len() != 2 {
				t.Errorf("pod %v, side %v, init %v, main %v", choice.Set(), side, init, main)
			}
			if name == "init after the sidecar" && init&side != 0 {
				t.Errorf("init %v takes cards of the running sidecar %v", init, side)
			}
			give(t, v, choice.Cards)
			mustReject(t, c, v, whole(1))
		})
	}
	r := claims(wholeClaim("side", allocate.PhaseSidecar, 4), wholeClaim("init", allocate.PhaseInit, 6), wholeClaim("main", allocate.PhaseMain, 4))
	rej := mustReject(t, c, emptyView(n8s(t)), r)
	if want := "needs 10 whole GPUs, 8 are free"; rej.String() != want || !rej.Permanent {
		t.Errorf("rejection %q permanent %v, want %q for ever", rej, rej.Permanent, want)
	}
}

func TestCaseB080InitCardsStayCharged(t *testing.T) {
	t.Parallel()
	c, v := allocate.NewChooser(), emptyView(n8s(t))
	p := mustChoose(t, c, v, claims(wholeClaim("init", allocate.PhaseInit, 5), wholeClaim("main", allocate.PhaseMain, 2)))
	init, main := setOf(container(t, p, "init")), setOf(container(t, p, "main"))
	if p.Set().Len() != 5 || init != p.Set() || main.Len() != 2 || !init.Contains(main) {
		t.Fatalf("pod %v, init %v, main %v", p.Set(), init, main)
	}
	give(t, v, p.Cards)
	if got, want := mustReject(t, c, v, whole(4)).String(), "needs 4 whole GPUs, 3 are free (5 used)"; got != want {
		t.Errorf("rejection %q, want %q", got, want)
	}
}

func TestCaseB082ContainersByName(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	// Init containers without GPU bring no claim, so the claims are the same for any number of them.
	r := claims(shareClaim("x", allocate.PhaseMain, 16000*mib), shareClaim("y", allocate.PhaseMain, 16000*mib))
	v := emptyView(flat(t, 1, 40000*mib))
	choice := mustChoose(t, c, v, r)
	x, y := container(t, choice, "x")[0], container(t, choice, "y")[0]
	if x.VRAMBytes != 16000*mib || y.VRAMBytes != 16000*mib || x.SliceMask&y.SliceMask != 0 || choice.Cards[0].VRAMBytes != 32000*mib {
		t.Errorf("x %+v, y %+v, pod %+v", x, y, choice.Cards)
	}
	give(t, v, mustChoose(t, c, v, share(16000*mib, 1)).Cards)
	rej := mustReject(t, c, v, r)
	if want := `container "y" needs 15.6 GiB of 1 GPU: no card has 15.6 GiB free; the largest free part is 7.8 GiB (1 taken by this pod's other claims)`; rej.String() != want {
		t.Errorf("rejection %q, want %q", rej, want)
	}
}

func TestCaseB085ManyContainers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 8, 20} {
		c, v := allocate.NewChooser(), emptyView(n8s(t))
		fits, huge := &allocate.Request{}, &allocate.Request{}
		for i := range n {
			fits.Claims = append(fits.Claims, shareClaim(fmt.Sprintf("c%02d", i), allocate.PhaseMain, 30000*mib))
			huge.Claims = append(huge.Claims, shareClaim(fmt.Sprintf("c%02d", i), allocate.PhaseMain, 30000*mib))
		}
		huge.Claims[n-1].VRAMBytes = 90000 * mib
		if n <= 16 {
			choice := mustChoose(t, c, v, fits)
			if len(choice.Containers) != n {
				t.Errorf("%d containers get %d parts", n, len(choice.Containers))
			}
		} else {
			mustReject(t, c, v, fits) // two a card, eight cards
		}
		rej := mustReject(t, c, v, huge)
		if want := fmt.Sprintf("container \"c%02d\" needs 87.9 GiB", n-1); !strings.HasPrefix(rej.String(), want) || !rej.Permanent {
			t.Errorf("rejection %q, want %q...", rej, want)
		}
	}
}

func TestCaseB094SickCardInUse(t *testing.T) {
	t.Parallel()
	spec := topology.Spec{Cards: cards(2, 24576*mib)}
	spec.Cards[0].Fault = "Xid 79"
	c, v := allocate.NewChooser(), emptyView(node(t, spec))
	allocate.Occupy(&v.Use[0], wholeShare(v.Topology, 0))
	refresh(v)
	if got := mustChoose(t, c, v, whole(1)).Set(); got != topology.SetOf(1) {
		t.Errorf("chose %v, want the healthy idle card", got)
	}
	if got, want := mustReject(t, c, v, whole(2)).String(), "needs 2 whole GPUs, 1 is free (1 unhealthy)"; got != want {
		t.Errorf("rejection %q, want %q", got, want)
	}
}

func TestCaseB106BrokenCardsAreNoCards(t *testing.T) {
	t.Parallel()
	spec := topology.Spec{Cards: cards(2, 24576*mib)}
	spec.Cards[0].VRAMBytes, spec.Cards[0].Fault = 0, "vramBytes is 0"
	spec.Cards[1].VRAMBytes = -5
	c, v := allocate.NewChooser(), emptyView(node(t, spec))
	for _, r := range []*allocate.Request{whole(1), share(1, 1), whole(9)} {
		if rej := mustReject(t, c, v, r); rej.Counts[allocate.CauseUnhealthy] != 2 || !rej.Permanent {
			t.Errorf("rejection %q, want 2 unhealthy for ever", rej)
		}
	}
	mustReject(t, c, emptyView(n8s(t)), whole(9))
}

func TestCaseB107HugeSizesDoNotWrap(t *testing.T) {
	t.Parallel()
	c, full := allocate.NewChooser(), viewOf(flat(t, 1, 24576*mib), 0)
	for _, bytes := range []int64{16 * gib, 4096 * gib, math.MaxInt64} {
		for _, v := range []*allocate.View{full, emptyView(full.Topology)} {
			if bytes == 16*gib && v != full {
				continue
			}
			mustReject(t, c, v, share(bytes, 1))
			mustReject(t, c, v, claims(shareClaim("a", 0, bytes), shareClaim("b", 0, bytes), shareClaim("c", 0, bytes)))
		}
	}
	mustReject(t, c, emptyView(full.Topology), whole(math.MaxInt))
	mustReject(t, c, emptyView(full.Topology), claims(wholeClaim("a", 0, math.MaxInt), wholeClaim("b", 0, math.MaxInt)))
	mustReject(t, c, emptyView(full.Topology), share(1, math.MaxInt))
	mustReject(t, c, emptyView(full.Topology), mig("1g.5gb", math.MaxInt))
}

func TestCaseB114NVSwitchAndPairs(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	on := func(n *topology.Node) allocate.Choice { return mustChoose(t, c, emptyView(n), whole(2)) }
	s, p := on(n8s(t)), on(n8p(t))
	if s.Quality.Bottleneck != n8s(t).Shape().Pair(0, 7) || s.Quality.NUMANodes != 1 || s.Set() != topology.SetOf(0, 1) {
		t.Errorf("NVSwitch: %v %+v", s.Set(), s.Quality)
	}
	if p.Set() != topology.SetOf(0, 1) || p.Quality.Remaining != 2 {
		t.Errorf("pairs: %v %+v", p.Set(), p.Quality)
	}
	// Any two cards of an NVSwitch node are joined; on pairs only the real ones are.
	if got := mustChoose(t, c, viewOf(n8s(t), topology.SetOf(1, 2, 6)), whole(2)); got.Set() != topology.SetOf(1, 2) || got.Quality.Bottleneck != s.Quality.Bottleneck {
		t.Errorf("NVSwitch with 1, 2, 6 free: %v %+v", got.Set(), got.Quality)
	}
	if got := mustChoose(t, c, viewOf(n8p(t), topology.SetOf(0, 2, 3, 4)), whole(2)); got.Set() != topology.SetOf(2, 3) {
		t.Errorf("pairs with 0, 2, 3, 4 free: %v", got.Set())
	}
	// A single card is taken where it breaks no pair.
	if got := mustChoose(t, c, viewOf(n8p(t), topology.SetOf(0, 1, 2, 4, 5)), whole(1)); got.Set() != topology.SetOf(2) {
		t.Errorf("pairs with 0, 1, 2, 4, 5 free: one card is %v, want the one without a peer", got.Set())
	}
}

func TestCaseB115MissingLinksAreWorst(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	n := node(t, topology.Spec{Cards: cards(6, 24*gib), Links: matrix(6, func(i, j int) topology.Link {
		if i == 2 && j == 3 || i == 4 && j == 5 {
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 1}
		}
		return topology.Link{}
	})})
	for free, want := range map[topology.GPUSet]topology.GPUSet{
		n.All():                    topology.SetOf(4, 5), // 2 and 3 are on two NUMA nodes
		topology.SetOf(0, 1, 2, 3): topology.SetOf(2, 3),
		topology.SetOf(0, 1, 4, 5): topology.SetOf(4, 5),
		topology.SetOf(0, 2, 3):    topology.SetOf(2, 3),
	} {
		if got := mustChoose(t, c, viewOf(n, free), whole(2)).Set(); got != want {
			t.Errorf("of %v chose %v, want %v", free, got, want)
		}
	}
	r := whole(2)
	r.NUMA = allocate.NUMANone
	if got := mustChoose(t, c, emptyView(n), r).Set(); got != topology.SetOf(2, 3) {
		t.Errorf("without regard to NUMA chose %v, want the lower pair", got)
	}
	// Without any link NUMA decides, then the index.
	if got := mustChoose(t, c, viewOf(flat(t, 8, gib), topology.SetOf(3, 4, 5)), whole(2)).Set(); got != topology.SetOf(4, 5) {
		t.Errorf("without links chose %v, want the two of one NUMA node", got)
	}
}

func TestCaseB122QualityTellsAnEmptyNodeFromAFullerOne(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	n1 := mustChoose(t, c, emptyView(n8s(t)), whole(1)).Quality
	n2 := mustChoose(t, c, viewOf(n8s(t), topology.SetOf(5, 6, 7)), whole(1)).Quality
	if n1.FreeLeft != 7 || n2.FreeLeft != 2 || n1.Remaining != 7 || n2.Remaining != 2 {
		t.Errorf("empty node %+v, fuller node %+v", n1, n2)
	}
}
