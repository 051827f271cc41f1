package allocate_test

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// shareBytes is a claim's bytes on a card, by big integers.
func shareBytes(c allocate.Claim, vram int64) int64 {
	if c.FractionPPB == 0 {
		return c.VRAMBytes
	}
	x := new(big.Int).Mul(big.NewInt(vram), big.NewInt(c.FractionPPB))
	x.Add(x, big.NewInt(999_999_999))
	return x.Div(x, big.NewInt(1_000_000_000)).Int64()
}

// roomFor says whether a card can take the shares of several claims at once: the rules as a reader of the package
// documentation would check them.
func roomFor(v *allocate.View, i int, claims ...allocate.Claim) bool {
	card, use := v.Topology.Card(i), v.Use[i]
	if !card.Healthy || card.MIGEnabled || v.Closed.Has(i) || card.VRAMBytes == 0 {
		return false
	}
	bytes, milli := use.VRAMBytes, use.ComputeMilli
	all, promised := false, int32(0)
	for _, c := range claims {
		bytes += shareBytes(c, card.VRAMBytes)
		milli += c.ComputeMilli
		promised += c.ComputeMilli
		all = all || c.ComputeMilli == 1000
	}
	switch {
	case bytes > card.VRAMBytes || milli > 1000:
		return false
	case all && len(claims) > 1:
		return false
	case promised == 1000 && use.Holders > 0:
		return false
	case promised == 0 && use.ComputeMilli >= 1000:
		return false
	}
	return true
}

// measureShare lists what decides between sets of cards for a share, most important first; more is better.
func (o *oracle) measureShare(v *allocate.View, c allocate.Claim, mask uint64, numa allocate.NUMAPolicy, nic allocate.NICPolicy) [8]int64 {
	var broken, spare int64
	for _, i := range members(mask) {
		if v.Use[i].Holders == 0 {
			broken++
		}
		spare += v.Topology.Card(i).VRAMBytes - v.Use[i].VRAMBytes - shareBytes(c, v.Topology.Card(i).VRAMBytes)
	}
	m := o.measure(uint64(v.Free), mask, numa, nic)
	return [8]int64{-broken, m[0], m[1], m[2], m[3], m[4], m[5], -spare}
}

func lessShare(a, b [8]int64) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// bestShare is the best set for a request of one share, 0 where there is none.
func (o *oracle) bestShare(v *allocate.View, r *allocate.Request) uint64 {
	c := r.Claims[0]
	var set uint64
	var measure [8]int64
	for mask := range uint64(1) << o.n {
		if bits.OnesCount64(mask) != c.Count || !o.allows(mask, r.NUMA, r.NIC) {
			continue
		}
		fits := true
		for _, i := range members(mask) {
			fits = fits && roomFor(v, i, c)
		}
		if !fits {
			continue
		}
		if m := o.measureShare(v, c, mask, r.NUMA, r.NIC); set == 0 || lessShare(measure, m) {
			set, measure = mask, m
		}
	}
	return set
}

// anyShare draws a claim of a share.
func anyShare(container string) *rapid.Generator[allocate.Claim] {
	return rapid.Custom(func(t *rapid.T) allocate.Claim {
		c := allocate.Claim{
			Container:    container,
			Kind:         allocate.KindShare,
			Count:        rapid.IntRange(1, 3).Draw(t, "count"),
			ComputeMilli: rapid.SampledFrom([]int32{0, 0, 1, 300, 500, 1000}).Draw(t, "milli"),
		}
		if rapid.Bool().Draw(t, "fraction") {
			c.FractionPPB = rapid.SampledFrom([]int64{1, 250_000_000, 333_333_333, 500_000_000, 1_000_000_000}).Draw(t, "ppb")
		} else {
			c.VRAMBytes = rapid.Int64Range(1, 60).Draw(t, "bytes")
		}
		return c
	})
}

// sharingNode draws a node of small cards of which some are sick, in MIG mode or of unknown memory.
func sharingNode() *rapid.Generator[*topology.Node] {
	return rapid.Custom(func(t *rapid.T) *topology.Node {
		spec := anySpec(6).Draw(t, "spec")
		for i := range spec.Cards {
			c := &spec.Cards[i]
			c.VRAMBytes = rapid.SampledFrom([]int64{0, 7, 48, 64, 100, 100, 100}).Draw(t, "vram")
			c.Healthy = rapid.IntRange(0, 9).Draw(t, "sick") > 0
			c.MIGEnabled = rapid.IntRange(0, 9).Draw(t, "mig") == 0
		}
		n, err := topology.New(spec, topology.DefaultRates())
		if err != nil {
			t.Fatalf("topology.New: %v", err)
		}
		return n
	})
}

// TestShareSequences lets pods of one share or of whole cards come and go and compares every answer with the
// oracle's; bytes and compute never go beyond a card.
func TestShareSequences(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := sharingNode().Draw(t, "node")
		c, o := allocate.NewChooser(), newOracle(n)
		v := emptyView(n)
		v.Closed = topology.GPUSet(rapid.Uint64().Draw(t, "closed")&rapid.Uint64().Draw(t, "and")) & n.All()
		refresh(v)
		var pods [][]allocate.CardShare
		for range 25 {
			if len(pods) > 0 && rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				k := rapid.IntRange(0, len(pods)-1).Draw(t, "victim")
				back(v, pods[k])
				pods = slices.Delete(pods, k, k+1)
			} else if held := comes(t, c, o, v); held != nil {
				pods = append(pods, held)
			}
		}
		for _, p := range pods {
			back(v, p)
		}
		if diff := cmp.Diff(make([]allocate.CardUse, n.Len()), v.Use); diff != "" {
			t.Fatalf("use is left after the last pod: %s", diff)
		}
	})
}

// comes draws a pod of one claim and returns what it got, after comparing the answer with the oracle's.
func comes(t *rapid.T, c *allocate.Chooser, o *oracle, v *allocate.View) []allocate.CardShare {
	r := &allocate.Request{
		Claims: []allocate.Claim{anyShare("main").Draw(t, "claim")},
		NUMA:   rapid.SampledFrom(numaPolicies).Draw(t, "NUMA"),
		NIC:    rapid.SampledFrom(nicPolicies).Draw(t, "NIC"),
	}
	want := o.bestShare(v, r)
	if rapid.IntRange(0, 4).Draw(t, "whole") == 0 {
		r.Claims = whole(rapid.IntRange(1, 2).Draw(t, "n")).Claims
		want, _ = o.best(uint64(v.Free), r.Claims[0].Count, r.NUMA, r.NIC)
	}
	choice, rej, err := c.Choose(v, r)
	fits := c.Fits(v, r)
	if err != nil || (rej != nil) != (want == 0) || (fits != nil) != (rej != nil) || choice.Set() != topology.GPUSet(want) {
		t.Fatalf("%+v on %+v: chose %v, rejection %v, Fits %v, error %v; the oracle %v", r, v.Use, choice.Set(), rej, fits, err, topology.GPUSet(want))
	}
	if q := choice.Quality; rej == nil && r.Claims[0].Kind == allocate.KindShare {
		m := measureOf(q)
		got := [8]int64{-int64(q.Broken), m[0], m[1], m[2], m[3], m[4], m[5], -q.SpareBytes}
		if diff := cmp.Diff(o.measureShare(v, r.Claims[0], want, r.NUMA, r.NIC), got); diff != "" {
			t.Fatalf("quality of %v (-want +got):\n%s", choice.Set(), diff)
		}
	}
	if rej != nil && (rej.Cards() != o.n || rej.Have >= r.Claims[0].Count) {
		t.Fatalf("rejection %q counts %d cards, has %d", rej, rej.Cards(), rej.Have)
	}
	hold(t, v, choice)
	return choice.Cards
}

// hold charges the view with a choice and checks that no card is beyond its size.
func hold(t rapid.TB, v *allocate.View, choice allocate.Choice) {
	if err := v.CanHold(choice.Cards); err != nil {
		t.Fatal(err)
	}
	for _, s := range choice.Cards {
		allocate.Occupy(&v.Use[s.Index], s)
	}
	refresh(v)
	for i, u := range v.Use {
		if u.VRAMBytes > v.Topology.Card(i).VRAMBytes || u.ComputeMilli > allocate.MilliPerCard {
			t.Fatalf("card %d of %d bytes holds %+v", i, v.Topology.Card(i).VRAMBytes, u)
		}
	}
}

// anyPod draws claims of shares for init containers, sidecars and app containers, one card each.
func anyPod() *rapid.Generator[*allocate.Request] {
	return rapid.Custom(func(t *rapid.T) *allocate.Request {
		r := &allocate.Request{}
		inits := rapid.IntRange(0, 3).Draw(t, "inits")
		for i := range inits + rapid.IntRange(0, 3).Draw(t, "mains") {
			c := anyShare(fmt.Sprintf("c%d", i)).Draw(t, "claim")
			c.Count = 1
			if i < inits {
				c.Phase = rapid.SampledFrom([]allocate.Phase{allocate.PhaseInit, allocate.PhaseSidecar}).Draw(t, "phase")
			}
			r.Claims = append(r.Claims, c)
		}
		return r
	})
}

// phases lists the moments at which a pod holds most: while each plain init container runs, by the index of its
// claim, and at the end, by the number of claims.
func phases(r *allocate.Request) []int {
	var out []int
	for i, c := range r.Claims {
		if c.Phase == allocate.PhaseInit {
			out = append(out, i)
		}
	}
	return append(out, len(r.Claims))
}

// runs says whether claim k is held in a phase.
func runs(r *allocate.Request, k, phase int) bool {
	switch r.Claims[k].Phase {
	case allocate.PhaseInit:
		return k == phase
	case allocate.PhaseSidecar:
		return k < phase
	case allocate.PhaseMain:
	}
	return phase == len(r.Claims)
}

// podFits looks at every assignment of cards to claims, phase by phase.
func podFits(v *allocate.View, r *allocate.Request) bool {
	at := make([]int, len(r.Claims))
	var place func(k int) bool
	place = func(k int) bool {
		if k == len(at) {
			return !slices.ContainsFunc(phases(r), func(phase int) bool { return !phaseFits(v, r, at, phase) })
		}
		for i := range v.Topology.Len() {
			at[k] = i
			if place(k + 1) {
				return true
			}
		}
		return false
	}
	return place(0)
}

func phaseFits(v *allocate.View, r *allocate.Request, at []int, phase int) bool {
	together := make([][]allocate.Claim, v.Topology.Len())
	for k, c := range r.Claims {
		if runs(r, k, phase) {
			together[at[k]] = append(together[at[k]], c)
		}
	}
	for i, cs := range together {
		if len(cs) > 0 && !roomFor(v, i, cs...) {
			return false
		}
	}
	return true
}

// TestPodsOfManyShares compares whether a pod fits with every assignment there is, and checks what it gets: each
// container its own bytes, and the pod the most of any phase.
func TestPodsOfManyShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := sharingNode().Draw(t, "node")
		c := allocate.NewChooser()
		v := emptyView(n)
		for range 3 {
			choice, _, err := c.Choose(v, &allocate.Request{Claims: []allocate.Claim{anyShare("x").Draw(t, "other")}})
			if err != nil {
				t.Fatal(err)
			}
			hold(t, v, choice)
		}
		r := anyPod().Draw(t, "pod")
		if len(r.Claims) == 0 {
			return
		}
		choice, rej, err := c.Choose(v, r)
		if fits := podFits(v, r); err != nil || (rej == nil) != fits {
			t.Fatalf("%+v on %+v: rejection %v, error %v; by trying everything it fits: %v", r.Claims, v.Use, rej, err, fits)
		}
		if rej == nil {
			checkContainers(t, v, r, choice)
			hold(t, v, choice)
		}
	})
}

// checkContainers checks that what the containers get is what they claim, that it adds up phase by phase to at most what
// the pod holds, and that the pod holds no more than the largest phase.
func checkContainers(t rapid.TB, v *allocate.View, r *allocate.Request, choice allocate.Choice) {
	for k, c := range r.Claims {
		got := choice.Containers[k]
		if got.Name != c.Container || len(got.Cards) != c.Count {
			t.Fatalf("container %d is %+v, the claim %+v", k, got, c)
		}
		for _, s := range got.Cards {
			vram := v.Topology.Card(s.Index).VRAMBytes
			want := shareBytes(c, vram)
			if s.VRAMBytes != want || s.ComputeMilli != c.ComputeMilli || bits.OnesCount64(s.SliceMask) != int(want*64/vram) {
				t.Fatalf("container %s gets %+v, want %d bytes of %d", c.Container, s, want, vram)
			}
		}
	}
	most := make(map[int]allocate.CardShare)
	for _, phase := range phases(r) {
		for i, s := range phaseUse(t, r, choice, phase) {
			m := most[i]
			m.SliceMask |= s.SliceMask
			m.VRAMBytes, m.ComputeMilli = max(m.VRAMBytes, s.VRAMBytes), max(m.ComputeMilli, s.ComputeMilli)
			most[i] = m
		}
	}
	if len(most) != len(choice.Cards) {
		t.Fatalf("the pod holds %+v, its containers %+v", choice.Cards, most)
	}
	for _, s := range choice.Cards {
		m := most[s.Index]
		if s.VRAMBytes != m.VRAMBytes || s.ComputeMilli != m.ComputeMilli || m.SliceMask&^s.SliceMask != 0 {
			t.Fatalf("the pod holds %+v of card %d, its largest phase is %+v", s, s.Index, m)
		}
		vram := v.Topology.Card(s.Index).VRAMBytes
		if want := int(s.VRAMBytes * 64 / vram); bits.OnesCount64(s.SliceMask) != want {
			t.Fatalf("%d of %d bytes show as %d slices, want %d", s.VRAMBytes, vram, bits.OnesCount64(s.SliceMask), want)
		}
	}
}

// phaseUse adds up what the containers of one phase have of each card; their slices are disjoint.
func phaseUse(t rapid.TB, r *allocate.Request, choice allocate.Choice, phase int) map[int]allocate.CardShare {
	now := make(map[int]allocate.CardShare)
	for k := range r.Claims {
		if !runs(r, k, phase) {
			continue
		}
		for _, s := range choice.Containers[k].Cards {
			sum := now[s.Index]
			if sum.SliceMask&s.SliceMask != 0 {
				t.Fatalf("container %d has slices %#x of card %d beside another's %#x", k, s.SliceMask, s.Index, sum.SliceMask)
			}
			sum.SliceMask |= s.SliceMask
			sum.VRAMBytes += s.VRAMBytes
			sum.ComputeMilli += s.ComputeMilli
			now[s.Index] = sum
		}
	}
	return now
}

// used occupies bytes of card i.
func used(v *allocate.View, i int, bytes int64) {
	allocate.Occupy(&v.Use[i], allocate.CardShare{Index: i, VRAMBytes: bytes})
	refresh(v)
}

// TestSharesAreRearranged: where placing the larger claims first fails, another arrangement is found on small cases.
func TestSharesAreRearranged(t *testing.T) {
	t.Parallel()
	// left gives cards of 100 bytes on which other pods leave so much.
	left := func(bytes ...int64) *allocate.View {
		v := emptyView(flat(t, len(bytes), 100))
		for i, b := range bytes {
			if b < 100 {
				used(v, i, 100-b)
			}
		}
		return v
	}
	sizes := func(bytes ...int64) *allocate.Request {
		r := &allocate.Request{}
		for i, b := range bytes {
			r.Claims = append(r.Claims, shareClaim(fmt.Sprintf("c%d", i), allocate.PhaseMain, b))
		}
		return r
	}
	two := sizes(50, 30)
	two.Claims[1].Count = 2
	for name, tc := range map[string]struct {
		v        *allocate.View
		r        *allocate.Request
		wantFits bool
	}{
		"6 + 4, 4 + 3":      {left(100, 70), sizes(60, 40, 40, 30), true},
		"one byte too many": {left(100, 70), sizes(60, 40, 40, 31), false},
		"no arrangement":    {left(70, 70, 70), sizes(40, 40, 40, 40), false},
		"two cards of one":  {left(80, 50, 30), two, true},
		"all cards alike":   {left(90, 90, 90, 90), sizes(50, 50, 50, 40, 40, 40, 40, 50), true},
		"a sidecar out of the way": {left(60, 70), claims(
			shareClaim("side", allocate.PhaseSidecar, 50), shareClaim("init", allocate.PhaseInit, 70), shareClaim("main", 0, 10)), true},
		"a lone sidecar out of the way": {left(60, 70), claims(
			shareClaim("side", allocate.PhaseSidecar, 50), shareClaim("init", allocate.PhaseInit, 70)), true},
		"a lone sidecar out of the way of the other card": {left(70, 60), claims(
			shareClaim("side", allocate.PhaseSidecar, 50), shareClaim("init", allocate.PhaseInit, 70)), true},
		"a lone sidecar in the way": {left(40, 70), claims(
			shareClaim("side", allocate.PhaseSidecar, 50), shareClaim("init", allocate.PhaseInit, 70)), false},
		"the sidecar fits one only": {left(60, 70), claims(
			shareClaim("side", allocate.PhaseSidecar, 65), shareClaim("init", allocate.PhaseInit, 66), shareClaim("main", 0, 10)), false},
		"more claims than are searched": {left(100, 70), sizes(60, 40, 40, 25, 1, 1, 1, 1, 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !tc.wantFits {
				mustReject(t, allocate.NewChooser(), tc.v, tc.r)
				return
			}
			choice := mustChoose(t, allocate.NewChooser(), tc.v, tc.r)
			checkContainers(t, tc.v, tc.r, choice)
			give(t, tc.v, choice.Cards)
		})
	}
}

// TestSearchIsCutOff: a pod for which the search would look at 16^7 arrangements is rejected after a bounded number.
func TestSearchIsCutOff(t *testing.T) {
	t.Parallel()
	v := emptyView(flat(t, 16, 100))
	for i := range 15 {
		used(v, i, int64(80-i))
	}
	// The sidecar is on all cards, so the init container finds the one card that is large enough no longer free.
	r := claims(shareClaim("side", allocate.PhaseSidecar, 2), shareClaim("init", allocate.PhaseInit, 100))
	r.Claims[0].Count = 16
	for i := range 7 {
		r.Claims = append(r.Claims, shareClaim(fmt.Sprint(i), allocate.PhaseMain, 1))
	}
	mustReject(t, allocate.NewChooser(), v, r)
}

// TestInitSharesReuseWhatThePodHolds: the pod's charge grows as little as can be.
func TestInitSharesReuseWhatThePodHolds(t *testing.T) {
	t.Parallel()
	v := emptyView(flat(t, 3, 100))
	used(v, 0, 10)
	choice := mustChoose(t, allocate.NewChooser(), v, claims(
		shareClaim("init", allocate.PhaseInit, 60), shareClaim("x", 0, 80), shareClaim("y", 0, 50)))
	init, x := container(t, choice, "init")[0], container(t, choice, "x")[0]
	if init.Index != x.Index || len(choice.Cards) != 2 {
		t.Errorf("init is on card %d, x on %d; the pod holds %+v", init.Index, x.Index, choice.Cards)
	}
	for _, s := range choice.Cards {
		if s.Index == x.Index && s.VRAMBytes != 80 {
			t.Errorf("the pod holds %d bytes of the card, want the larger of 80 and 60", s.VRAMBytes)
		}
	}
}

// TestSharesOfLargeNodes covers shares on nodes of more than ExhaustiveCards cards.
func TestSharesOfLargeNodes(t *testing.T) {
	t.Parallel()
	v := emptyView(islands(t, 20, 4))
	for _, i := range []int{1, 6, 13, 14, 18} {
		used(v, i, 70*gib)
	}
	for name, tc := range map[string]struct {
		r    *allocate.Request
		want topology.GPUSet
	}{
		"the two used neighbours":      {share(10*gib, 2), topology.SetOf(13, 14)},
		"all used and one of the rest": {share(10*gib, 6), topology.SetOf(1, 6, 12, 13, 14, 18)},
		"exactly the used":             {share(10*gib, 5), topology.SetOf(1, 6, 13, 14, 18)},
		"a new island":                 {share(20*gib, 4), topology.SetOf(8, 9, 10, 11)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustChoose(t, allocate.NewChooser(), v, tc.r).Set(); got != tc.want {
				t.Errorf("chose %v, want %v", got, tc.want)
			}
		})
	}
	mustReject(t, allocate.NewChooser(), v, share(10*gib, 21))
}

// sized is a node of cards of the given memory without known links.
func sized(tb testing.TB, vram ...int64) *allocate.View {
	spec := topology.Spec{Cards: cards(len(vram), 0)}
	for i, v := range vram {
		spec.Cards[i].VRAMBytes = v
	}
	return emptyView(node(tb, spec))
}

// TestSharesOfOnePod covers what the containers of one pod are to each other.
func TestSharesOfOnePod(t *testing.T) {
	t.Parallel()
	milli := func(name string, phase allocate.Phase, milli int32) allocate.Claim {
		c := shareClaim(name, phase, 10)
		c.ComputeMilli = milli
		return c
	}
	busy := sized(t, 100)
	used(busy, 0, 1)
	// A sidecar goes to the card in use first; only when it moves on has the init container room there.
	halfUsed, sized50 := sized(t, 100, 80), milli("s", allocate.PhaseSidecar, 400)
	sized50.VRAMBytes = 50
	allocate.Occupy(&halfUsed.Use[0], allocate.CardShare{VRAMBytes: 10, ComputeMilli: 500})
	refresh(halfUsed)
	for name, tc := range map[string]struct {
		v *allocate.View
		r *allocate.Request
		// want is the card of each container; nil is a rejection.
		want []int
	}{
		"compute adds up":                  {sized(t, 100), claims(milli("a", 0, 600), milli("b", 0, 400)), []int{0, 0}},
		"to one card at most":              {sized(t, 100), claims(milli("a", 0, 600), milli("b", 0, 401)), nil},
		"not beside init containers":       {sized(t, 100), claims(milli("i", allocate.PhaseInit, 900), milli("b", 0, 401)), []int{0, 0}},
		"all compute beside nobody":        {busy, claims(milli("a", 0, 1000)), nil},
		"all compute in two parts":         {busy, claims(milli("a", 0, 500), milli("b", 0, 500)), nil},
		"nearly all compute":               {busy, claims(milli("a", 0, 500), milli("b", 0, 499)), []int{0, 0}},
		"all compute beside own":           {sized(t, 100), claims(milli("a", 0, 1000), milli("b", 0, 0)), nil},
		"the broken card is used":          {sized(t, 100, 30), claims(shareClaim("x", 0, 50), shareClaim("y", 0, 20)), []int{0, 0}},
		"init on the fuller card":          {sized(t, 100, 60), claims(shareClaim("i", allocate.PhaseInit, 30), shareClaim("x", 0, 90), shareClaim("y", 0, 30)), []int{0, 0, 1}},
		"init where the pod grows least":   {sized(t, 100, 60), claims(shareClaim("i", allocate.PhaseInit, 55), shareClaim("x", 0, 80), shareClaim("y", 0, 50)), []int{0, 0, 1}},
		"the first try leaves no trace":    {halfUsed, claims(sized50, shareClaim("i", allocate.PhaseInit, 85), milli("m", 0, 600)), []int{1, 0, 1}},
		"own cards are not what is left":   {viewOf(n8p(t), topology.SetOf(1, 2, 3, 4, 5)), claims(shareClaim("x", 0, 81920*mib), shareClaim("y", 0, 81920*mib)), []int{1, 2}},
		"sidecar stays beside the init":    {sized(t, 100, 100), claims(shareClaim("s", allocate.PhaseSidecar, 60), shareClaim("i", allocate.PhaseInit, 50)), []int{0, 1}},
		"init before the sidecar is alone": {sized(t, 100, 100), claims(shareClaim("i", allocate.PhaseInit, 50), shareClaim("s", allocate.PhaseSidecar, 60)), []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.want == nil {
				mustReject(t, allocate.NewChooser(), tc.v, tc.r)
				return
			}
			var got []int
			choice := mustChoose(t, allocate.NewChooser(), tc.v, tc.r)
			for _, c := range choice.Containers {
				got = append(got, c.Cards[0].Index)
			}
			checkContainers(t, tc.v, tc.r, choice)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("cards of the containers (-want +got):\n%s", diff)
			}
		})
	}
}
