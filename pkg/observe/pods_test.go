package observe

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestPodIsCharged(t *testing.T) {
	record := v1alpha1.AllocationAnnotation
	tests := map[string]struct {
		pod *v1.Pod
		// wantNode is empty for a pod that holds nothing.
		wantNode    ledger.NodeName
		wantUnknown int
		wantCards   []int
		wantNotes   []string
	}{
		"record":               {pod: boundPod(t, "u", "n1", 2, 5), wantNode: "n1", wantCards: []int{2, 5}},
		"no record":            {pod: with(boundPod(t, "u", "n1", 2, 5), unrecorded), wantNode: "n1", wantUnknown: 2},
		"damaged record":       {pod: with(boundPod(t, "u", "n1", 2, 5), kit.Annotate(record, `{"v":1,`)), wantNode: "n1", wantUnknown: 2, wantNotes: []string{"pod-u " + reasonUnreadable}},
		"record of the future": {pod: with(boundPod(t, "u", "n1", 2), kit.Annotate(record, `{"v":2}`)), wantNode: "n1", wantUnknown: 1, wantNotes: []string{"pod-u " + reasonUnreadable}},
		"record of another node": {
			pod: with(boundPod(t, "u", "n1", 2), recorded(t, "n2", 2)), wantNode: "n1", wantUnknown: 1, wantNotes: []string{"pod-u " + reasonUnreadable},
		},
		"foreign scheduler":    {pod: kit.Pod("ns", "p", kit.UID("u"), kit.GPUs(3), kit.OnNode("n1"), kit.ForScheduler("other")), wantNode: "n1", wantUnknown: 3},
		"running":              {pod: with(boundPod(t, "u", "n1", 0), phase(v1.PodRunning)), wantNode: "n1", wantCards: []int{0}},
		"not bound":            {pod: kit.Pod("ns", "p", kit.UID("u"), kit.GPUs(3))},
		"no GPUs":              {pod: kit.Pod("ns", "p", kit.UID("u"), kit.OnNode("n1"))},
		"record but no GPUs":   {pod: kit.Pod("ns", "p", kit.UID("u"), kit.OnNode("n1"), recorded(t, "n1", 0)), wantNotes: []string{"p " + reasonUnreadable}},
		"succeeded":            {pod: with(boundPod(t, "u", "n1", 0), phase(v1.PodSucceeded))},
		"failed":               {pod: with(boundPod(t, "u", "n1", 0), phase(v1.PodFailed))},
		"failed before a node": {pod: kit.Pod("ns", "p", kit.UID("u"), kit.GPUs(1), phase(v1.PodFailed))},
		"being deleted": {pod: with(boundPod(t, "u", "n1", 0), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)} }),
			wantNode: "n1", wantCards: []int{0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			w.putPod(t, tt.pod)
			w.wantHolding(t, "u", tt.wantNode, tt.wantUnknown, tt.wantCards...)
			w.wantFree(t, "n1", 8-tt.wantUnknown-len(tt.wantCards))
			w.wantNotes(t, tt.wantNotes...)
			w.removePod(t, tt.pod)
			w.wantHolding(t, "u", "", 0)
			w.wantFree(t, "n1", 8)
		})
	}
}

// TestPodUpdates plays a life of updates, the first of which is an add.
func TestPodUpdates(t *testing.T) {
	bound := boundPod(t, "u", "n1", 2, 5)
	foreign := with(bound, unrecorded)
	waiting := kit.Pod("ns", "pod-u", kit.UID("u"), kit.GPUs(2))
	type outcome struct {
		node    ledger.NodeName
		unknown int
		cards   []int
		notes   []string
	}
	ours := outcome{node: "n1", cards: []int{2, 5}}
	edited := []string{"pod-u " + reasonEdited}
	tests := map[string]struct {
		life []*v1.Pod
		want outcome
	}{
		"bound while it waits":          {[]*v1.Pod{waiting, bound}, ours},
		"runs":                          {[]*v1.Pod{waiting, bound, with(bound, phase(v1.PodRunning))}, ours},
		"ends":                          {[]*v1.Pod{waiting, bound, with(bound, phase(v1.PodSucceeded))}, outcome{}},
		"ends in the update that binds": {[]*v1.Pod{waiting, with(bound, phase(v1.PodFailed))}, outcome{}},
		"nothing comes after the end":   {[]*v1.Pod{bound, with(bound, phase(v1.PodFailed)), bound}, outcome{}},
		"record edited after the bind": {[]*v1.Pod{bound, with(bound, recorded(t, "n1", 0, 1))},
			outcome{"n1", 0, []int{2, 5}, edited}},
		"record damaged after the bind": {[]*v1.Pod{bound, with(bound, kit.Annotate(v1alpha1.AllocationAnnotation, "x"))},
			outcome{"n1", 0, []int{2, 5}, edited}},
		"record removed after the bind": {[]*v1.Pod{bound, foreign}, outcome{"n1", 0, []int{2, 5}, edited}},
		"record appears":                {[]*v1.Pod{foreign, bound}, ours},
		"record is put in order": {[]*v1.Pod{with(bound, kit.Annotate(v1alpha1.AllocationAnnotation, "x")), bound},
			outcome{"n1", 0, []int{2, 5}, []string{"pod-u " + reasonUnreadable}}},
		"other annotations change": {[]*v1.Pod{bound, with(bound, kit.Annotate("a", "b"))}, ours},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			for _, pod := range tt.life {
				w.putPod(t, pod)
			}
			w.wantHolding(t, "u", tt.want.node, tt.want.unknown, tt.want.cards...)
			w.wantFree(t, "n1", 8-len(tt.want.cards))
			w.wantNotes(t, tt.want.notes...)
		})
	}
}

// TestUpdateConfirmsWhatIsInFlight: the informer is faster than the answer to the Binding.
func TestUpdateConfirmsWhatIsInFlight(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	w.putPod(t, kit.Pod("ns", "pod-u", kit.UID("u"), kit.GPUs(1)))
	if err := w.ledger.Assume(ledger.Holding{UID: "u", Pod: "ns/pod-u", Node: "n1", Cards: cardsOf("n1", 3)}); err != nil {
		t.Fatal(err)
	}
	w.putPod(t, boundPod(t, "u", "n1", 3))
	w.wantHolding(t, "u", "n1", 0, 3)
	if w.ledger.Forget("u") {
		t.Error("a late Unreserve gave back the cards of a bound pod")
	}
}

// TestNameIsTakenByAnotherPod: the informer missed the delete, and one update holds the end of one pod and the life of
// another. Nobody may see the cards free between the two.
func TestNameIsTakenByAnotherPod(t *testing.T) {
	old := boundPod(t, "old", "n1", 0, 1)
	named := func(pod *v1.Pod) *v1.Pod { return with(pod, func(p *v1.Pod) { p.Name = old.Name }) }
	tests := map[string]struct {
		pod      *v1.Pod
		wantNode ledger.NodeName
		want     []int
		// wantGenerations is the number of states of n1 that readers could see meanwhile.
		wantGenerations uint64
	}{
		"bound to the same cards": {named(boundPod(t, "new", "n1", 0, 1)), "n1", []int{0, 1}, 1},
		"bound to other cards":    {named(boundPod(t, "new", "n1", 4)), "n1", []int{4}, 1},
		"not bound":               {named(kit.Pod("ns", "", kit.UID("new"), kit.GPUs(2))), "", nil, 1},
		"ended already":           {named(with(boundPod(t, "new", "n1", 0), phase(v1.PodFailed))), "", nil, 1},
		"without GPUs":            {named(kit.Pod("ns", "", kit.UID("new"), kit.OnNode("n1"))), "", nil, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			w.putPod(t, old)
			before := w.ledger.Node("n1").Generation
			w.putPod(t, tt.pod)
			w.wantHolding(t, "old", "", 0)
			w.wantHolding(t, "new", tt.wantNode, 0, tt.want...)
			w.wantFree(t, "n1", 8-len(tt.want))
			if got := w.ledger.Node("n1").Generation - before; got != tt.wantGenerations {
				t.Errorf("%d states were published, want %d", got, tt.wantGenerations)
			}
			w.podHandler().OnDelete(old) // late
			w.wantHolding(t, "new", tt.wantNode, 0, tt.want...)
		})
	}
}

// TestMissedDelete: a tombstone stands for a delete that the informer did not see, with the last object that it knew.
func TestMissedDelete(t *testing.T) {
	pod := boundPod(t, "u", "n1", 0, 1)
	tests := map[string]struct {
		event    any
		wantHeld bool
	}{
		"object":           {cache.DeletedFinalStateUnknown{Key: "ns/pod-u", Obj: pod}, false},
		"no object":        {cache.DeletedFinalStateUnknown{Key: "ns/pod-u"}, true},
		"object of a kind": {cache.DeletedFinalStateUnknown{Key: "ns/pod-u", Obj: &v1.Service{}}, true},
		"no pod at all":    {&v1.Service{}, true},
		"nothing":          {nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			w.putPod(t, pod)
			if err := w.podStore.Delete(pod); err != nil {
				t.Fatal(err)
			}
			w.podHandler().OnDelete(tt.event)
			if tt.wantHeld {
				w.wantHolding(t, "u", "n1", 0, 0, 1)
			} else {
				w.wantHolding(t, "u", "", 0)
			}
			// What the event did not say, the store does.
			w.CatchUp("n1", 7)
			w.wantHolding(t, "u", "", 0)
			w.wantFree(t, "n1", 8)
		})
	}
}

// TestPodChanged: the queueing hint says only that something happened to the pod; the store says what is true.
func TestPodChanged(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	kept, gone, ended, replaced := boundPod(t, "kept", "n1", 0), boundPod(t, "gone", "n1", 1), boundPod(t, "ended", "n1", 2), boundPod(t, "replaced", "n1", 3)
	for _, pod := range []*v1.Pod{kept, gone, ended, replaced} {
		w.putPod(t, pod)
	}
	stored := []any{with(ended, phase(v1.PodSucceeded)), with(replaced, kit.UID("next"), recorded(t, "n1", 6))}
	for _, pod := range stored {
		if err := w.podStore.Update(pod); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.podStore.Delete(gone); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, pod := range []*v1.Pod{kept, gone, ended, replaced} {
			w.PodChanged(pod)
		}
		w.wantHolding(t, "kept", "n1", 0, 0)
		w.wantHolding(t, "gone", "", 0)
		w.wantHolding(t, "ended", "", 0)
		w.wantHolding(t, "replaced", "", 0)
		w.wantHolding(t, "next", "n1", 0, 6)
	}
}

// TestQuarantineIsReported: two records that name one card contradict each other; the node is closed, said once, and open
// again when one of the pods ends.
func TestQuarantineIsReported(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N2("n1")))
	foreign := kit.Pod("ns", "f", kit.UID("f"), kit.GPUs(3), kit.OnNode("n1"))
	w.putPod(t, foreign)
	if !w.ledger.Node("n1").Quarantined {
		t.Fatal("a pod with three cards of two does not close the node")
	}
	w.wantNotes(t, "n1 "+reasonQuarantine)
	w.NodeChanged("n1")
	w.wantNotes(t)
	w.Repeat()
	w.wantNotes(t, "n1 "+reasonQuarantine)
	w.removePod(t, foreign)
	w.wantFree(t, "n1", 2)
	w.Repeat()
	w.wantNotes(t)
}

// TestHandlersAreRegistered: with running informers, an object of every kind reaches the ledger.
func TestHandlersAreRegistered(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pod := boundPod(t, "u", "n1", 0)
	client := fake.NewClientset(kit.Node("n1", kit.N8s("n1")), pod, bareNode("dra"), slice("s", "dra", "gpu.nvidia.com", 2))
	factory := informers.NewSharedInformerFactory(client, 0)
	o := New(ledger.New(), Options{Rates: topology.DefaultRates()}, &notes{}, klog.New(nil), clock.RealClock{})
	registrations, err := o.Register(factory)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	for _, r := range registrations {
		if !cache.WaitForCacheSync(ctx.Done(), r.HasSynced) {
			t.Fatal("the informers do not sync")
		}
	}
	free := func(n1, dra int) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			a, b := o.ledger.Node("n1"), o.ledger.Node("dra")
			return a != nil && b != nil && a.Free.Len() == n1 && b.Free.Len() == dra, nil
		}
	}
	if ok, _ := free(7, 2)(ctx); !ok {
		t.Fatalf("after the first list: %+v, %+v", o.ledger.Node("n1"), o.ledger.Node("dra"))
	}
	if err := client.CoreV1().Pods("ns").Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ResourceV1().ResourceSlices().Update(ctx, slice("s", "dra", "gpu.nvidia.com", 4), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, free(8, 4)); err != nil {
		t.Errorf("after the changes: %+v, %+v", o.ledger.Node("n1"), o.ledger.Node("dra"))
	}
}
