package coscheduling

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestHintOfAnOldEvent: the queue keeps the events of a pod in flight, and asks about them when the pod is back. A node that
// was lost for a moment then must not be lost to the gangs that run on it now.
func TestHintOfAnOldEvent(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	single := kit.Pod("ns", "s", kit.UID("s"), kit.GPUs(1)) // refused because of a turn
	old := kit.Node("n1", kit.N8s("n1"))
	old.Status.Conditions[0].Status = v1.ConditionUnknown
	if got, err := f.afterNodeChange(klog.Background(), single, nil, old); err != nil || got != fwk.Queue {
		t.Errorf("hint is %v, %v, want Queue", got, err)
	}
	if f.book.Lost("n1") {
		t.Error("the node is lost to the book, and ready in the informer's store")
	}
	gone := kit.Node("n2", kit.N8s("n2"))
	if _, err := f.afterNodeChange(klog.Background(), single, nil, gone); err != nil {
		t.Error(err)
	}
}

// TestMembersThatGoAloneMayPreempt: a member that is scheduled for itself is like any pod, whether or not a turn is on.
func TestMembersThatGoAloneMayPreempt(t *testing.T) {
	pod := members("a", 1, kit.GPUs(8))[0]
	f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1"))}, []*v1.Pod{pod})...)
	f.seesGroup("a", 0, func(g *podgroup.Group) { g.Singles = true })
	state, _, status := f.prefilter(t, pod)
	if !status.IsSkip() {
		t.Fatalf("PreFilter: %v, want Skip", status)
	}
	if _, status := f.PostFilter(f.ctx, state, pod, nil); status.Code() != fwk.Unschedulable {
		t.Errorf("PostFilter: %v, want Unschedulable, so that preemption goes on", status)
	}
}
