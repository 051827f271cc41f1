package observe

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func version(v string) kit.PodOption { return func(p *v1.Pod) { p.ResourceVersion = v } }

func called(name string) kit.PodOption { return func(p *v1.Pod) { p.Name = name } }

// TestReadBeforeTheStoreHasIt: a new leader reads a bound pod from the API server, and its own watch hangs. Whoever looks for ends
// of pods in the store meanwhile leaves the pod alone, and nobody takes it for gone when the watch tells of it.
func TestReadBeforeTheStoreHasIt(t *testing.T) {
	pod := with(boundPod(t, "u", "n1", 2, 5), version("12"))
	former := with(boundPod(t, "former", "n1", 0), version("9"), called(pod.Name))
	tests := map[string]struct {
		// before is what the store has of that name, told is what happens to the store and its handler after the read.
		before *v1.Pod
		told   func(w *world)
		// wantFree are the cards that are free after the read, and after that.
		wantFree [2]int
		wantHeld bool
		// wantAhead says that the store is still behind.
		wantAhead bool
	}{
		"the watch tells of it":      {nil, func(w *world) { w.putPod(t, pod) }, [2]int{6, 6}, true, false},
		"the watch tells of another": {nil, func(w *world) { w.putPod(t, with(boundPod(t, "v", "n1", 0), version("11"))) }, [2]int{6, 5}, true, true},
		"the watch is past it":       {nil, func(w *world) { w.podStore.Bookmark("12") }, [2]int{6, 8}, false, false},
		"told by its delete alone": {nil, func(w *world) {
			w.podHandler().OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/pod-u", Obj: pod})
		}, [2]int{6, 8}, false, false},
		"seen to have ended": {nil, func(w *world) { w.EndedSeen(with(pod, phase(v1.PodFailed)), false) }, [2]int{6, 8}, false, false},
		"it took a name": {former, func(w *world) {
			w.must(t, w.podStore.Update(pod))
			w.PodUpdated(former, pod)
		}, [2]int{5, 6}, true, false},
		"it took a name that the store goes on with": {former, func(w *world) {
			w.putPod(t, with(former, version("11"), phase(v1.PodRunning)))
		}, [2]int{5, 5}, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			if tt.before != nil {
				w.putPod(t, tt.before)
			}
			w.podStore.Bookmark("10")
			generation := int64(0)
			look := func() { generation++; w.CatchUp("n1", generation); w.PodChanged(pod) }
			w.PodSeen(pod)
			look()
			w.wantHolding(t, "u", "n1", 0, 2, 5)
			w.wantFree(t, "n1", tt.wantFree[0])
			tt.told(w)
			look()
			if tt.wantHeld {
				w.wantHolding(t, "u", "n1", 0, 2, 5)
			} else {
				w.wantHolding(t, "u", "", 0)
			}
			w.wantFree(t, "n1", tt.wantFree[1])
			if w.ledger.Released("u") == tt.wantHeld || w.Ahead("u") != tt.wantAhead || len(w.ahead.pods) > 0 != tt.wantAhead {
				t.Errorf("released %t, ahead %t (%d entries)", w.ledger.Released("u"), w.Ahead("u"), len(w.ahead.pods))
			}
		})
	}
}

// TestStoreWithoutVersion: for a time it may be behind, and not for ever.
func TestStoreWithoutVersion(t *testing.T) {
	w := newWorld(t)
	c := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	w.Observer.clock = c
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	pod := with(boundPod(t, "u", "n1", 2, 5), version("12"))
	w.PodSeen(pod)
	c.SetTime(c.Now().Add(aheadLimit - 1))
	w.PodChanged(pod)
	w.wantFree(t, "n1", 6)
	c.SetTime(c.Now().Add(1))
	w.PodChanged(pod)
	w.wantFree(t, "n1", 8)
}

// TestEndKnownBeforeTheStoreHasIt: the informer of ended pods, or a reader of the API server, knows the end of a pod that the
// store shows as living, and by the time that somebody wonders its object is gone. The pod is taken for living again only
// where the store has it at a later version.
func TestEndKnownBeforeTheStoreHasIt(t *testing.T) {
	ended := func(p *v1.Pod) *v1.Pod { return with(p, version("7"), phase(v1.PodFailed)) }
	for name, tell := range map[string]func(w *coolWorld, pod *v1.Pod){
		"by its informer": func(w *coolWorld, pod *v1.Pod) {
			w.end(t, ended(pod))
			w.must(t, w.ended.Delete(pod))
		},
		"by a reader": func(w *coolWorld, pod *v1.Pod) { w.PodSeen(ended(pod)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newCoolWorld(t)
			pod := with(boundPod(t, "u", "n1", 2, 5), version("5"), phase(v1.PodRunning))
			w.putPod(t, pod)
			tell(w, pod)
			for _, v := range []string{"5", "6"} {
				behind := with(pod, version(v))
				w.putPod(t, behind)
				if w.Restore(behind) || !w.Outlived(behind) {
					t.Errorf("version %s, which is older than its end, counts as living", v)
				}
			}
			w.wantFree(t, "n1", 8)
			again := with(pod, version("9"))
			w.putPod(t, again)
			if w.Outlived(again) || !w.Restore(again) {
				t.Error("its phase was set back, and it counts as ended")
			}
			w.wantHolding(t, "u", "n1", 0, 2, 5)
			if len(w.ahead.ends) > 0 {
				t.Errorf("%v is remembered of a pod that lives", w.ahead.ends)
			}
			tell(w, pod) // again, and now the store hears of it
			w.removePod(t, again)
			tell(w, pod) // the other way round
			if len(w.ahead.ends) > 0 {
				t.Errorf("%v is remembered of a pod that is gone", w.ahead.ends)
			}
		})
	}
}
