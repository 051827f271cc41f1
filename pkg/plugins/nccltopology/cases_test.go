package nccltopology

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB124StartedRackBeatsFreshOne: racks s0, s1, s2 of two one-pod nodes, the first two under one spine. Four members
// that come one by one fill two racks, never three.
func TestCaseB124StartedRackBeatsFreshOne(t *testing.T) {
	for first := range 6 {
		t.Run(fmt.Sprintf("first on node %d", first), func(t *testing.T) {
			f := newFixture(t, racked(3, 2, 2, kit.N1))
			pods := f.elastic("a", 4, kit.GPUs(1))
			start := f.infos[first].Node()
			f.take(t, string(pods[0].UID), start.Name, 1)
			bound := pods[0].DeepCopy()
			bound.Spec.NodeName = start.Name
			f.engine.Gangs().PodSeen(bound)
			inRack := map[string]int{start.Labels[leafKey]: 1}
			for _, pod := range pods[1:] {
				inRack[f.place(t, pod, 1)[:2]]++
			}
			if len(inRack) != 2 {
				t.Fatalf("members by rack: %v, want two racks", inRack)
			}
			if start.Labels[spineKey] == "s1" {
				if diff := cmp.Diff(map[string]int{"r1": 2, "r2": 2}, inRack); diff != "" {
					t.Errorf("members by rack (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestCaseB127RoomFollowsReserve: 100 racks of one node, 100 pods that take one each. The totals of the racks follow every
// reservation: a full rack is never looked at, and one that comes free is at once.
func TestCaseB127RoomFollowsReserve(t *testing.T) {
	f := newFixture(t, racked(100, 1, 10, kit.N8s))
	used := map[string]bool{}
	for i := range 100 {
		pod := kit.Pod("ns", "p", kit.UID(fmt.Sprintf("p%d", i)), kit.GPUs(8))
		r := f.newRoom(f.engine.Fabric(), f.infos, 8)
		for _, info := range f.infos {
			name := info.Node().Name
			if full := r.packing(f.position(name)) < placement.PackedEven; full != used[name] {
				t.Fatalf("after %d pods: rack of %s is full %t, want %t", i, name, full, used[name])
			}
		}
		at := f.place(t, pod, 8)
		if at == "" || used[at] {
			t.Fatalf("pod %d is placed on %q", i, at)
		}
		used[at] = true
	}
	f.engine.Ledger().Forget("p7")
	if at := f.place(t, kit.Pod("ns", "late", kit.UID("late"), kit.GPUs(8)), 8); at == "" {
		t.Error("the rack that came free is not found")
	}
}

// TestCaseB130DomainThatHoldsTheRest: d1 has one free node of four, d2 has four. Three members that come one by one all go
// into d2: room for those that still wait comes before fullness.
func TestCaseB130DomainThatHoldsTheRest(t *testing.T) {
	f := newFixture(t, racked(2, 4, 2, kit.N8s))
	for i := 1; i <= 3; i++ {
		f.take(t, fmt.Sprintf("old%d", i), fmt.Sprintf("r1n%d", i), 8)
	}
	alone := f.scores(t, kit.Pod("ns", "s", kit.UID("s"), kit.GPUs(8)), f.feasible(t, kit.Pod("ns", "s", kit.GPUs(8))))
	if alone["r1n4"] <= alone["r2n1"] {
		t.Errorf("a single scores %v: the fuller rack must win", alone)
	}
	for _, pod := range f.elastic("a", 3, kit.GPUs(8)) {
		if at := f.place(t, pod, 8); at[:2] != "r2" {
			t.Errorf("%s is placed on %s, want rack r2", pod.Name, at)
		}
	}
	// Where no domain holds all, the one with the most room comes first.
	for _, pod := range f.elastic("b", 3, kit.GPUs(8)) {
		f.place(t, pod, 8)
	}
}

// TestCaseB133SinglesShareARack: four empty racks of four nodes, 16 singles. Three racks stay whole.
func TestCaseB133SinglesShareARack(t *testing.T) {
	f := newFixture(t, racked(4, 4, 2, kit.N8s))
	racks := map[string]int{}
	for i := range 16 {
		racks[f.place(t, kit.Pod("ns", "p", kit.UID(fmt.Sprintf("p%d", i)), kit.GPUs(1)), 1)[:2]]++
	}
	if len(racks) != 1 {
		t.Errorf("singles by rack: %v, want one rack", racks)
	}
}
