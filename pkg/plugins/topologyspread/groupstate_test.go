package topologyspread

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// ofGroup makes a pod a member of a native pod group.
func ofGroup(name string) kit.PodOption {
	return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name} }
}

// groupCycle is the state of a member's cycle within that of its native pod group.
func groupCycle() fwk.CycleState {
	s := framework.NewCycleState()
	s.SetPodGroupSchedulingCycle(framework.NewCycleState())
	return s
}

// assumed puts a copy of a pod on a node in the snapshot, as the cycle of a native pod group does, and returns what takes it away.
func (f *fixture) assumed(t testing.TB, pod *v1.Pod, on string) (forget func()) {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = on
	info, err := framework.NewPodInfo(pod)
	if err == nil {
		err = f.snapshot.AssumePod(info)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := f.snapshot.ForgetPod(f.logger, pod); err != nil {
			t.Fatal(err)
		}
	}
}

// passes returns the nodes on which a member may be, and the points of all, in the cycle of its group.
func (f *fixture) passes(t testing.TB, pod *v1.Pod) (nodes []string, points map[string]int64) {
	t.Helper()
	infos, err := f.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	state := groupCycle()
	if _, status := f.PreFilter(f.ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := f.PreScore(f.ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	points = map[string]int64{}
	for _, info := range infos {
		if name := info.Node().Name; f.Filter(f.ctx, state, pod, info).IsSuccess() {
			nodes = append(nodes, name)
		}
		n, status := f.Score(f.ctx, state, pod, info)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		points[info.Node().Name] = n
	}
	return nodes, points
}

// TestMembersOfANativeGroupSeeEachOther: in the cycle of a native pod group a member that has found a node is in the snapshot alone,
// under the generation that the node had without it. The next member counts it, and nobody does once it is taken away.
func TestMembersOfANativeGroupSeeEachOther(t *testing.T) {
	f := newFixture(t, options{args: alone})
	f.holds(t, []*v1.Node{node("n1"), node("n2"), node("n3")}, placed(1, "n3", ofGroup("g"))...)
	members := make([]*v1.Pod, 4)
	for i := range members {
		name := fmt.Sprint("m", i)
		members[i] = kit.Pod("ns", name, named(name), labelled("app", "a"), ofGroup("g"),
			spreads(hostKey, 1, v1.DoNotSchedule, "a"), spreads(hostKey, 1, v1.ScheduleAnyway, "a"))
	}
	check := func(what string, member int, want []string, wantPoints map[string]int64) {
		t.Helper()
		nodes, points := f.passes(t, members[member])
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(wantPoints, points); diff != "" {
			t.Errorf("%s: points (-want +got):\n%s", what, diff)
		}
	}
	// A pod is worth ln(3 nodes + 2) = 1.6 points, two are 3.2.
	check("first", 0, []string{"n1", "n2"}, map[string]int64{"n1": 0, "n2": 0, "n3": 2})
	forget0 := f.assumed(t, members[0], "n1")
	check("one is on n1", 1, []string{"n2"}, map[string]int64{"n1": 2, "n2": 0, "n3": 2})
	forget1 := f.assumed(t, members[1], "n2")
	check("one on n2", 2, []string{"n1", "n2", "n3"}, map[string]int64{"n1": 2, "n2": 2, "n3": 2})
	forget1()
	forget0()
	check("none", 0, []string{"n1", "n2"}, map[string]int64{"n1": 0, "n2": 0, "n3": 2})
	f.assumed(t, members[0], "n2")() // another placement that fails
	forget := f.assumed(t, members[1], "n2")
	check("another one is on n2", 0, []string{"n1"}, map[string]int64{"n1": 0, "n2": 2, "n3": 2})
	forget()
	lone := kit.Pod("ns", "x", labelled("app", "a"), spreads(hostKey, 1, v1.DoNotSchedule, "a"))
	if diff := cmp.Diff([]string{"n1", "n2"}, passing(f.verdicts(t, lone))); diff != "" {
		t.Errorf("the cycle of a pod by itself (-want +got):\n%s", diff)
	}
}

// TestGroupStatesAreBounded: numbers never come twice, and those that are kept are few.
func TestGroupStatesAreBounded(t *testing.T) {
	s, seen := newGroupStates(), map[int64]bool{}
	info := framework.NewNodeInfo(kit.Pod("ns", "p", ofGroup("g")))
	for range 100 {
		info.AddPod(kit.Pod("ns", "q", ofGroup("g")))
		n := s.number(info, "ns", 3)
		if seen[n] || n <= info.GetGeneration() || n != s.number(info, "ns", 3) {
			t.Fatalf("number %d of generation %d: it comes twice, may be another generation, or changed", n, info.GetGeneration())
		}
		seen[n] = true
	}
	if len(s.numbers) > 12 {
		t.Errorf("%d states are kept for 3 nodes", len(s.numbers))
	}
	if n := s.number(info, "other", 3); n != info.GetGeneration() {
		t.Errorf("number %d for a pod of another namespace, want the generation", n)
	}
}
