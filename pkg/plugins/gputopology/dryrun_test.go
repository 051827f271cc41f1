package gputopology

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func podInfo(t *testing.T, pod *v1.Pod) fwk.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestNominatedPodThatWaitsKeepsItsRoom: a nominated pod whose victims still run finds no room now. What is free, or comes
// free, may be its own, so nobody of lower priority gets it.
func TestNominatedPodThatWaitsKeepsItsRoom(t *testing.T) {
	node := kit.Node("n1", kit.N1("n1"))
	f := newFixture(t, node)
	victim := kit.Pod("ns", "victim", kit.UID("v"), kit.VRAM(20000, 1))
	vs, _ := f.cycle(t, victim)
	if status := f.Reserve(f.ctx, vs, victim, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	small := kit.Pod("ns", "small", kit.UID("s"), kit.VRAM(1000, 1))
	state, _ := f.cycle(t, small)
	if got := f.Filter(f.ctx, state, small, f.nodeInfo(t, node)); !got.IsSuccess() {
		t.Fatalf("Filter without a nominated pod: %v", got)
	}
	nominated := podInfo(t, kit.Pod("ns", "nominated", kit.UID("n"), kit.VRAM(24000, 1)))
	withNominated := state.Clone()
	if status := f.AddPod(f.ctx, withNominated, small, nominated, f.nodeInfo(t, node)); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := f.Filter(f.ctx, withNominated, small, f.nodeInfo(t, node)); got.Code() != fwk.Unschedulable {
		t.Errorf("Filter beside a nominated pod that waits: %v, want Unschedulable", got.Code())
	}
	if got := f.Filter(f.ctx, state, small, f.nodeInfo(t, node)); !got.IsSuccess() {
		t.Errorf("the promise leaked out of the dry run: %v", got)
	}
}

// TestAddPodChargesOnce: a pod that the ledger counts on the node already is not added a second time.
func TestAddPodChargesOnce(t *testing.T) {
	node := kit.Node("n1", kit.N8s("n1"))
	f := newFixture(t, node)
	held := kit.Pod("ns", "held", kit.UID("h"), kit.GPUs(4))
	hs, _ := f.cycle(t, held)
	if status := f.Reserve(f.ctx, hs, held, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(4))
	state, _ := f.cycle(t, pod)
	if status := f.AddPod(f.ctx, state, pod, podInfo(t, held), f.nodeInfo(t, node)); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := f.Filter(f.ctx, state, pod, f.nodeInfo(t, node)); !got.IsSuccess() {
		t.Errorf("Filter: %v (%s), want Success: four cards are free", got.Code(), got.Message())
	}
}

// TestReserveConflictIsRetried: what takes the cards between Filter and Reserve wakes nobody, so the pod must not park.
func TestReserveConflictIsRetried(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N2("n1")))
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2))
	state, _ := f.cycle(t, pod)
	if err := f.engine.Ledger().Adopt(ledger.Holding{UID: "foreign", Pod: "ns/foreign", Node: "n1", UnknownCards: 1}); err != nil {
		t.Fatal(err)
	}
	if got := f.Reserve(f.ctx, state, pod, "n1"); got.Code() != fwk.Error {
		t.Errorf("Reserve: %v, want Error, which is tried again after a backoff", got.Code())
	}
	if got := Reservation(state); got != nil {
		t.Errorf("a reservation was left behind: %+v", got)
	}
}

// TestDialectThatCannotNameTheCards: a node whose cards have no UUID is refused before a bind fails on it.
func TestDialectThatCannotNameTheCards(t *testing.T) {
	spec := kit.N2("n1")
	for i := range spec.Cards {
		spec.Cards[i].UUID = ""
	}
	node := kit.Node("n1", spec)
	f := newFixture(t, node)
	f.args.RecordDialects = []string{v1alpha1.DialectHAMi}
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(1))
	state, status := f.cycle(t, pod)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := f.Filter(f.ctx, state, pod, f.nodeInfo(t, node)); got.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("Filter: %v (%s), want UnschedulableAndUnresolvable", got.Code(), got.Message())
	}
}

// TestCatchUpBeforeRefusal: the scheduler's cache knows that a pod is gone and the ledger does not yet. Filter sees to it.
func TestCatchUpBeforeRefusal(t *testing.T) {
	node := kit.Node("n1", kit.N1("n1"))
	f := newFixture(t, node)
	// Bound in the ledger and absent from the informer's store: its delete event has not been handled here.
	gone := ledger.Holding{UID: "gone", Pod: "ns/gone", Node: "n1", Cards: f.choice(t, 1)}
	if err := f.engine.Ledger().Adopt(gone); err != nil {
		t.Fatal(err)
	}
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(1))
	state, _ := f.cycle(t, pod)
	info := framework.NewNodeInfo()
	info.SetNode(node)
	if got := f.Filter(f.ctx, state, pod, info); !got.IsSuccess() {
		t.Errorf("Filter: %v (%s), want Success", got.Code(), got.Message())
	}
}

// TestRecordHint asks the hint for the change of a bound pod's record for both answers.
func TestRecordHint(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N2("n1")))
	bare := kit.Pod("ns", "f", kit.UID("f"), kit.GPUs(1), kit.OnNode("n1"))
	if err := f.engine.Ledger().Adopt(ledger.Holding{UID: "f", Pod: "ns/f", Node: "n1", UnknownCards: 1}); err != nil {
		t.Fatal(err)
	}
	recorded := bare.DeepCopy()
	recorded.Annotations[v1alpha1.AllocationAnnotation] = `{"v":1,"node":"n1","cards":[{"index":0,"uuid":"GPU-n1-0","sliceMask":"0xffffffffffffffff","vramBytes":25769803776,"computeMilli":1000}]}`
	waiting := kit.Pod("ns", "w", kit.UID("w"), kit.GPUs(1))
	for _, tt := range []struct {
		old, new *v1.Pod
		want     fwk.QueueingHint
	}{{bare, bare.DeepCopy(), fwk.QueueSkip}, {bare, recorded, fwk.Queue}} {
		got, err := f.afterRecordChange(klog.Background(), waiting, tt.old, tt.new)
		if err != nil || got != tt.want {
			t.Errorf("hint %v, %v, want %v", got, err, tt.want)
		}
	}
	if got := f.engine.Ledger().Node("n1"); !got.Foreign.Empty() || got.Free.Len() != 1 {
		t.Errorf("after the record came: foreign %s, free %s", got.Foreign, got.Free)
	}
}
