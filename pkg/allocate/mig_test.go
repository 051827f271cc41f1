package allocate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func instance(profile string, start, size int) topology.MIGInstance {
	return topology.MIGInstance{Profile: profile, Start: start, Size: size, VRAMBytes: int64(size) * 5 * gib}
}

// migNode has cards in MIG mode with the given instances; a card without any is an ordinary one.
func migNode(tb testing.TB, lists ...[]topology.MIGInstance) *topology.Node {
	spec := topology.Spec{Cards: cards(len(lists), 40*gib)}
	for i, list := range lists {
		spec.Cards[i].MIG, spec.Cards[i].MIGEnabled = list, len(list) > 0
	}
	return node(tb, spec)
}

// sevenths is a card of seven 1g.5gb.
func sevenths() []topology.MIGInstance {
	var out []topology.MIGInstance
	for i := range 7 {
		out = append(out, instance("1g.5gb", i, 1))
	}
	return out
}

func TestCaseB117InstancesOnDifferentCards(t *testing.T) {
	lists := make([][]topology.MIGInstance, 8)
	for i := range lists {
		lists[i] = sevenths()
	}
	v := emptyView(migNode(t, lists...))
	r := &allocate.Request{}
	for _, name := range []string{"a", "b", "c", "d"} {
		r.Claims = append(r.Claims, allocate.Claim{Container: name, Kind: allocate.KindMIG, Count: 1, Profile: "1g.5gb"})
	}
	c := allocate.NewChooser()
	choice := mustChoose(t, c, v, r)
	if choice.Set() != topology.SetOf(0, 1, 2, 3) || len(choice.Cards) != 4 {
		t.Errorf("chose %+v, want one instance on each of four cards", choice.Cards)
	}
	// No search: the work for one pod does not grow with the number of ways to choose.
	if allocs := testing.AllocsPerRun(20, func() { mustChoose(t, c, v, r) }); allocs > 150 {
		t.Errorf("%v allocations for one choice", allocs)
	}
	// One claim is packed, and the next pod joins the card in use.
	give(t, v, mustChoose(t, c, v, mig("1g.5gb", 4)).Cards)
	next := mustChoose(t, c, v, mig("1g.5gb", 3))
	if next.Set() != topology.SetOf(0) || next.Quality.Broken != 0 {
		t.Errorf("the second pod gets %v", next.Set())
	}
	give(t, v, next.Cards)
	if got := mustChoose(t, c, v, mig("1g.5gb", 8)).Set(); got != topology.SetOf(1, 2) {
		t.Errorf("eight instances are on %v", got)
	}
	mustReject(t, c, v, mig("1g.5gb", 50))
}

func TestCaseB118ExactProfileWhateverTheOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(118, 0))
	list := []topology.MIGInstance{
		instance("2g.10gb", 0, 2), instance("2g.10gb", 2, 2), instance("2g.10gb", 4, 2), instance("1g.5gb", 6, 1),
	}
	small := allocate.CardShare{UUID: "GPU-0", SliceMask: 1 << 6, VRAMBytes: 5 * gib, MIGProfile: "1g.5gb"}
	large := allocate.CardShare{UUID: "GPU-0", SliceMask: 0b11, VRAMBytes: 10 * gib, MIGProfile: "2g.10gb"}
	for range 10 {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, first := range []string{"1g.5gb", "2g.10gb"} {
			c, v := allocate.NewChooser(), emptyView(migNode(t, list))
			for _, profile := range []string{first, map[string]string{"1g.5gb": "2g.10gb", "2g.10gb": "1g.5gb"}[first]} {
				want := small
				if profile == "2g.10gb" {
					want = large
				}
				choice := mustChoose(t, c, v, mig(profile, 1))
				if diff := cmp.Diff([]allocate.CardShare{want}, choice.Cards); diff != "" {
					t.Fatalf("%s after %s first (-want +got):\n%s", profile, first, diff)
				}
				give(t, v, choice.Cards)
			}
			if got, want := mustReject(t, c, v, mig("1g.5gb", 1)).String(), "needs 1 MIG instance 1g.5gb, none is free (1 used)"; got != want {
				t.Errorf("rejection %q, want %q", got, want)
			}
			if got, want := mustReject(t, c, v, mig("1g.10gb", 1)).String(), "needs 1 MIG instance 1g.10gb, none is free (1 no such MIG profile)"; got != want {
				t.Errorf("rejection %q, want %q", got, want)
			}
		}
	}
}

func TestMIGPacking(t *testing.T) {
	t.Parallel()
	halves := []topology.MIGInstance{instance("3g.20gb", 0, 4), instance("3g.20gb", 4, 4)}
	for name, tc := range map[string]struct {
		lists [][]topology.MIGInstance
		used  []int // cards on which another pod holds the first instance
		r     *allocate.Request
		want  topology.GPUSet
	}{
		"the card with all of them":     {[][]topology.MIGInstance{{instance("3g.20gb", 0, 4)}, halves}, nil, mig("3g.20gb", 2), topology.SetOf(1)},
		"fewest cards, then in use":     {[][]topology.MIGInstance{halves, sevenths(), sevenths()}, []int{2}, mig("1g.5gb", 3), topology.SetOf(2)},
		"in use only if it holds all":   {[][]topology.MIGInstance{sevenths(), sevenths()}, []int{1}, mig("1g.5gb", 7), topology.SetOf(0)},
		"two cards, the used one first": {[][]topology.MIGInstance{sevenths(), sevenths(), sevenths()}, []int{2}, mig("1g.5gb", 9), topology.SetOf(0, 2)},
		"an ordinary card is none":      {[][]topology.MIGInstance{nil, sevenths()}, nil, mig("1g.5gb", 1), topology.SetOf(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := emptyView(migNode(t, tc.lists...))
			for _, i := range tc.used {
				m := v.Topology.Card(i).MIG[0]
				give(t, v, []allocate.CardShare{{Index: i, SliceMask: m.SliceMask(), VRAMBytes: m.VRAMBytes, MIGProfile: m.Profile}})
			}
			choice := mustChoose(t, allocate.NewChooser(), v, tc.r)
			if choice.Set() != tc.want || len(choice.Cards) != tc.r.Claims[0].Count {
				t.Errorf("chose %+v, want cards %v", choice.Cards, tc.want)
			}
			give(t, v, choice.Cards)
		})
	}
}

func TestMIGInitContainersReuseInstances(t *testing.T) {
	t.Parallel()
	claim := func(name string, phase allocate.Phase, n int) allocate.Claim {
		return allocate.Claim{Container: name, Phase: phase, Kind: allocate.KindMIG, Count: n, Profile: "1g.5gb"}
	}
	v := emptyView(migNode(t, sevenths()))
	choice := mustChoose(t, allocate.NewChooser(), v, claims(
		claim("early", allocate.PhaseInit, 3), claim("side", allocate.PhaseSidecar, 2), claim("late", allocate.PhaseInit, 4), claim("main", allocate.PhaseMain, 3)))
	masks := map[string]uint64{}
	for _, c := range choice.Containers {
		for _, s := range c.Cards {
			masks[c.Name] |= s.SliceMask
		}
	}
	if len(choice.Cards) != 6 || masks["side"]&masks["main"] != 0 || masks["side"]&masks["late"] != 0 {
		t.Errorf("the pod holds %d instances, want 2 + 4; %#x", len(choice.Cards), masks)
	}
	mustReject(t, allocate.NewChooser(), v, claims(claim("side", allocate.PhaseSidecar, 4), claim("late", allocate.PhaseInit, 4)))
}

func TestMixedKinds(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	n := migNode(t, nil, nil, nil, sevenths())
	r := claims(
		allocate.Claim{Container: "m", Kind: allocate.KindMIG, Count: 2, Profile: "1g.5gb"},
		shareClaim("s", allocate.PhaseMain, 10*gib),
		wholeClaim("w", allocate.PhaseMain, 2),
	)
	v := emptyView(n)
	choice := mustChoose(t, c, v, r)
	if got := setOf(container(t, choice, "m")); got != topology.SetOf(3) {
		t.Errorf("m gets %v", got)
	}
	if w, s := setOf(container(t, choice, "w")), setOf(container(t, choice, "s")); w.Len() != 2 || s.Len() != 1 || w&s != 0 {
		t.Errorf("w gets %v, s gets %v", w, s)
	}
	if choice.Quality.Broken != 2 || len(choice.Cards) != 5 {
		t.Errorf("pod %+v", choice)
	}
	set, quality, rej, err := c.Assess(v, r)
	if rej != nil || err != nil || set != choice.Set() || quality != choice.Quality {
		t.Errorf("Assess = %v %+v %v %v", set, quality, rej, err)
	}
	give(t, v, choice.Cards)
	wantLeft := mustReject(t, c, v, claims(shareClaim("s", 0, 31*gib), allocate.Claim{Container: "m", Kind: allocate.KindMIG, Count: 1, Profile: "1g.5gb"}))
	if got, want := wantLeft.String(), `container "s" needs 31.0 GiB of 1 GPU: no card has 31.0 GiB free; the largest free part is 30.0 GiB (1 MIG mode, 3 used)`; got != want {
		t.Errorf("rejection %q, want %q", got, want)
	}
	// Under one NUMA node the whole pod is on one: cards 0, 1 are node 0; 2, 3 node 1.
	r = claims(shareClaim("s", 0, 20*gib), allocate.Claim{Container: "m", Kind: allocate.KindMIG, Count: 1, Profile: "1g.5gb"})
	r.NUMA = allocate.NUMARequire
	if got := mustChoose(t, c, emptyView(n), r).Set(); got != topology.SetOf(2, 3) {
		t.Errorf("with NUMA required chose %v", got)
	}
	r.Claims[0].Count = 2
	if got, want := mustReject(t, c, emptyView(n), r).String(), `container "s" needs 20.0 GiB of each of 2 GPUs on one NUMA node, 1 has room (1 MIG mode, 2 wrong NUMA)`; got != want {
		t.Errorf("rejection %q, want %q", got, want)
	}
}

// TestMIGPrefersNearAdapters: among cards alike otherwise the one near an adapter is taken, and required it must be.
func TestMIGPrefersNearAdapters(t *testing.T) {
	t.Parallel()
	spec := topology.Spec{Cards: cards(3, 40*gib)}
	for i := range spec.Cards {
		spec.Cards[i].MIG, spec.Cards[i].MIGEnabled = sevenths(), true
	}
	spec.NICs = []topology.NIC{{Links: []topology.LinkType{topology.LinkSYS, topology.LinkPIX, topology.LinkPHB}}}
	v := emptyView(node(t, spec))
	for policy, want := range map[allocate.NICPolicy]topology.GPUSet{
		allocate.NICNone: topology.SetOf(0), allocate.NICPrefer: topology.SetOf(1), allocate.NICRequire: topology.SetOf(1),
	} {
		r := mig("1g.5gb", 2)
		r.NIC = policy
		choice := mustChoose(t, allocate.NewChooser(), v, r)
		if choice.Set() != want || (policy != allocate.NICNone) != (choice.Quality.NearNICs == 1) {
			t.Errorf("policy %d chose %v %+v, want %v", policy, choice.Set(), choice.Quality, want)
		}
	}
	r := mig("1g.5gb", 8)
	r.NIC = allocate.NICRequire
	if got, want := mustReject(t, allocate.NewChooser(), v, r).String(), "needs 8 MIG instances 1g.5gb with a NIC at PIX or PXB, 7 are free (2 far NIC)"; got != want {
		t.Errorf("rejection %q, want %q", got, want)
	}
}
