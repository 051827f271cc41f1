package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB158NothingIsLeftOfChurn: nodes with faults come and go, and on them pods that run, fail admission, have unreadable
// records, end in order or are deleted while they run. Nothing is kept of those that are gone.
func TestCaseB158NothingIsLeftOfChurn(t *testing.T) {
	w := newCoolWorld(t)
	for round := range 50 {
		name := fmt.Sprintf("passing-%d", round)
		node := kit.Node(name, kit.N8s(name))
		w.putNode(t, node)
		faulty := node.DeepCopy()
		faulty.Annotations["gputopology.io/topology"] = "{"
		w.putNode(t, faulty)
		if round%2 == 0 {
			w.putNode(t, node) // the others are faulty when they go
		}
		w.passingPods(t, name, round)
		w.CatchUp(name, int64(round+1))
		remove(t, w.nodeStore, w.nodeHandler(), node)
		w.CatchUp(name, int64(round+2))
		w.step(time.Minute)
		w.CoolDown()
	}
	w.step(time.Hour)
	w.CoolDown()
	settled := 0
	w.settled.Range(func(any, any) bool { settled++; return true })
	for what, n := range map[string]int{
		"nodes in the ledger": nodesOf(w.ledger) - 1, "pods in the ledger": len(w.ledger.Pods()), "settled": settled,
		"problems": len(w.problems), "quarantines": len(w.quarantines), "owners": len(w.owners) - 8, "listed": len(w.listed) - 1,
		"faults": len(w.faults), "running": len(w.cooling.running), "cooling": len(w.cooling.until), "admission": len(w.admission.nodes),
	} {
		if n != 0 {
			t.Errorf("%s: %d entries beyond those of node n1", what, n)
		}
	}
	if err := w.ledger.Check(); err != nil {
		t.Error(err)
	}
}

func nodesOf(l *ledger.Ledger) int {
	n := 0
	for range l.Nodes() {
		n++
	}
	return n
}

// passingPods are bound to a node and leave it in every way there is.
func (w *coolWorld) passingPods(t *testing.T, node string, round int) {
	t.Helper()
	uid := func(what string) string { return fmt.Sprintf("%s-%d", what, round) }
	fat := kit.Annotate("note", strings.Repeat("x", 50<<10))
	ends := with(boundPod(t, uid("ends"), node, 0), phase(v1.PodRunning), fat)
	lost := with(boundPod(t, uid("lost"), node, 1), phase(v1.PodRunning), fat)
	broken := with(boundPod(t, uid("broken"), node, 2), kit.Annotate("gputopology.io/allocation", "{"), fat)
	same := with(boundPod(t, uid("same"), node, 0), phase(v1.PodRunning)) // the card of the first: a contradiction
	for _, pod := range []*v1.Pod{ends, lost, broken, same} {
		w.putPod(t, pod)
	}
	for i := range 3 {
		refused := kit.Pod("ns", uid(fmt.Sprintf("refused-%d", i)), kit.UID(uid(fmt.Sprintf("refused-%d", i))), kit.GPUs(1), kit.OnNode(node))
		refused.Status.Phase, refused.Status.Reason = v1.PodFailed, "UnexpectedAdmissionError"
		w.end(t, refused)
		if err := w.ended.Delete(refused); err != nil {
			t.Fatal(err)
		}
	}
	w.removePod(t, ends)
	w.end(t, with(ends, phase(v1.PodSucceeded)))
	for _, pod := range []*v1.Pod{lost, broken, same} {
		w.removePod(t, pod)
	}
	if err := w.ended.Delete(ends); err != nil {
		t.Fatal(err)
	}
}
