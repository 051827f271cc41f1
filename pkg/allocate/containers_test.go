package allocate_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestContainersOfWholeCards compares the pod's number of cards with a count phase by phase, its cards with the oracle's
// choice for that number, and checks which containers may share cards.
func TestContainersOfWholeCards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := mustNode(t, anySpec(8).Draw(t, "spec"))
		v := viewOf(n, topology.GPUSet(rapid.Uint64().Draw(t, "free"))&n.All())
		r := &allocate.Request{NUMA: rapid.SampledFrom(numaPolicies).Draw(t, "NUMA")}
		inits := rapid.IntRange(0, 3).Draw(t, "inits")
		peak, side, mains := 0, 0, 0
		for i := range inits + rapid.IntRange(1, 3).Draw(t, "mains") {
			claim := wholeClaim(fmt.Sprint(i), allocate.PhaseMain, rapid.IntRange(1, 3).Draw(t, "count"))
			if i < inits {
				claim.Phase = rapid.SampledFrom([]allocate.Phase{allocate.PhaseInit, allocate.PhaseSidecar}).Draw(t, "phase")
			}
			switch claim.Phase {
			case allocate.PhaseInit:
				peak = max(peak, side+claim.Count)
			case allocate.PhaseSidecar:
				side += claim.Count
			case allocate.PhaseMain:
				mains += claim.Count
			}
			r.Claims = append(r.Claims, claim)
		}
		peak = max(peak, side+mains)
		want, _ := newOracle(n).best(uint64(v.Free), peak, r.NUMA, r.NIC)
		choice, rej, err := allocate.NewChooser().Choose(v, r)
		if err != nil || choice.Set() != topology.GPUSet(want) || (rej != nil) != (want == 0) {
			t.Fatalf("chose %v, rejection %v, error %v; the oracle %v for %d cards", choice.Set(), rej, err, topology.GPUSet(want), peak)
		}
		if rej == nil {
			checkWholeContainers(t, r, choice)
		}
	})
}

func checkWholeContainers(t rapid.TB, r *allocate.Request, choice allocate.Choice) {
	sets := make([]topology.GPUSet, len(r.Claims))
	for i, c := range choice.Containers {
		sets[i] = setOf(c.Cards)
		if c.Name != r.Claims[i].Container || sets[i].Len() != r.Claims[i].Count || len(c.Cards) != r.Claims[i].Count || !choice.Set().Contains(sets[i]) {
			t.Fatalf("container %d: %+v of %v", i, c, choice.Set())
		}
		for j := range i {
			together := r.Claims[j].Phase == allocate.PhaseSidecar || r.Claims[j].Phase == r.Claims[i].Phase && r.Claims[i].Phase == allocate.PhaseMain
			if together && sets[i]&sets[j] != 0 {
				t.Fatalf("containers %d and %d run at once on %v and %v", j, i, sets[j], sets[i])
			}
		}
	}
}

// TestContainersGetTheBestParts: the largest claim gets the best part whatever its place, and ties go in order.
func TestContainersGetTheBestParts(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	v := viewOf(n8p(t), topology.SetOf(0, 2, 3, 6, 7))
	choice := mustChoose(t, c, v, claims(wholeClaim("a", 0, 1), wholeClaim("b", 0, 2), wholeClaim("c", 0, 2)))
	// b leaves 2 and 3, which are nearer to 0 than 6 and 7 are.
	for name, want := range map[string]topology.GPUSet{"a": topology.SetOf(0), "b": topology.SetOf(6, 7), "c": topology.SetOf(2, 3)} {
		if got := setOf(container(t, choice, name)); got != want {
			t.Errorf("%s gets %v, want %v", name, got, want)
		}
	}
	// Two claims of one container are one part; claims of one init container add up.
	choice = mustChoose(t, c, v, claims(wholeClaim("init", allocate.PhaseInit, 2), wholeClaim("init", allocate.PhaseInit, 2), wholeClaim("main", 0, 2), wholeClaim("main", 0, 1)))
	if len(choice.Containers) != 2 || choice.Set().Len() != 4 {
		t.Fatalf("containers %+v", choice.Containers)
	}
	if init, main := container(t, choice, "init"), container(t, choice, "main"); setOf(init).Len() != 4 || setOf(main).Len() != 3 || len(main) != 3 {
		t.Errorf("init %+v, main %+v", init, main)
	}
}

// TestMixedInitWhole: whole cards of an init container and shares of the app container stay on different cards.
func TestMixedInitWhole(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	choice := mustChoose(t, c, emptyView(n8s(t)), claims(
		wholeClaim("init", allocate.PhaseInit, 7), shareClaim("init", allocate.PhaseInit, gib), shareClaim("main", 0, 2*gib)))
	if got := container(t, choice, "init"); len(got) != 8 || choice.Set().Len() != 8 {
		t.Errorf("init gets %+v", got)
	}
	if main := container(t, choice, "main"); len(main) != 1 || main[0].SliceMask != 1 || choice.Cards[main[0].Index].VRAMBytes != 2*gib {
		t.Errorf("main gets %+v of %+v", main, choice.Cards)
	}
}
