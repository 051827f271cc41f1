package observe

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// bareNode offers nothing and is described by nothing.
func bareNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
}

// slice is the complete pool of a node with n cards of a driver.
func slice(name, node, driver string, n int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	text := func(v string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &v} }
	for i := range n {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": text("gpu"), "uuid": text(fmt.Sprintf("GPU-%s-%d", node, i)), "productName": text("NVIDIA L4"),
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("24Gi")}},
		})
	}
	return s
}

// TestNodeLife: add, change, delete and return; what its pods hold stays throughout.
func TestNodeLife(t *testing.T) {
	w := newWorld(t)
	node := kit.Node("n1", kit.N8s("n1"))
	w.putPod(t, boundPod(t, "u", "n1", 0, 1)) // before its node
	w.wantFree(t, "n1", -1)
	w.putNode(t, node)
	w.wantFree(t, "n1", 6)

	sick := kit.N8s("n1")
	sick.Cards[0].Healthy, sick.Cards[7].Healthy = false, false
	w.putNode(t, kit.Node("n1", sick))
	w.wantFree(t, "n1", 5)
	w.wantHolding(t, "u", "n1", 0, 0, 1)

	remove(t, w.nodeStore, w.nodeHandler(), node)
	w.wantFree(t, "n1", -1)
	w.wantHolding(t, "u", "n1", 0, 0, 1)
	w.putNode(t, node)
	w.wantFree(t, "n1", 6)
	w.wantHolding(t, "u", "n1", 0, 0, 1)

	if err := w.nodeStore.Delete(node); err != nil {
		t.Fatal(err)
	}
	w.nodeHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: "n1", Obj: node})
	w.wantFree(t, "n1", -1)
}

// TestNodeEventsSayWhereToLook: an event that comes late tells the ledger the present, not the past.
func TestNodeEventsSayWhereToLook(t *testing.T) {
	w := newWorld(t)
	first, last := kit.Node("n1", kit.N8s("n1")), kit.Node("n1", kit.N2("n1"))
	if err := w.nodeStore.Add(last); err != nil {
		t.Fatal(err)
	}
	w.nodeHandler().OnAdd(first, true)
	w.wantFree(t, "n1", 2)
	w.nodeHandler().OnDelete(first)
	w.wantFree(t, "n1", 2)
	w.nodeHandler().OnDelete(nil)
	w.wantFree(t, "n1", 2)
}

// TestNodeWithoutGPUs needs no entry, and loses the one it had.
func TestNodeWithoutGPUs(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, bareNode("n1"))
	w.wantFree(t, "n1", -1)
	w.putNode(t, kit.Node("n1", kit.N2("n1")))
	w.wantFree(t, "n1", 2)
	w.putNode(t, bareNode("n1"))
	w.wantFree(t, "n1", -1)
}

// TestProblemsAreReportedOnce: a fault is said when it appears and when it changes, and again to a replica that was silent.
func TestProblemsAreReportedOnce(t *testing.T) {
	w := newWorld(t)
	broken := func(name, text string) *v1.Node {
		n := kit.Node(name, kit.N2(name))
		n.Annotations = map[string]string{v1alpha1.TopologyAnnotation: text}
		return n
	}
	w.putNode(t, broken("b", "{}"))
	w.putNode(t, broken("a", "{}"))
	w.putNode(t, kit.Node("good", kit.N2("good")))
	w.wantNotes(t, "b "+reasonProblem, "a "+reasonProblem)
	w.putNode(t, broken("a", "{}"))
	w.NodeChanged("a")
	w.wantNotes(t)
	w.putNode(t, broken("a", "[]"))
	w.wantNotes(t, "a "+reasonProblem)
	w.Repeat()
	w.wantNotes(t, "a "+reasonProblem, "b "+reasonProblem)
	w.putNode(t, kit.Node("a", kit.N2("a")))
	remove(t, w.nodeStore, w.nodeHandler(), broken("b", "{}"))
	w.Repeat()
	w.wantNotes(t)
}

// TestSlices: only slices of NVIDIA's driver count, and a slice that moves changes both nodes.
func TestSlices(t *testing.T) {
	w := newWorld(t)
	const driver = "gpu.nvidia.com"
	handler := w.sliceHandler()
	w.putNode(t, bareNode("n1"))
	w.putNode(t, bareNode("n2"))
	put(t, w.slices, handler, slice("other", "n1", "gpu.example.com", 8))
	w.wantFree(t, "n1", -1)
	put(t, w.slices, handler, slice("ours", "n1", driver, 4))
	w.wantFree(t, "n1", 4)
	w.wantFree(t, "n2", -1)

	put(t, w.slices, handler, slice("ours", "n2", driver, 4)) // the store's index moves with it
	w.wantFree(t, "n1", -1)
	w.wantFree(t, "n2", 4)

	remove(t, w.slices, handler, slice("other", "n1", "gpu.example.com", 8))
	w.wantFree(t, "n2", 4)
	if err := w.slices.Delete(slice("ours", "n2", driver, 4)); err != nil {
		t.Fatal(err)
	}
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ours", Obj: slice("ours", "n2", driver, 4)})
	w.wantFree(t, "n2", -1)
	handler.OnAdd(&v1.Node{}, false) // no slice: left alone
}

// TestSliceBeforeItsNode: slices of a node that is not there yet count as soon as it is.
func TestSliceBeforeItsNode(t *testing.T) {
	w := newWorld(t)
	put(t, w.slices, w.sliceHandler(), slice("s", "n1", "gpu.nvidia.com", 2))
	w.wantFree(t, "n1", -1)
	w.putNode(t, bareNode("n1"))
	w.wantFree(t, "n1", 2)
}

func TestDescribedNode(t *testing.T) {
	if names, err := describedNode(&v1.Node{}); err == nil {
		t.Errorf("a Node is read as a slice of %v", names)
	}
	all := slice("s", "n1", "gpu.nvidia.com", 1)
	all.Spec.NodeName = nil
	if names, err := describedNode(all); err != nil || len(names) != 0 {
		t.Errorf("a slice of no single node describes %v, error %v", names, err)
	}
}

// TestCatchUp: the wake-up of a waiting pod may overtake the handlers. What the stores know, the ledger learns then.
func TestCatchUp(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	ended, kept := boundPod(t, "ended", "n1", 0, 1), boundPod(t, "kept", "n1", 2)
	w.putPod(t, ended)
	w.putPod(t, kept)
	inFlight := kit.Pod("ns", "pod-in-flight", kit.UID("in-flight"), kit.GPUs(1))
	for uid, card := range map[ledger.PodUID]int{"in-flight": 5, "unseen": 6, "unknown": 7} {
		if err := w.ledger.Assume(ledger.Holding{UID: uid, Pod: "ns/pod-" + string(uid), Node: "n1", Cards: cardsOf("n1", card)}); err != nil {
			t.Fatal(err)
		}
	}
	w.ledger.Suspect("unknown")
	if err := w.podStore.Add(inFlight); err != nil {
		t.Fatal(err)
	}
	if w.CatchUp("n1", 1) {
		t.Error("a node on which nothing happened has changed")
	}
	if err := w.podStore.Delete(ended); err != nil { // its handler has not run
		t.Fatal(err)
	}
	if w.CatchUp("n1", 1) {
		t.Error("a node is looked at twice in one generation")
	}
	w.wantHolding(t, "ended", "n1", 0, 0, 1)
	if !w.CatchUp("n1", 2) {
		t.Error("the node did not change")
	}
	w.wantHolding(t, "ended", "", 0)
	w.wantHolding(t, "kept", "n1", 0, 2)
	for uid, want := range map[ledger.PodUID]ledger.Stage{"in-flight": ledger.StageAssumed, "unseen": ledger.StageAssumed, "unknown": ledger.StageUnknown} {
		if _, stage, _ := w.ledger.Holding(uid); stage != want {
			t.Errorf("pod %s is in stage %v, want %v: only its own cycle may end it", uid, stage, want)
		}
	}
	w.podHandler().OnDelete(ended) // late
	w.wantFree(t, "n1", 4)
}

// TestCatchUpWithTheNode: the node's own events may be overtaken too, and slices are no part of a generation.
func TestCatchUpWithTheNode(t *testing.T) {
	w := newWorld(t)
	if w.CatchUp("n1", 1) {
		t.Error("a node that nobody knows has changed")
	}
	if err := w.nodeStore.Add(bareNode("n1")); err != nil {
		t.Fatal(err)
	}
	if err := w.slices.Add(slice("s", "n1", "gpu.nvidia.com", 2)); err != nil {
		t.Fatal(err)
	}
	if !w.CatchUp("n1", 1) {
		t.Error("the node appeared")
	}
	w.wantFree(t, "n1", 2)
	if err := w.slices.Update(slice("s", "n1", "gpu.nvidia.com", 3)); err != nil {
		t.Fatal(err)
	}
	if !w.CatchUp("n1", 1) {
		t.Error("the slices changed")
	}
	w.wantFree(t, "n1", 3)
	if err := w.nodeStore.Delete(bareNode("n1")); err != nil {
		t.Fatal(err)
	}
	if !w.CatchUp("n1", 2) {
		t.Error("the node went")
	}
	w.wantFree(t, "n1", -1)
	if _, left := w.settled.Load("n1"); left {
		t.Error("a node that is gone is remembered")
	}
}
