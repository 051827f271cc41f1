package observe

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// fails is the part of *testing.T and *rapid.T that the fixtures need.
type fails interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// notes collects reports as "name reason".
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) Report(regarding runtime.Object, reason, _, _ string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := "?"
	if object, err := meta.Accessor(regarding); err == nil {
		name = object.GetName()
	}
	n.list = append(n.list, name+" "+reason)
}

// take returns what was reported since the last call.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.list
	n.list = nil
	return out
}

// world is an Observer over informers that do not run: a test says when a store changes and when its handler hears of it.
type world struct {
	*Observer
	notes                       *notes
	nodeStore, podStore, slices cache.Store
	factory                     informers.SharedInformerFactory
}

func newWorld(t fails) *world {
	t.Helper()
	w := &world{notes: &notes{}, factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	w.Observer = New(ledger.New(), Options{Rates: topology.DefaultRates()}, w.notes, klog.New(nil), testingclock.NewFakePassiveClock(time.Unix(1e9, 0)))
	if _, err := w.Register(w.factory); err != nil {
		t.Fatal(err)
	}
	w.nodeStore = w.factory.Core().V1().Nodes().Informer().GetStore()
	w.podStore = w.factory.Core().V1().Pods().Informer().GetStore()
	w.slices = w.factory.Resource().V1().ResourceSlices().Informer().GetStore()
	return w
}

// put stores an object and tells the handler, as an informer does.
func put(t fails, store cache.Store, handler cache.ResourceEventHandler, object any) {
	t.Helper()
	old, had, err := store.Get(object)
	if err == nil {
		err = store.Add(object)
	}
	if err != nil {
		t.Fatal(err)
	}
	if had {
		handler.OnUpdate(old, object)
	} else {
		handler.OnAdd(object, false)
	}
}

// remove is put for a delete.
func remove(t fails, store cache.Store, handler cache.ResourceEventHandler, object any) {
	t.Helper()
	if err := store.Delete(object); err != nil {
		t.Fatal(err)
	}
	handler.OnDelete(object)
}

func (w *world) putNode(t fails, node *v1.Node) {
	t.Helper()
	put(t, w.nodeStore, w.nodeHandler(), node)
}

func (w *world) putPod(t fails, pod *v1.Pod) {
	t.Helper()
	put(t, w.podStore, w.podHandler(), pod)
}

func (w *world) removePod(t fails, pod *v1.Pod) {
	t.Helper()
	remove(t, w.podStore, w.podHandler(), pod)
}

// cardsOf are whole cards of an N8s node.
func cardsOf(node string, indices ...int) []allocate.CardShare {
	spec := kit.N8s(node)
	out := make([]allocate.CardShare, len(indices))
	for i, at := range indices {
		out[i] = allocate.CardShare{
			Index: at, UUID: spec.Cards[at].UUID, SliceMask: allocate.WholeCard,
			VRAMBytes: spec.Cards[at].VRAMBytes, ComputeMilli: allocate.MilliPerCard,
		}
	}
	return out
}

// must is for steps that succeed.
func (w *world) must(t fails, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorded is the record of whole cards.
func recorded(t fails, node string, indices ...int) kit.PodOption {
	t.Helper()
	text, err := record.Build(node, allocate.Choice{Cards: cardsOf(node, indices...)}, record.Options{}).Format()
	if err != nil {
		t.Fatal(err)
	}
	return kit.Annotate(v1alpha1.AllocationAnnotation, text)
}

// boundPod is a pod on a node with its record.
func boundPod(t fails, uid, node string, indices ...int) *v1.Pod {
	t.Helper()
	return kit.Pod("ns", "pod-"+uid, kit.UID(uid), kit.GPUs(int64(len(indices))), kit.OnNode(node), recorded(t, node, indices...))
}

// with returns a changed copy.
func with(pod *v1.Pod, options ...kit.PodOption) *v1.Pod {
	pod = pod.DeepCopy()
	for _, o := range options {
		o(pod)
	}
	return pod
}

func phase(p v1.PodPhase) kit.PodOption { return func(pod *v1.Pod) { pod.Status.Phase = p } }

func unrecorded(pod *v1.Pod) { delete(pod.Annotations, v1alpha1.AllocationAnnotation) }

// wantHolding checks what a pod holds: the cards, or a number of unknown ones; nothing where node is empty.
func (w *world) wantHolding(t fails, uid ledger.PodUID, node ledger.NodeName, unknown int, indices ...int) {
	t.Helper()
	h, stage, held := w.ledger.Holding(uid)
	if node == "" {
		if held {
			t.Errorf("pod %s holds %+v, want nothing", uid, h)
		}
		return
	}
	var got []int
	for _, c := range h.Cards {
		got = append(got, c.Index)
	}
	if !held || stage != ledger.StageBound || h.Node != node || h.UnknownCards != unknown || !slices.Equal(got, indices) {
		t.Errorf("pod %s (%v) holds cards %v and %d unknown ones of node %q, want %v and %d of %q", uid, stage, got, h.UnknownCards, h.Node, indices, unknown, node)
	}
	if err := w.ledger.Check(); err != nil {
		t.Errorf("invariants: %v", err)
	}
}

// wantFree checks the cards that new pods can have; -1 means that the ledger has no such node.
func (w *world) wantFree(t fails, node ledger.NodeName, want int) {
	t.Helper()
	got := -1
	if a := w.ledger.Node(node); a != nil {
		got = a.Free.Len()
	}
	if got != want {
		t.Errorf("node %s has %d free cards, want %d", node, got, want)
	}
}

func (w *world) wantNotes(t *testing.T, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, w.notes.take()); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}
