package coscheduling

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestGangIsPlannedOnce: the first member's PreFilter takes the cards of all; the others are told their node.
func TestGangIsPlannedOnce(t *testing.T) {
	pods := members("a", 4, kit.GPUs(4))
	f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1")), kit.Node("n2", kit.N8s("n2"))}, pods)...)
	f.seesGroup("a", 4)
	perNode := map[string]int{}
	var first *book.Planned
	for i, pod := range pods {
		state, node, status := f.prefilter(t, pod)
		if !status.IsSuccess() || node == "" {
			t.Fatalf("PreFilter of %s: node %q, %v", pod.Name, node, status)
		}
		perNode[node]++
		planned := f.book.Planned(ledger.PodUID(pod.UID))
		if i == 0 {
			first = planned
		}
		if planned == nil || planned.ID != first.ID || len(planned.Choice.Cards) != 4 || string(planned.Node) != node {
			t.Fatalf("%s is planned as %+v", pod.Name, planned)
		}
		if free := f.engine.Ledger().Node("n1").Free.Len() + f.engine.Ledger().Node("n2").Free.Len(); free != 0 {
			t.Fatalf("after member %d: %d cards are free, want all held", i, free)
		}
		if status := f.Filter(f.ctx, state, pod, f.nodes[0]); !status.IsSuccess() {
			t.Errorf("Filter of a planned member: %v", status)
		}
		answer, timeout := f.Permit(f.ctx, state, pod, node)
		if last := i == len(pods)-1; last && !answer.IsSuccess() || !last && (!answer.IsWait() || timeout != time.Minute) {
			t.Errorf("Permit of member %d: %v for %s", i, answer, timeout)
		}
	}
	if perNode["n1"] != 2 || perNode["n2"] != 2 {
		t.Errorf("members per node %v, want two each", perNode)
	}
}

// TestRollbackOfOneGivesAllBack: whichever member fails, no card stays held.
func TestRollbackOfOneGivesAllBack(t *testing.T) {
	pods := members("a", 2, kit.GPUs(4))
	f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1"))}, pods)...)
	f.seesGroup("a", 2)
	states := make([]fwk.CycleState, len(pods))
	for i, pod := range pods {
		state, node, status := f.prefilter(t, pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		states[i] = state
		f.Permit(f.ctx, state, pod, node)
	}
	f.Unreserve(f.ctx, states[1], pods[1], "n1") // the first to bind could not
	f.Unreserve(f.ctx, states[1], pods[1], "n1")
	f.Unreserve(f.ctx, states[0], pods[0], "n1") // the other was rejected at Permit
	if free := f.engine.Ledger().Node("n1").Free.Len(); free != 8 {
		t.Errorf("%d cards are free, want 8", free)
	}
	for _, pod := range pods {
		if _, _, status := f.prefilter(t, pod); status.IsSuccess() {
			t.Errorf("%s is planned again before its gang has rested", pod.Name)
		}
	}
	f.Unreserve(f.ctx, nil, pods[0], "n1")
	f.Unreserve(f.ctx, states[0], nil, "n1")
}

// TestWhyAGangDoesNotFit: each kind of obstacle is named in the sentence.
func TestWhyAGangDoesNotFit(t *testing.T) {
	node := func(edit func(*v1.Node)) *v1.Node {
		n := kit.Node("n1", kit.N8s("n1"))
		edit(n)
		return n
	}
	term := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"scheduling.x-k8s.io/pod-group": "a"}}}
	tests := map[string]struct {
		node  *v1.Node
		pod   kit.PodOption
		group func(*podgroup.Group)
		want  []string
	}{
		"too few cards": {node(func(*v1.Node) {}), kit.GPUs(5), nil, []string{"gang ns/a", "1 of 2", "8"}},
		"tainted":       {node(func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}} }), kit.GPUs(1), nil, []string{"tainted"}},
		"cordoned":      {node(func(n *v1.Node) { n.Spec.Unschedulable = true }), kit.GPUs(1), nil, []string{"cordoned"}},
		"not ready":     {node(func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionUnknown }), kit.GPUs(1), nil, []string{"not ready"}},
		"unreachable": {node(func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}}
		}), kit.GPUs(1), nil, []string{"unreachable"}},
		"not selected":   {node(func(*v1.Node) {}), func(p *v1.Pod) { kit.GPUs(1)(p); p.Spec.NodeSelector = map[string]string{"pool": "x"} }, nil, []string{"selector"}},
		"too little CPU": {node(func(*v1.Node) {}), func(p *v1.Pod) { kit.GPUs(1)(p); kit.Resource("cpu", 100)(p) }, nil, []string{"CPU"}},
		"one of them a host": {node(func(*v1.Node) {}), func(p *v1.Pod) {
			kit.GPUs(1)(p)
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
		}, nil, []string{"1 of 2", "anti-affinity"}},
		"minResources":   {node(func(*v1.Node) {}), kit.GPUs(1), func(g *podgroup.Group) { g.MinResources = map[v1.ResourceName]int64{"nvidia.com/gpu": 9} }, []string{"minResources", "9", "8"}},
		"broken request": {node(func(*v1.Node) {}), func(p *v1.Pod) { kit.GPUs(1)(p); kit.Annotate("gputopology.io/numa-policy", "nearby")(p) }, nil, []string{"a-0", "numa-policy", "nearby"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods := members("a", 2, tt.pod)
			f := newFixture(t, objects([]*v1.Node{tt.node}, pods)...)
			edit := tt.group
			if edit == nil {
				edit = func(*podgroup.Group) {}
			}
			f.seesGroup("a", 2, edit)
			_, _, status := f.prefilter(t, pods[0])
			if status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Fatalf("PreFilter: %v", status)
			}
			for _, want := range tt.want {
				if !strings.Contains(status.Message(), want) {
					t.Errorf("%q does not say %q", status.Message(), want)
				}
			}
			if free := f.engine.Ledger().Node("n1").Free.Len(); free != 8 {
				t.Errorf("%d cards are free, want 8", free)
			}
		})
	}
}

// TestPodsThatAreNoMembers are none of the plugin's business.
func TestPodsThatAreNoMembers(t *testing.T) {
	f := newFixture(t)
	single := kit.Pod("ns", "s", kit.UID("s"), kit.GPUs(1))
	native := members("a", 1)[0]
	group := "g"
	native.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	if status := f.PreEnqueue(f.ctx, single); !status.IsSuccess() {
		t.Errorf("PreEnqueue: %v", status)
	}
	state, _, status := f.prefilter(t, single)
	if !status.IsSkip() {
		t.Errorf("PreFilter: %v, want Skip", status)
	}
	if answer, _ := f.Permit(f.ctx, state, single, "n1"); !answer.IsSuccess() {
		t.Errorf("Permit: %v", answer)
	}
	if _, status := f.PostFilter(f.ctx, state, single, nil); status.Code() != fwk.Unschedulable {
		t.Errorf("PostFilter: %v, want Unschedulable, so that preemption goes on", status)
	}
	if fragments, status := f.SignPod(f.ctx, single); len(fragments) > 0 || !status.IsSuccess() {
		t.Errorf("SignPod: %v, %v", fragments, status)
	}
	if status := f.PreEnqueue(f.ctx, native); !status.IsSuccess() {
		t.Errorf("PreEnqueue of a pod that names both groups: %v, want success, so that a cycle tells its user", status)
	}
	if _, _, status := f.prefilter(t, native); status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "spec.schedulingGroup") {
		t.Errorf("PreFilter of a pod that names both groups: %v", status)
	}
	for _, member := range []*v1.Pod{members("a", 1)[0], native} {
		if _, status := f.SignPod(f.ctx, member); status.IsSuccess() {
			t.Errorf("%s, a member, is batched", member.Name)
		}
	}
}

// TestTurnKeepsOthersOff: while a gang that failed often has its turn, later pods of no higher priority stay off its nodes.
func TestTurnKeepsOthersOff(t *testing.T) {
	pods := members("a", 2, kit.GPUs(8), kit.Priority(5))
	f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1")), kit.Node("n2", kit.N8s("n2"))}, pods)...)
	f.seesGroup("a", 2)
	f.giveTurn(t, pods[0])
	old := metav1.NewTime(time.Unix(0, 0))
	late := metav1.NewTime(time.Unix(100, 0))
	tests := map[string]struct {
		priority int32
		created  metav1.Time
		want     bool
	}{
		"later, equal priority": {5, late, false},
		"later, lower priority": {0, late, false},
		"later, higher":         {6, late, true},
		"earlier":               {5, old, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := kit.Pod("ns", "s", kit.UID("s"), kit.GPUs(1), kit.Priority(tt.priority))
			pod.CreationTimestamp = tt.created
			state, _, status := f.prefilter(t, pod)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			if got := f.Filter(f.ctx, state, pod, f.nodes[0]).IsSuccess(); got != tt.want {
				t.Errorf("admitted %t, want %t", got, tt.want)
			}
		})
	}
	if _, _, status := f.prefilter(t, kit.Pod("ns", "cpu", kit.UID("c"))); !status.IsSkip() {
		t.Errorf("a pod without GPUs: %v, want Skip", status)
	}
}

// giveTurn makes the gang of a pod fail until it has a turn.
func (f *fixture) giveTurn(t *testing.T, pod *v1.Pod) {
	t.Helper()
	key, _ := book.KeyOf(pod)
	for range 20 {
		if f.book.PlanFailed(key, "it does not fit") {
			f.book.GiveTurn(key, 5, map[ledger.NodeName]bool{"n1": true, "n2": true})
			break
		}
		f.clock.Step(time.Minute) // the gang has rested
	}
	if f.book.Withheld() == nil {
		t.Fatal("the gang has no turn")
	}
}

// TestNominatedPodKeepsItsRoom: what preemption promised to a pod that does not go behind the gang is not planned on.
func TestNominatedPodKeepsItsRoom(t *testing.T) {
	tests := map[string]struct {
		cards    int64
		priority int32
		want     bool
	}{
		"room for both":               {4, 10, true},
		"what is left is too small":   {5, 10, false},
		"its victims have not ended":  {9, 10, false}, // more than is free: it waits for what comes free
		"a lower priority goes after": {5, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods := members("a", 1, kit.GPUs(4), kit.Priority(5))
			f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1"))}, pods)...)
			f.seesGroup("a", 1)
			f.nominated.promise(t, "n1", kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(tt.cards), kit.Priority(tt.priority)))
			if _, _, status := f.prefilter(t, pods[0]); status.IsSuccess() != tt.want {
				t.Errorf("PreFilter: %v, want success %t", status, tt.want)
			}
		})
	}
}
