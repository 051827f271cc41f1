package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/backlog"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// waiting is a bench with pods of the given names that want all 8 cards of the node, of which one is held.
type waiting struct {
	*bench
	pods map[string]*v1.Pod
}

func newWaiting(t *testing.T, c clock.WithTicker, options kit.PodOption, names ...string) *waiting {
	t.Helper()
	w := &waiting{bench: newBench(t, c), pods: map[string]*v1.Pod{}}
	w.profiles = map[string]*config.GPUTopologyArgs{kit.SchedulerName: defaultArgs()}
	for _, name := range names {
		w.pods[name] = kit.Pod("ns", name, kit.UID("uid-"+name), options)
		w.store(t, w.pods[name])
		w.park(t, name, true)
	}
	return w
}

// store puts a pod into the informer's store, as it is now.
func (w *waiting) store(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if err := w.factory.Core().V1().Pods().Informer().GetStore().Update(pod); err != nil {
		t.Fatal(err)
	}
}

func (w *waiting) lister() corelisters.PodLister { return w.factory.Core().V1().Pods().Lister() }

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
	w.wakeParked(w.ctx, w.handle, w.lister())
	if !w.Parked(w.pods["w1"]) || w.count() != 2 || len(w.woken.names()) > 0 {
		t.Fatalf("%d are parked and %v woken, want two and nobody", w.count(), w.woken.names())
	}
	w.ledger.Forget(podUID)
	if w.Parked(w.pods["w1"]) {
		t.Error("a pod stays parked though all cards are free")
	}
	w.wakeParked(w.ctx, w.handle, w.lister())
	if diff := cmp.Diff([]string{"ns/w2"}, w.woken.names()); diff != "" {
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

// TestParkedPodsThatWaitNoMore: nobody is told of a pod that is gone, bound, or another one by that name, and it is forgotten.
func TestParkedPodsThatWaitNoMore(t *testing.T) {
	for _, tidied := range []bool{false, true} {
		w := newWaiting(t, clock.RealClock{}, kit.GPUs(8), "gone", "bound", "again", "waits")
		if err := w.factory.Core().V1().Pods().Informer().GetStore().Delete(w.pods["gone"]); err != nil {
			t.Fatal(err)
		}
		w.store(t, kit.Pod("ns", "bound", kit.UID("uid-bound"), kit.GPUs(8), kit.OnNode("n2")))
		w.store(t, kit.Pod("ns", "again", kit.UID("uid-other"), kit.GPUs(8)))
		if tidied {
			w.tidy(w.lister())
			if w.count() != 1 {
				t.Errorf("%d are parked, want the one that waits", w.count())
			}
		}
		w.ledger.Forget(podUID)
		w.wakeParked(w.ctx, w.handle, w.lister())
		if diff := cmp.Diff([]string{"ns/waits"}, w.woken.names()); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
		if w.count() != 0 {
			t.Errorf("%d are parked, want none", w.count())
		}
	}
}

// TestParkedIsAskedOfThePodAsItIs: a pod that cannot be read any more, or has no GPUs any more, is let go, and so is one whose time
// is up.
func TestParkedIsAskedOfThePodAsItIs(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1e9, 0))
	w := newWaiting(t, clock, kit.GPUs(8), "unreadable", "without", "old", "young")
	unreadable := kit.Pod("ns", "unreadable", kit.UID("uid-unreadable"), kit.VRAM(-1, 1))
	if _, err := w.RequestOf(unreadable); err == nil {
		t.Fatal("the pod can be read: the test shows nothing")
	}
	if w.Parked(unreadable) || w.Parked(kit.Pod("ns", "without", kit.UID("uid-without"))) {
		t.Error("a pod stays parked by what it asked for once")
	}
	clock.Step(backlog.ParkedMost)
	if w.Parked(w.pods["old"]) {
		t.Error("a pod stays parked though its time is up")
	}
	w.park(t, "young", true)
	if !w.Parked(w.pods["young"]) || w.count() != 1 {
		t.Errorf("%d are parked, want the one that was parked anew", w.count())
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
