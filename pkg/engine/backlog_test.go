package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/backlog"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// waiting is a bench whose node is in the informer's store too, with pods of the given names that want all 8 cards of the node, of which one is held.
type waiting struct {
	*bench
	pods map[string]*v1.Pod
}

func newWaiting(t *testing.T, c clock.WithTicker, options kit.PodOption, names ...string) *waiting {
	t.Helper()
	w := &waiting{bench: newBench(t, c), pods: map[string]*v1.Pod{}}
	w.profiles = map[string]*config.GPUTopologyArgs{kit.SchedulerName: defaultArgs()}
	if err := w.parking.watch(w.handle); err != nil {
		t.Fatal(err)
	}
	w.node(t, kit.Node("n1", kit.N8s("n1")))
	for _, name := range names {
		w.pods[name] = kit.Pod("ns", name, kit.UID("uid-"+name), options)
		w.store(t, w.pods[name])
		w.park(t, name, true)
	}
	return w
}

// node puts a node into the informer's store, as it is now, and has it seen.
func (w *waiting) node(t *testing.T, node *v1.Node) {
	t.Helper()
	store := w.factory.Core().V1().Nodes().Informer().GetStore()
	was, known, err := store.GetByKey(node.Name)
	if err == nil {
		err = store.Update(node)
	}
	if err != nil {
		t.Fatal(err)
	}
	if old, ok := was.(*v1.Node); known && ok {
		w.parking.nodeUpdated(old, node)
	} else {
		w.parking.nodeSeen(node)
	}
}

// store puts a pod into the informer's store, as it is now.
func (w *waiting) store(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if err := w.factory.Core().V1().Pods().Informer().GetStore().Update(pod); err != nil {
		t.Fatal(err)
	}
}

func (w *waiting) park(t *testing.T, name string, want bool) {
	t.Helper()
	r, err := w.RequestOf(w.pods[name])
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Park(w.pods[name], r); got != want {
		t.Fatalf("Park(%s) = %t, want %t", name, got, want)
	}
}

// count is what metrics show.
func (w *waiting) count() int { return w.gauges().Parked }

func TestParkedUntilCardsComeFree(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), "w1", "w2")
	w.wakeParked(w.ctx, w.handle)
	if !w.Parked(w.pods["w1"]) || w.count() != 2 || len(w.woken.names()) > 0 {
		t.Fatalf("%d are parked and %v woken, want two and nobody", w.count(), w.woken.names())
	}
	w.ledger.Forget(podUID)
	w.wakeParked(w.ctx, w.handle)
	if w.Parked(w.pods["w1"]) {
		t.Error("a pod stays parked though all cards are free")
	}
	if diff := cmp.Diff([]string{"ns/w1", "ns/w2"}, w.woken.names()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	if w.count() != 0 {
		t.Errorf("%d are parked, want none", w.count())
	}
	w.park(t, "w1", false)
	if other := kit.Pod("ns", "other", kit.GPUs(8)); w.Parked(other) {
		t.Error("a pod that nobody parked is parked")
	}
}

// TestParkedPodsThatWaitNoMore: nobody is told of a pod that is gone, bound, or another one by that name, and it is forgotten as soon
// as that is seen.
func TestParkedPodsThatWaitNoMore(t *testing.T) {
	for _, seen := range []bool{false, true} {
		w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), "gone", "bound", "again", "waits")
		if err := w.factory.Core().V1().Pods().Informer().GetStore().Delete(w.pods["gone"]); err != nil {
			t.Fatal(err)
		}
		bound := kit.Pod("ns", "bound", kit.UID("uid-bound"), kit.GPUs(8), kit.OnNode("n2"))
		w.store(t, bound)
		w.store(t, kit.Pod("ns", "again", kit.UID("uid-other"), kit.GPUs(8)))
		if seen {
			w.parking.podGone(w.pods["gone"])
			w.parking.podSeen(bound)
			w.parking.podGone(w.pods["again"])
			if w.count() != 1 {
				t.Errorf("%d are parked, want the one that waits", w.count())
			}
		}
		for _, name := range []string{"gone", "again"} {
			if r, err := w.RequestOf(w.pods[name]); err != nil || w.Park(w.pods[name], r) {
				t.Errorf("pod %s is parked after its end (%v)", name, err)
			}
		}
		w.ledger.Forget(podUID)
		w.wakeParked(w.ctx, w.handle)
		if diff := cmp.Diff([]string{"ns/waits"}, w.woken.names()); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
		if w.count() != 0 {
			t.Errorf("%d are parked, want none", w.count())
		}
	}
}

// TestParkedByWhatAdmits: a cordon, a taint and a label keep a node with all its cards from being a place, and the end of each wakes.
func TestParkedByWhatAdmits(t *testing.T) {
	plain := kit.Node("n1", kit.N8s("n1"))
	plain.Labels = map[string]string{"pool": "a"}
	for name, change := range map[string]func(*v1.Node){
		"cordoned":                  func(n *v1.Node) { n.Spec.Unschedulable = true },
		"tainted":                   func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "drain", Effect: v1.TaintEffectNoSchedule}} },
		"tainted, evicting":         func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "drain", Effect: v1.TaintEffectNoExecute}} },
		"of another pool":           func(n *v1.Node) { n.Labels = map[string]string{"pool": "b"} },
		"gone":                      nil,
		"tainted, but for choosers": func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "drain", Effect: v1.TaintEffectPreferNoSchedule}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaiting(t, clock.RealClock{}, kit.GPUs(7))
			closed := plain.DeepCopy()
			if change == nil {
				if err := w.factory.Core().V1().Nodes().Informer().GetStore().Delete(closed); err != nil {
					t.Fatal(err)
				}
			} else {
				change(closed)
				w.node(t, closed)
			}
			w.pods["w"] = kit.Pod("ns", "w", kit.UID("uid-w"), kit.GPUs(7), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "a"} })
			w.store(t, w.pods["w"])
			if name == "tainted, but for choosers" {
				w.park(t, "w", false)
				return
			}
			w.park(t, "w", true)
			w.ledger.Forget(podUID) // one card more, on a node that does not admit the pod
			w.wakeParked(w.ctx, w.handle)
			if !w.Parked(w.pods["w"]) || len(w.woken.names()) > 0 {
				t.Errorf("%v is woken for a node that does not admit it", w.woken.names())
			}
			w.node(t, plain)
			w.wakeParked(w.ctx, w.handle)
			if diff := cmp.Diff([]string{"ns/w"}, w.woken.names()); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoIsNotParked: a pod that may preempt, and one that has a node nominated: what helps it is not for the backlog to know.
func TestWhoIsNotParked(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8))
	low := kit.Pod("ns", "low", kit.UID("uid-low"), kit.GPUs(1), kit.OnNode("n1"), kit.Priority(5))
	cpu := kit.Pod("ns", "cpu", kit.UID("uid-cpu"), kit.OnNode("n1"), kit.Priority(-5))
	w.parking.podSeen(cpu)
	never := v1.PreemptNever
	for name, options := range map[string][]kit.PodOption{
		"level": {kit.Priority(5)}, "above": {kit.Priority(6)},
		"patient":   {kit.Priority(6), func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never }},
		"nominated": {kit.Priority(5), func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" }},
	} {
		w.pods[name] = kit.Pod("ns", name, append(options, kit.UID("uid-"+name), kit.GPUs(8))...)
		w.store(t, w.pods[name])
	}
	w.park(t, "nominated", false)
	w.park(t, "above", true) // nobody that it may preempt holds cards
	w.parking.podSeen(low)
	w.parking.podSeen(low)
	w.wakeParked(w.ctx, w.handle)
	if diff := cmp.Diff([]string{"ns/above"}, w.woken.names()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	w.park(t, "above", false)
	w.park(t, "level", true)
	w.park(t, "patient", true)
	w.parking.podGone(low)
	w.parking.podGone(low)
	w.park(t, "above", true)
	nominated := w.pods["level"].DeepCopy()
	nominated.Status.NominatedNodeName = "n1"
	if w.Parked(nominated) {
		t.Error("a pod stays parked though it has a node nominated")
	}
}

// TestParkedIsAskedOfThePodAsItIs: a pod that cannot be read any more, or has no GPUs any more, is let go, and so is one whose time
// is up.
func TestParkedIsAskedOfThePodAsItIs(t *testing.T) {
	fake := testingclock.NewFakeClock(time.Unix(1e9, 0))
	w := newWaiting(t, fake, kit.GPUs(8), "unreadable", "without", "old", "young")
	unreadable := kit.Pod("ns", "unreadable", kit.UID("uid-unreadable"), kit.VRAM(-1, 1))
	if _, err := w.RequestOf(unreadable); err == nil {
		t.Fatal("the pod can be read: the test shows nothing")
	}
	if w.Parked(unreadable) || w.Parked(kit.Pod("ns", "without", kit.UID("uid-without"))) {
		t.Error("a pod stays parked by what it asked for once")
	}
	fake.Step(backlog.ParkedMost)
	if w.Parked(w.pods["old"]) {
		t.Error("a pod stays parked though its time is up")
	}
	w.park(t, "young", true)
	if !w.Parked(w.pods["young"]) || w.count() != 1 {
		t.Errorf("%d are parked, want the one that was parked anew", w.count())
	}
}

// TestHoldersOfAReusedName: a watch that missed a deletion shows another pod by the name. The priority of the first counts no more, and
// it is not parked any more.
func TestHoldersOfAReusedName(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), "w")
	low := kit.Pod("ns", "p", kit.UID("uid-low"), kit.GPUs(1), kit.OnNode("n1"), kit.Priority(-1))
	w.parking.podSeen(low)
	if got := w.parking.holders.lowest(); got != -1 {
		t.Fatalf("the lowest priority is %d, want that of the one pod", got)
	}
	again := low.DeepCopy()
	again.UID, again.Spec.NodeName, again.Spec.Priority = "uid-again", "", nil
	w.parking.podUpdated(low, again)
	if got := w.parking.holders.lowest(); got != math.MaxInt32 {
		t.Errorf("the lowest priority is %d, want that of nobody", got)
	}
	bound := again.DeepCopy()
	bound.Spec.NodeName = "n1"
	w.parking.podUpdated(again, bound)
	if got := w.parking.holders.lowest(); got != 0 {
		t.Errorf("the lowest priority is %d, want that of the pod by now", got)
	}
	other := w.pods["w"].DeepCopy()
	other.UID = "uid-other"
	w.parking.podUpdated(w.pods["w"], other)
	if w.count() != 0 {
		t.Error("a pod that is gone stays parked")
	}
}

// TestClaimsHoldCardsWhenTheLedgerSaysSo: a claim may be of anything.
func TestClaimsHoldCardsWhenTheLedgerSaysSo(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8))
	claims := func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c"}} }
	w.parking.podSeen(kit.Pod("ns", "nic", kit.UID("uid-nic"), kit.OnNode("n1"), kit.Priority(-1), claims))
	if got := w.parking.holders.lowest(); got != math.MaxInt32 {
		t.Errorf("the lowest priority is %d, of a pod without cards", got)
	}
	w.parking.podSeen(kit.Pod("ns", "p", kit.UID(podUID), kit.OnNode("n1"), kit.Priority(-1), claims))
	if got := w.parking.holders.lowest(); got != -1 {
		t.Errorf("the lowest priority is %d, want that of the pod whose claim is of a card", got)
	}
}

// TestParkedPodThatJoinsAGang is woken by its gang from then on.
func TestParkedPodThatJoinsAGang(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), "w")
	joined := w.pods["w"].DeepCopy()
	joined.Labels = map[string]string{v1alpha1.PodGroupLabel: "g"}
	if w.Parked(joined) {
		t.Error("a member of a gang stays parked")
	}
	w.store(t, joined)
	w.pods["w"] = joined
	w.park(t, "w", false)
}

// TestWakeLeavesParkedPods: cards that come free without an event wake those who have no other way to hear of it.
func TestWakeLeavesParkedPods(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), "parked")
	w.store(t, kit.Pod("ns", "other", kit.UID("uid-other"), kit.GPUs(1)))
	w.wake(w.ctx, w.handle)
	if diff := cmp.Diff([]string{"ns/other"}, w.woken.names()); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

// snapshot is the nodes of a scheduler's snapshot.
type snapshot struct {
	fwk.NodeInfoLister
	nodes map[string]fwk.NodeInfo
}

func (s snapshot) Get(name string) (fwk.NodeInfo, error) {
	if n := s.nodes[name]; n != nil {
		return n, nil
	}
	return nil, errors.New("not there")
}

// TestEarly: a pod that was refused beside free cards is tried again at once where the scheduler's cache still has who held them, and no
// more often than that can last.
func TestEarly(t *testing.T) {
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8))
	w.pods["w"] = kit.Pod("ns", "w", kit.UID("uid-w"), kit.GPUs(8))
	w.store(t, w.pods["w"])
	r, err := w.RequestOf(w.pods["w"])
	if err != nil {
		t.Fatal(err)
	}
	holder, cpu := kit.Pod("ns", "p", kit.UID(podUID), kit.GPUs(1), kit.OnNode("n1")), kit.Pod("ns", "cpu", kit.UID("uid-cpu"), kit.OnNode("n1"))
	behind := snapshot{nodes: map[string]fwk.NodeInfo{"n1": framework.NewNodeInfo(cpu, holder)}}
	if w.Early(w.pods["w"], r, behind) {
		t.Error("a pod was tried too early though its cards are held")
	}
	w.ledger.Forget(podUID)
	w.wakeParked(w.ctx, w.handle)
	w.parking.follow()
	if w.Early(w.pods["w"], r, snapshot{nodes: map[string]fwk.NodeInfo{"n1": framework.NewNodeInfo(cpu)}}) {
		t.Error("a pod was tried too early though the scheduler's cache knows what the ledger knows")
	}
	if !w.Early(w.pods["w"], r, snapshot{}) {
		t.Error("a pod was not tried too early though the scheduler's cache does not have the node")
	}
	n := 1
	for w.Early(w.pods["w"], r, behind) {
		n++
	}
	if n != earlyMost {
		t.Errorf("it was tried too early %d times, want %d at most", n, earlyMost)
	}
	w.parking.podGone(w.pods["w"])
	if len(w.parking.early) > 0 {
		t.Error("a pod that is gone is remembered")
	}
}

// TestParkedLoop: what changes in the ledger wakes pods, and the turns that follow need no change.
func TestParkedLoop(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("w%02d", i))
	}
	w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), names...)
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.parkedLoop(ctx, w.handle)
	}()
	defer func() { stop(); <-ended }()
	w.ledger.Forget(podUID)
	eventually(w.ctx, t, "all are woken", func() bool { return len(w.woken.names()) == len(names) && w.count() == 0 })
}
