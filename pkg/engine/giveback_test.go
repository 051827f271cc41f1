package engine

import (
	"testing"

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
	e.book.Start(host{engine: e}, book.Settings{}, corelisters.NewPodLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), klog.New(nil))
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
}
