package book

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestMatesOf has members in every state; each time the company of the last one is asked for.
func TestMatesOf(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.node("n2", kit.N8s)
	b.group("a", 0)
	on := kit.OnNode
	pod := b.member("a", "me", kit.GPUs(1))
	if diff := cmp.Diff(Company{Waiting: 1}, b.MatesOf(pod)); diff != "" {
		t.Errorf("a group of which no member is known (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Company{Waiting: 1}, b.MatesOf(b.member("", "single"))); diff != "" {
		t.Errorf("a pod without a group (-want +got):\n%s", diff)
	}
	steps := []struct {
		what string
		do   func()
		want Company
	}{
		{"it is alone", func() { b.create(pod) }, Company{Waiting: 1}},
		{"a sibling waits", func() { b.create(b.member("a", "waits", kit.GPUs(1))) }, Company{Waiting: 2}},
		{"a gated one does not", func() {
			gated := b.member("a", "gated", kit.GPUs(1))
			gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
			b.create(gated)
		}, Company{Waiting: 2}},
		{"two run", func() { b.create(b.member("a", "y", on("n2")), b.member("a", "x", on("n1"))) }, Company{Waiting: 2, Nodes: []ledger.NodeName{"n1", "n2"}}},
		{"two on one node", func() { b.create(b.member("a", "z", on("n2"))) }, Company{Waiting: 2, Nodes: []ledger.NodeName{"n1", "n2", "n2"}}},
		{"one that ends", func() {
			now := metav1.NewTime(b.clock.Now())
			ending := b.member("a", "ending", on("n1"))
			ending.DeletionTimestamp = &now
			b.create(ending)
		}, Company{Waiting: 2, Nodes: []ledger.NodeName{"n1", "n2", "n2"}}},
		{"one that has succeeded", func() {
			done := b.member("a", "done", on("n1"))
			b.create(done)
			b.finish(done, v1.PodSucceeded)
		}, Company{Waiting: 2, Nodes: []ledger.NodeName{"n1", "n2", "n2"}}},
		{"a node is lost", func() { b.NodeGone("n2") }, Company{Waiting: 2, Nodes: []ledger.NodeName{"n1"}}},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, b.MatesOf(pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}

// TestMatesOfPlannedMembers: a planned member stands on its node before it is bound.
func TestMatesOfPlannedMembers(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("a", 2)
	pods := b.members("a", 2, kit.GPUs(4))
	b.create(pods...)
	b.run()
	b.pass(time.Second)
	late := b.member("a", "late", kit.GPUs(1))
	b.create(late)
	if diff := cmp.Diff(Company{Waiting: 1, Nodes: []ledger.NodeName{"n1", "n1"}, Need: 2}, b.MatesOf(late)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
