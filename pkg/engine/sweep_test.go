package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/reconcile"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// swept is an engine whose informers do not run: a test puts objects into their stores, of which no handler hears, and sweeps.
type swept struct {
	*Engine
	bench       *bench
	t           *testing.T
	clock       *testingclock.FakeClock
	sweeps      *reconcile.Loop
	nodes, pods cache.Store
}

func newSwept(t *testing.T, change func(*config.GPUTopologyArgs)) *swept {
	t.Helper()
	c := testingclock.NewFakeClock(start)
	b := newBench(t, c)
	b.ledger.Forget(podUID)
	args := defaultArgs()
	if change != nil {
		change(args)
	}
	observer := observe.New(b.ledger, observe.Options{Rates: topology.DefaultRates(), MaxAge: args.TopologyMaxAge.Duration}, b.Engine, klog.FromContext(b.ctx), c)
	if _, err := observer.Register(b.factory); err != nil {
		t.Fatal(err)
	}
	b.observer.Store(observer)
	s := &swept{Engine: b.Engine, bench: b, t: t, clock: c, sweeps: b.newSweeps(b.ctx, b.handle, args, observer)}
	s.nodes, s.pods = b.factory.Core().V1().Nodes().Informer().GetStore(), b.factory.Core().V1().Pods().Informer().GetStore()
	s.put(s.nodes, kit.Node("n1", kit.N8s("n1")))
	s.sweep()
	return s
}

func (s *swept) put(store cache.Store, object any) {
	s.t.Helper()
	if err := store.Add(object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *swept) remove(store cache.Store, object any) {
	s.t.Helper()
	if err := store.Delete(object); err != nil {
		s.t.Fatal(err)
	}
}

// sweep sweeps a period later and returns "kind pod node" of what was repaired.
func (s *swept) sweep() []string {
	s.t.Helper()
	s.clock.Step(time.Minute)
	s.sweeps.Sweep()
	last := s.sweeps.Last()
	var out []string
	for _, r := range last.Last {
		if r.At.Equal(last.Started) {
			out = append(out, fmt.Sprintf("%s %s %s", r.Kind, r.Pod, r.Node))
		}
	}
	slices.Reverse(out)
	if err := s.ledger.Check(); err != nil {
		s.t.Errorf("invariants: %v", err)
	}
	return out
}

func (s *swept) same(what string, got []string, want ...string) {
	s.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// free checks the cards of n1 that new pods can have; -1 means that the ledger does not know it.
func (s *swept) free(want int) {
	s.t.Helper()
	got := -1
	if a := s.ledger.Node("n1"); a != nil {
		got = a.Free.Len()
	}
	if got != want {
		s.t.Errorf("%d cards of n1 are free, want %d", got, want)
	}
}

// running puts a bound pod of n cards, the first ones of the node, into the store and tells the observer.
func (s *swept) running(uid, node string, n int) *v1.Pod {
	s.t.Helper()
	pod := kit.Pod("t", uid, kit.UID(uid), kit.GPUs(int64(n)), kit.OnNode(node), recordOf(s.t, node, n))
	s.put(s.pods, pod)
	s.Observer().PodSeen(pod)
	return pod
}

func firstCards(node string, n int) []allocate.CardShare {
	spec := kit.N8s(node)
	out := make([]allocate.CardShare, n)
	for i := range out {
		out[i] = allocate.CardShare{
			Index: i, UUID: spec.Cards[i].UUID, SliceMask: allocate.WholeCard, VRAMBytes: spec.Cards[i].VRAMBytes, ComputeMilli: allocate.MilliPerCard,
		}
	}
	return out
}

func recordOf(t *testing.T, node string, n int) kit.PodOption {
	t.Helper()
	text, err := record.Build(node, allocate.Choice{Cards: firstCards(node, n)}, record.Options{}).Format()
	if err != nil {
		t.Fatal(err)
	}
	return kit.Annotate(v1alpha1.AllocationAnnotation, text)
}

// TestCaseB056OrphanOfALostDelete: the delete came as a tombstone that names no pod, so no handler could act on it. The sweep
// suspects the pod, and the next one releases it; the leak is counted once.
func TestCaseB056OrphanOfALostDelete(t *testing.T) {
	s := newSwept(t, nil)
	s.remove(s.pods, s.running("p", "n1", 8))
	s.free(0)
	s.same("first sweep", s.sweep())
	s.free(0)
	s.same("second sweep", s.sweep(), "orphan t/p n1")
	s.free(8)
	s.same("third sweep", s.sweep())
	if got := s.sweeps.Last().Repairs[reconcile.Orphan]; got != 1 {
		t.Errorf("%d orphans are counted, want 1", got)
	}
}

// TestCaseB061LostDeleteAndNodeRecreated: charges follow the live pods, whatever becomes of the node object.
func TestCaseB061LostDeleteAndNodeRecreated(t *testing.T) {
	s := newSwept(t, nil)
	p, stays := s.running("p", "n1", 4), s.running("stays", "n2", 1)
	s.remove(s.pods, p) // and its delete is lost
	s.remove(s.nodes, kit.Node("n1", kit.N8s("n1")))
	s.same("node gone", s.sweep(), "node-gone  n1")
	again := kit.Node("n1", kit.N8s("n1"))
	again.UID = "2"
	s.put(s.nodes, again)
	s.same("node back, and the pod was gone twice", s.sweep(), "node-missing  n1", "orphan t/p n1")
	s.free(8)
	if held, _, ok := s.ledger.Holding(ledger.PodUID(stays.UID)); !ok || held.Node != "n2" {
		t.Errorf("a living pod on a node that nobody knows holds %+v", held)
	}
}

// TestCaseB091NodeNotReadyForAWhile: its pods run on, so their cards stay charged.
func TestCaseB091NodeNotReadyForAWhile(t *testing.T) {
	s := newSwept(t, nil)
	a := s.running("a-0", "n1", 8)
	state := func(ready v1.ConditionStatus) {
		node := kit.Node("n1", kit.N8s("n1"))
		node.Status.Conditions[0].Status = ready
		s.put(s.nodes, node)
		s.Observer().NodeChanged("n1")
	}
	before, _ := s.ledger.Entry(ledger.PodUID(a.UID))
	state(v1.ConditionUnknown)
	for range 3 {
		s.same("not ready", s.sweep())
		s.free(0)
	}
	state(v1.ConditionTrue)
	s.same("ready", s.sweep())
	s.free(0)
	if after, _ := s.ledger.Entry(ledger.PodUID(a.UID)); after.Revision != before.Revision {
		t.Errorf("the pod was charged anew: %+v, then %+v", before, after)
	}
}

// TestCaseB098AnnotationGrowsStale: as long as nothing makes it stale nothing changes; then no new pod comes, the charges
// stay, and the node is never forgotten. Two replicas whose clocks differ judge by their own.
func TestCaseB098AnnotationGrowsStale(t *testing.T) {
	observed := func(at time.Time) *v1.Node {
		node := kit.Node("n1", kit.N8s("n1"))
		text := node.Annotations[v1alpha1.TopologyAnnotation]
		node.Annotations[v1alpha1.TopologyAnnotation] = `{"observedAt":"` + at.Format(time.RFC3339) + `",` + text[1:]
		return node
	}
	const skew = 90 * time.Second
	t.Run("it may not grow stale", func(t *testing.T) {
		s := newSwept(t, nil)
		s.put(s.nodes, observed(s.clock.Now().Add(-skew)))
		s.running("p", "n1", 3)
		for range 10 {
			s.same("sweep", s.sweep())
			s.free(5)
		}
	})
	for name, off := range map[string]time.Duration{"node's clock is behind": -skew, "node's clock is ahead": skew} {
		t.Run(name, func(t *testing.T) {
			const maxAge = 5 * time.Minute
			for _, replica := range []time.Duration{0, 2 * time.Second} {
				s := newSwept(t, func(a *config.GPUTopologyArgs) { a.TopologyMaxAge.Duration = maxAge })
				s.clock.Step(replica)
				s.running("p", "n1", 3)
				last := time.Time{}
				for range 10 { // heartbeats come
					last = s.clock.Now().Add(off)
					s.put(s.nodes, observed(last))
					s.same("sweep", s.sweep())
					s.free(5)
				}
				for range 15 { // and stop
					s.same("sweep", s.sweep())
					if s.clock.Now().After(last.Truncate(time.Second).Add(maxAge)) {
						s.free(0)
					} else {
						s.free(5)
					}
					if _, stage, _ := s.ledger.Holding("p"); stage != ledger.StageBound {
						t.Errorf("the pod is %s", stage)
					}
				}
				s.free(0)
				s.put(s.nodes, observed(s.clock.Now()))
				s.same("a heartbeat", s.sweep())
				s.free(5)
			}
		})
	}
}

// TestCaseB103DeletedPreemptor: nothing of ours holds cards for a nomination; what a preemptor reserved before it was deleted
// goes by two sweeps at the latest, though its node was replaced meanwhile.
func TestCaseB103DeletedPreemptor(t *testing.T) {
	s := newSwept(t, nil)
	h := kit.Pod("t", "h", kit.UID("h"), kit.GPUs(8))
	h.Status.NominatedNodeName = "n1"
	s.put(s.pods, h)
	s.same("nominated", s.sweep())
	s.free(8)
	if err := s.ledger.Assume(ledger.Holding{UID: "h", Pod: "t/h", Node: "n1", Cards: firstCards("n1", 8)}); err != nil {
		t.Fatal(err)
	}
	s.remove(s.pods, h) // in mid-cycle, and its delete is lost
	s.remove(s.nodes, kit.Node("n1", kit.N8s("n1")))
	s.same("node gone", s.sweep(), "node-gone  n1")
	s.put(s.nodes, kit.Node("n1", kit.N8s("n1")))
	s.same("node back", s.sweep(), "node-missing  n1", "orphan t/h n1")
	s.free(8)
	if err := s.ledger.Assume(ledger.Holding{UID: "y", Pod: "t/y", Node: "n1", Cards: firstCards("n1", 8)}); err != nil {
		t.Errorf("y does not fit: %v", err)
	}
}

// TestCaseB051RecordOfAnotherNode: the pod runs on n2 and its record names cards of n1. It is reported, charged by number on
// n2, and holds nothing on n1, whether or not events told of it.
func TestCaseB051RecordOfAnotherNode(t *testing.T) {
	s := newSwept(t, nil)
	s.Placing()
	s.put(s.nodes, kit.Node("n2", kit.N8s("n2")))
	s.put(s.pods, kit.Pod("t", "p", kit.UID("p"), kit.GPUs(4), kit.OnNode("n2"), recordOf(t, "n1", 4)))
	for len(s.reports.queue) > 0 {
		<-s.reports.queue
	}
	s.same("first sweep", s.sweep(), "node-missing  n2", "missing t/p n2")
	s.free(8)
	if a := s.ledger.Node("n2"); a.Free.Len() != 4 || a.Foreign.Len() != 4 {
		t.Errorf("n2: %d free, %d held by nobody knows whom", a.Free.Len(), a.Foreign.Len())
	}
	var reasons []string
	for len(s.reports.queue) > 0 {
		reasons = append(reasons, (<-s.reports.queue).reason)
	}
	s.same("reports", reasons, "GPULedgerRepaired", "GPURecordUnreadable", "GPULedgerRepaired")
	s.same("told once", s.sweep())
}

// TestSweepLeavesWhatIsInFlight: a pod whose Binding is being sent is left alone though its object is gone.
func TestSweepLeavesWhatIsInFlight(t *testing.T) {
	s := newSwept(t, nil)
	cards := firstCards("n1", 1)
	if err := s.ledger.Assume(ledger.Holding{UID: "p", Pod: "t/p", Node: "n1", Cards: cards}); err != nil {
		t.Fatal(err)
	}
	if err := s.inFlight.begin(s.ledger, "p", "n1", cards); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.same("sweep", s.sweep())
	}
	s.inFlight.end("p")
	s.same("landed", s.sweep())
	for len(s.wakes) > 0 {
		<-s.wakes
	}
	s.same("second sweep", s.sweep(), "orphan t/p n1")
	if len(s.wakes) != 1 {
		t.Error("nobody is woken for the cards that came free")
	}
}

// TestStartRunsSweeps: Start has the ledger swept by the clock once it is in sync, and a kick brings a sweep about.
func TestStartRunsSweeps(t *testing.T) {
	c := testingclock.NewFakeClock(start)
	b := newBench(t, c)
	b.Kick() // before Start it is nothing
	if got := b.LastSweep(); got.Sweeps != 0 || got.Repairs != nil {
		t.Errorf("%+v before Start", got)
	}
	if err := b.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	b.inSync.Store(true)
	eventually(b.ctx, t, "a sweep", func() bool { b.Kick(); c.Step(time.Second); return b.LastSweep().Sweeps > 0 })
	if since := c.Since(start); since < time.Second {
		t.Errorf("a sweep after %s", since)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
