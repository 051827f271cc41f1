package observe

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// coolWorld is a world in which cards cool for 5 s and three failures have a node avoided for 5 min.
type coolWorld struct {
	*world
	clock *testingclock.FakePassiveClock
	ended cache.Store
	freed int
}

func newCoolWorld(t *testing.T) *coolWorld {
	t.Helper()
	w := &coolWorld{world: newWorld(t), clock: testingclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	w.Observer.clock = w.clock
	w.options = Options{
		Rates: w.options.Rates, Cooling: 5 * time.Second, AdmissionFailures: 3, AdmissionCooling: 5 * time.Minute,
		Freed: func() { w.freed++ },
	}
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	if _, err := w.RegisterEnded(informer); err != nil {
		t.Fatal(err)
	}
	w.ended = informer.GetStore()
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	return w
}

// end is what the informer of ended pods tells.
func (w *coolWorld) end(t *testing.T, pod *v1.Pod) {
	t.Helper()
	short, err := ShortEnded(pod)
	if err == nil {
		err = w.ended.Add(short)
	}
	if err != nil {
		t.Fatal(err)
	}
	is, ok := short.(*v1.Pod)
	if !ok {
		t.Fatalf("the short form of a pod is a %T", short)
	}
	w.EndedSeen(is, false)
}

func (w *coolWorld) step(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func terminating(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)} }

// removing is what the API server writes into a pod just before it removes it.
func removing(pod *v1.Pod) {
	terminating(pod)
	pod.DeletionGracePeriodSeconds = new(int64)
}

// TestCaseB068ForcedDeleteCools: the object of a running pod is gone at once; its cards are neither free nor lost.
func TestCaseB068ForcedDeleteCools(t *testing.T) {
	w := newCoolWorld(t)
	pod := boundPod(t, "u", "n1", 2, 5)
	running := with(pod, phase(v1.PodRunning))
	w.putPod(t, pod)
	w.putPod(t, running)
	w.removePod(t, running)
	w.wantHolding(t, "u", "", 0)
	w.wantHolding(t, CoolingPrefix+"u", "n1", 0, 2, 5)
	w.wantFree(t, "n1", 6)
	// A replacement of the same name gets other cards, and what the node is asked meanwhile does not end the cooling.
	w.putPod(t, with(boundPod(t, "u2", "n1", 0), func(p *v1.Pod) { p.Name = pod.Name }))
	w.CatchUp("n1", 17)
	w.PodChanged(running)
	w.wantFree(t, "n1", 5)
	w.step(4 * time.Second)
	if w.CoolDown() {
		t.Error("cards came free a second early")
	}
	w.wantFree(t, "n1", 5)
	w.step(time.Second)
	if !w.CoolDown() || w.CoolDown() {
		t.Error("cooling must end once, after 5 s")
	}
	w.wantFree(t, "n1", 7)
	if n := len(w.cooling.until) + len(w.cooling.running); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestEndsThatNeedNoCooling: whoever terminated holds nothing back.
func TestEndsThatNeedNoCooling(t *testing.T) {
	pod := boundPod(t, "u", "n1", 2, 5)
	running := with(pod, phase(v1.PodRunning))
	tests := map[string]func(*coolWorld){
		"never ran": func(w *coolWorld) { w.putPod(t, pod); w.removePod(t, pod) },
		"terminated": func(w *coolWorld) {
			w.putPod(t, running)
			w.putPod(t, with(running, terminating))
			w.removePod(t, with(running, terminating))
		},
		"terminated, then removed": func(w *coolWorld) {
			w.putPod(t, running)
			w.putPod(t, with(running, terminating))
			w.putPod(t, with(running, removing))
			w.removePod(t, with(running, removing))
		},
		"terminated, told by the delete alone": func(w *coolWorld) {
			w.putPod(t, running)
			w.removePod(t, with(running, terminating))
		},
		"succeeded, told first by the ended": func(w *coolWorld) {
			w.putPod(t, running)
			w.end(t, with(running, phase(v1.PodSucceeded)))
			w.removePod(t, running)
		},
		"succeeded, told first by the living": func(w *coolWorld) {
			w.putPod(t, running)
			w.removePod(t, running)
			w.wantFree(t, "n1", 6)
			w.end(t, with(running, phase(v1.PodSucceeded)))
			if w.freed != 1 {
				t.Errorf("%d calls of Freed, want 1: the event that woke waiting pods came before the cards were free", w.freed)
			}
		},
		"failed while still listed": func(w *coolWorld) {
			w.putPod(t, running)
			w.putPod(t, with(running, phase(v1.PodFailed)))
		},
		"turned off": func(w *coolWorld) {
			w.options.Cooling = 0
			w.putPod(t, running)
			w.removePod(t, running)
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			w := newCoolWorld(t)
			end(w)
			w.wantFree(t, "n1", 8)
			w.wantHolding(t, "u", "", 0)
			if n := len(w.cooling.until) + len(w.cooling.running); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

// TestForcedDeleteAsTheServerTellsIt: kubectl delete --force gives a MODIFIED with a grace period of 0, then the DELETED
// (kube-apiserver 1.37.2).
func TestForcedDeleteAsTheServerTellsIt(t *testing.T) {
	w := newCoolWorld(t)
	running := with(boundPod(t, "u", "n1", 2), phase(v1.PodRunning))
	w.putPod(t, running)
	w.putPod(t, with(running, removing))
	w.removePod(t, with(running, removing))
	w.wantHolding(t, CoolingPrefix+"u", "n1", 0, 2)
	w.wantFree(t, "n1", 7)
}

// TestRestoredPodEndsItsCooling: a pod that was taken for gone while it ran holds its cards once, not twice.
func TestRestoredPodEndsItsCooling(t *testing.T) {
	w := newCoolWorld(t)
	running := with(boundPod(t, "u", "n1", 2), phase(v1.PodRunning))
	w.putPod(t, running)
	w.removePod(t, running)
	w.wantHolding(t, CoolingPrefix+"u", "n1", 0, 2)
	if !w.Restore(running) {
		t.Fatal("the pod was not restored")
	}
	w.wantHolding(t, "u", "n1", 0, 2)
	w.wantHolding(t, CoolingPrefix+"u", "", 0)
	if a := w.ledger.Node("n1"); a.Quarantined {
		t.Errorf("the node is in quarantine: %s", a.Quarantine())
	}
	w.wantFree(t, "n1", 7)
}

// TestEndedPodIsNotRestored: the informer of ended pods was faster than that of living ones, whose watch may hang for long.
func TestEndedPodIsNotRestored(t *testing.T) {
	w := newCoolWorld(t)
	running := with(boundPod(t, "u", "n1", 2), phase(v1.PodRunning))
	w.putPod(t, running)
	w.end(t, with(running, phase(v1.PodSucceeded)))
	if w.Restore(running) {
		t.Error("a pod that has ended was restored")
	}
	w.wantHolding(t, "u", "", 0)
	w.wantFree(t, "n1", 8)
}

// TestAnotherPodsEndEndsNoCooling: ended pods go by UID.
func TestAnotherPodsEndEndsNoCooling(t *testing.T) {
	w := newCoolWorld(t)
	running := with(boundPod(t, "u", "n1", 2), phase(v1.PodRunning))
	w.putPod(t, running)
	w.end(t, with(running, phase(v1.PodSucceeded), kit.UID("before"))) // an older pod of the name
	w.removePod(t, running)
	w.wantHolding(t, CoolingPrefix+"u", "n1", 0, 2)
	w.EndedSeen(with(running, phase(v1.PodRunning)), false) // a server that ignores the field selector
	w.wantHolding(t, CoolingPrefix+"u", "n1", 0, 2)
}

// refused is a pod that the kubelet failed at admission.
func refused(uid, node string) *v1.Pod {
	return kit.Pod("ns", "pod-"+uid, kit.UID(uid), kit.GPUs(1), kit.OnNode(node), func(p *v1.Pod) {
		p.Status.Phase, p.Status.Reason = v1.PodFailed, admissionFailure
	})
}

// TestCaseB095NodeThatFailsAdmissionIsAvoided: three failures within a minute are enough.
func TestCaseB095NodeThatFailsAdmissionIsAvoided(t *testing.T) {
	tests := map[string]struct {
		do   func(*coolWorld)
		want bool
	}{
		"two":                         {func(w *coolWorld) { w.end(t, refused("a", "n1")); w.end(t, refused("b", "n1")) }, false},
		"three":                       {func(w *coolWorld) { fail(t, w, 3, 0) }, true},
		"three in more than a minute": {func(w *coolWorld) { fail(t, w, 3, 30*time.Second) }, false},
		"the last three of four":      {func(w *coolWorld) { fail(t, w, 4, 29*time.Second) }, true},
		"old ones": {func(w *coolWorld) {
			for i := range 3 {
				w.EndedSeen(refused(fmt.Sprint(i), "n1"), true)
			}
		}, false},
		"other reasons": {func(w *coolWorld) {
			for i := range 3 {
				w.end(t, with(refused(fmt.Sprint(i), "n1"), func(p *v1.Pod) { p.Status.Reason = "Evicted" }))
			}
		}, false},
		"pods without GPUs": {func(w *coolWorld) {
			for i := range 3 {
				w.end(t, with(refused(fmt.Sprint(i), "n1"), func(p *v1.Pod) { p.Spec.Containers = nil }))
			}
		}, false},
		"turned off": {func(w *coolWorld) { w.options.AdmissionFailures = 0; fail(t, w, 5, 0) }, false},
		"node gone": {func(w *coolWorld) {
			fail(t, w, 3, 0)
			remove(t, w.nodeStore, w.nodeHandler(), kit.Node("n1", kit.N8s("n1")))
		}, false},
		"five minutes later": {func(w *coolWorld) { fail(t, w, 3, 0); w.step(5 * time.Minute) }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newCoolWorld(t)
			tt.do(w)
			if got := w.Avoided("n1"); got != tt.want {
				t.Errorf("avoided: %t, want %t", got, tt.want)
			}
			if tt.want {
				w.wantNotes(t, "n1 "+reasonAdmission)
			}
			if w.Avoided("n2") {
				t.Error("another node is avoided")
			}
			w.step(10 * time.Minute)
			if readmitted := w.Readmit(); readmitted != (tt.want || name == "five minutes later") {
				t.Errorf("readmitted: %t", readmitted)
			}
			if diff := cmp.Diff(0, len(w.admission.nodes)); diff != "" || w.admission.avoided.Load() != nil {
				t.Errorf("entries of nodes are left (-want +got):\n%s", diff)
			}
		})
	}
}

func fail(t *testing.T, w *coolWorld, n int, apart time.Duration) {
	t.Helper()
	for i := range n {
		if i > 0 {
			w.step(apart)
		}
		w.end(t, refused(fmt.Sprint(i), "n1"))
		w.wantHolding(t, ledger.PodUID(fmt.Sprint(i)), "", 0)
	}
}

// TestEndInFlightWakes: the scheduler tells nobody of the delete of a pod whose reservation it has forgotten already.
func TestEndInFlightWakes(t *testing.T) {
	w := newCoolWorld(t)
	pod := kit.Pod("ns", "p", kit.UID("u"), kit.GPUs(2))
	w.putPod(t, pod)
	if err := w.ledger.Assume(ledger.Holding{UID: "u", Pod: "ns/p", Node: "n1", Cards: cardsOf("n1", 0, 1)}); err != nil {
		t.Fatal(err)
	}
	w.removePod(t, pod)
	w.wantFree(t, "n1", 8)
	if w.freed != 1 {
		t.Errorf("%d calls of Freed, want 1", w.freed)
	}
}
