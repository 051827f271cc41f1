package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestGiveBackSparesThePlan: the rollback of a member that went alone comes in two steps, and a sibling's cycle may plan the
// member between them. What the plan took is not the reservation's to give back.
func TestGiveBackSparesThePlan(t *testing.T) {
	e := New(Options{Clock: clock.RealClock{}})
	graph, err := topology.New(kit.N8s("n1"), topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	e.ledger.SetNode("n1", graph)
	e.book.Serve(kit.SchedulerName)
	e.book.Start(host{engine: e}, book.Settings{Freed: e.planFreed}, corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), klog.New(nil))
	e.book.GroupSeen(podgroup.Group{UID: "g", Namespace: "ns", Name: "a", Spec: gang.Spec{MinMember: 1}})
	pod := kit.Pod("ns", "a-0", kit.UID("u"), kit.GPUs(1))
	pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "a"}
	e.book.PodSeen(pod)
	a := e.book.Admit(pod)
	if a.Kind != gang.VerdictPlan {
		t.Fatalf("the member is to %s: %s", a.Kind, a.Reason)
	}
	view := e.ledger.Node("n1")
	share := allocate.CardShare{Index: 0, UUID: view.Topology.Card(0).UUID, SliceMask: ^uint64(0), VRAMBytes: view.Topology.Card(0).VRAMBytes, ComputeMilli: 1000}
	err = e.book.Take(a.Group, []book.Place{{Pod: pod, Planned: book.Planned{Node: "n1", Rank: -1, Choice: allocate.Choice{Cards: []allocate.CardShare{share}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if e.GiveBack("u", "") {
		t.Error("a reservation that no plan made gave back what the plan holds")
	}
	if _, _, held := e.ledger.Holding(ledger.PodUID("u")); !held {
		t.Error("a planned member holds nothing")
	}
	if planned := e.book.Planned("u"); planned == nil || e.GiveBack("u", "another") || !e.GiveBack("u", planned.ID) {
		t.Error("the plan's own reservation must give back, and that of another plan must not")
	}
	if len(e.wakes) != 0 {
		t.Error("the scheduler tells of the end of a reservation itself")
	}
}

// TestReleasedPlanWakes: a plan is given up before its member was reserved. No event of the scheduler tells of its cards.
func TestReleasedPlanWakes(t *testing.T) {
	b := newBench(t, clock.RealClock{})
	b.book.Serve(kit.SchedulerName)
	pods := b.factory.Core().V1().Pods()
	b.book.Start(host{handle: b.handle, engine: b.Engine}, book.Settings{Freed: b.planFreed}, pods.Lister(), klog.New(nil))
	b.book.GroupSeen(podgroup.Group{UID: "g", Namespace: "ns", Name: "a", Spec: gang.Spec{MinMember: 1}})
	member := kit.Pod("ns", "a-0", kit.UID("m"), kit.GPUs(1))
	member.Labels = map[string]string{v1alpha1.PodGroupLabel: "a"}
	for _, pod := range []*v1.Pod{member, kit.Pod("ns", "single", kit.UID("s"), kit.GPUs(1)), kit.Pod("ns", "cpu", kit.UID("c"))} {
		if err := pods.Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	b.book.PodSeen(member)
	a := b.book.Admit(member)
	share := b.holding.Cards[0]
	share.Index, share.UUID = 1, b.ledger.Node("n1").Topology.Card(1).UUID
	if err := b.book.Take(a.Group, []book.Place{{Pod: member, Planned: book.Planned{Node: "n1", Rank: -1, Choice: allocate.Choice{Cards: []allocate.CardShare{share}}}}}); err != nil {
		t.Fatal(err)
	}
	b.book.NodeGone("n1")
	if _, _, held := b.ledger.Holding("m"); held || len(b.wakes) != 1 {
		t.Fatalf("the member holds cards: %t, %d wakes are asked for, want 1", held, len(b.wakes))
	}
	b.wake(b.ctx, b.handle)
	if diff := cmp.Diff([]string{"ns/single"}, b.woken.names()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	b.freed()
	b.wake(b.ctx, b.handle)
	if diff := cmp.Diff([]string{"ns/a-0", "ns/single", "ns/single"}, b.woken.names()); diff != "" {
		t.Errorf("woken once all are (-want +got):\n%s", diff)
	}
}
