package reconcile

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
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
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const period = time.Minute

// fails is the part of *testing.T, *testing.B and *rapid.T that the fixtures need.
type fails interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// world is a loop over informers that do not run: what a test puts into the stores no handler hears of.
type world struct {
	*Loop
	t         fails
	clock     *testingclock.FakeClock
	nodeStore cache.Store
	podStore  cache.Store
	claims    cache.Store

	mu     sync.Mutex
	flying map[ledger.PodUID]bool
	// busy are the pods whose Binding is being sent when it comes to giving them back.
	busy   map[ledger.PodUID]bool
	notes  []string
	woken  int
	synced bool
}

func newWorld(t fails, options observe.Options) *world {
	t.Helper()
	w := &world{t: t, clock: testingclock.NewFakeClock(start), flying: map[ledger.PodUID]bool{}, busy: map[ledger.PodUID]bool{}, synced: true}
	l := ledger.New()
	options.Rates = topology.DefaultRates()
	observer := observe.New(l, options, w, klog.New(nil), w.clock)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if _, err := observer.Register(factory); err != nil {
		t.Fatal(err)
	}
	w.nodeStore = factory.Core().V1().Nodes().Informer().GetStore()
	w.podStore = factory.Core().V1().Pods().Informer().GetStore()
	w.claims = factory.Resource().V1().ResourceClaims().Informer().GetStore()
	w.Loop = New(Options{
		Ledger: l, Observer: observer, Flight: w, Report: w, Logger: klog.New(nil), Clock: w.clock, Period: period, Seed: 1,
		Synced: w.isSynced, Freed: w.wake,
	})
	return w
}

func (w *world) isSynced() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.synced }

func (w *world) wake() { w.mu.Lock(); defer w.mu.Unlock(); w.woken++ }

// InFlight implements Flight.
func (w *world) InFlight(uid ledger.PodUID) bool { return w.flying[uid] }

// ForgetIdle implements Flight.
func (w *world) ForgetIdle(uid ledger.PodUID) bool { return !w.busy[uid] && w.Ledger.Forget(uid) }

// Report implements observe.Reporter.
func (w *world) Report(regarding runtime.Object, reason, _, _ string) {
	name := "?"
	if object, err := meta.Accessor(regarding); err == nil {
		name = object.GetName()
	}
	w.notes = append(w.notes, name+" "+reason)
}

// node puts a node of eight cards into the store; the ledger hears of it by a sweep.
func (w *world) node(name string) {
	w.t.Helper()
	w.put(w.nodeStore, kit.Node(name, kit.N8s(name)))
}

func (w *world) put(store cache.Store, object any) {
	w.t.Helper()
	if err := store.Add(object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(store cache.Store, object any) {
	w.t.Helper()
	if err := store.Delete(object); err != nil {
		w.t.Fatal(err)
	}
}

// holding is what pod uid holds: whole cards of a node.
func holding(uid, node string, indices ...int) ledger.Holding {
	h := ledger.Holding{UID: ledger.PodUID(uid), Pod: "ns/" + uid, Node: ledger.NodeName(node)}
	spec := kit.N8s(node)
	for _, i := range indices {
		h.Cards = append(h.Cards, allocate.CardShare{
			Index: i, UUID: spec.Cards[i].UUID, SliceMask: allocate.WholeCard, VRAMBytes: spec.Cards[i].VRAMBytes, ComputeMilli: allocate.MilliPerCard,
		})
	}
	return h
}

// pod is a pod that asks for n cards; version is its resourceVersion.
func pod(uid string, n, version int, options ...kit.PodOption) *v1.Pod {
	p := kit.Pod("ns", uid, append([]kit.PodOption{kit.UID(uid), kit.GPUs(int64(n))}, options...)...)
	p.ResourceVersion = fmt.Sprint(version)
	return p
}

// recorded binds a pod as the holding says.
func recorded(t fails, h ledger.Holding) kit.PodOption {
	t.Helper()
	text, err := record.Build(string(h.Node), allocate.Choice{Cards: h.Cards}, record.Options{}).Format()
	if err != nil {
		t.Fatal(err)
	}
	return func(p *v1.Pod) {
		kit.OnNode(string(h.Node))(p)
		kit.Annotate(v1alpha1.AllocationAnnotation, text)(p)
	}
}

// boundPod is the pod of a holding.
func boundPod(t fails, h ledger.Holding, version int) *v1.Pod {
	t.Helper()
	return pod(string(h.UID), len(h.Cards), version, recorded(t, h))
}

// must is for steps that succeed.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// sweep sweeps and returns "kind pod node" of what was repaired.
func (w *world) sweep() []string {
	w.t.Helper()
	before := w.Last().Sweeps
	w.Sweep()
	if err := w.Ledger.Check(); err != nil {
		w.t.Errorf("invariants: %v", err)
	}
	last := w.Last()
	if last.Sweeps != before+1 {
		w.t.Errorf("%d sweeps after one more than %d", last.Sweeps, before)
	}
	var out []string
	for _, r := range last.Last {
		if r.At.Equal(last.Started) {
			out = append(out, fmt.Sprintf("%s %s %s", r.Kind, r.UID, r.Node))
		}
	}
	slices.Reverse(out) // the oldest first
	return out
}

// later sweeps after a time.
func (w *world) later() []string {
	w.t.Helper()
	w.clock.Step(period)
	return w.sweep()
}

func (w *world) free(node ledger.NodeName) int {
	if a := w.Ledger.Node(node); a != nil {
		return a.Free.Len()
	}
	return -1
}

// entriesOf lists what a ledger has.
func entriesOf(l *ledger.Ledger) []ledger.Entry {
	var out []ledger.Entry
	for _, uid := range l.Pods() {
		if e, ok := l.Entry(uid); ok {
			out = append(out, e)
		}
	}
	return out
}

// forget is a restart, as far as sweeps remember.
func (w *world) forget() {
	for i := range w.memory.entries {
		w.memory.entries[i].open()
	}
}
