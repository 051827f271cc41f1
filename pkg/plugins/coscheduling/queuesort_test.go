package coscheduling

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// deaf is a scheduler that nobody waits in.
type deaf struct{}

func (deaf) WaitingPod(types.UID) book.WaitingPod          { return nil }
func (deaf) Activate(map[string]*v1.Pod)                   {}
func (deaf) Evict(context.Context, *v1.Pod, string) error  { return nil }
func (deaf) Report(runtime.Object, string, string, string) {}

// queueWorld is a book with groups in many states, and entries of a queue.
type queueWorld struct {
	plugin  *Plugin
	clock   *testingclock.FakeClock
	groups  []podgroup.Group
	pods    []*v1.Pod
	entries []fwk.QueuedEntityInfo
}

const queueNamespace = "ns"

var queueEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newQueueWorld() *queueWorld {
	clock := testingclock.NewFakeClock(queueEpoch)
	w := &queueWorld{plugin: &Plugin{book: book.New(ledger.New(), clock)}, clock: clock}
	w.plugin.book.Serve(kit.SchedulerName)
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	w.plugin.book.Start(deaf{}, book.Settings{Gang: gang.Config{
		PermitTimeout: time.Minute, PlanTTL: time.Minute, BackoffInitial: time.Second, BackoffMax: time.Minute,
	}, TurnAfter: 2, TurnTimeout: time.Hour}, corelisters.NewPodLister(store), klog.New(nil))
	return w
}

// fill adds n entries: plain pods, native groups, and members of eight groups, of which the first two do not exist. Times
// and priorities are few, so that many are equal.
func (w *queueWorld) fill(n int, intn func(int) int) {
	at := func() time.Time { return queueEpoch.Add(time.Duration(intn(3)) * time.Second) }
	for i := range 8 {
		g := podgroup.Group{
			UID: gang.GroupUID(fmt.Sprint("g", i)), Namespace: queueNamespace, Name: fmt.Sprint("g", i), Created: at(), Spec: gang.Spec{MinMember: 2},
		}
		w.groups = append(w.groups, g)
		if i >= 2 {
			w.plugin.book.GroupSeen(g)
		}
	}
	for i := range n {
		name := fmt.Sprintf("p%04d", i)
		if intn(10) == 0 {
			w.entries = append(w.entries, &framework.QueuedPodGroupInfo{
				PodGroupInfo:   &framework.PodGroupInfo{Namespace: queueNamespace, Name: name, PodGroup: &schedulingv1beta1.PodGroup{}},
				QueueingParams: framework.QueueingParams{Timestamp: at()},
			})
			continue
		}
		pod := kit.Pod(queueNamespace, name, kit.UID(name), kit.Priority(int32(intn(2))))
		pod.CreationTimestamp = metav1.NewTime(at())
		if intn(3) > 0 {
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: w.groups[intn(len(w.groups))].Name}
			w.plugin.book.PodSeen(pod)
			w.pods = append(w.pods, pod)
		}
		w.entries = append(w.entries, entryOf(pod, at()))
	}
	for range n {
		w.move(intn)
	}
}

func entryOf(pod *v1.Pod, at time.Time) *framework.QueuedPodInfo {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return &framework.QueuedPodInfo{PodInfo: info, QueueingParams: framework.QueueingParams{Timestamp: at}}
}

// move changes what the order reads: a gang fails, holds, gives back, gets a turn, comes or goes.
func (w *queueWorld) move(intn func(int) int) {
	g := w.groups[intn(len(w.groups))]
	key := book.GroupKey{Namespace: g.Namespace, Name: g.Name}
	switch intn(6) {
	case 0:
		w.clock.Step(time.Duration(intn(2)) * time.Minute)
	case 1:
		if w.plugin.book.PlanFailed(key, "no room") {
			w.plugin.book.GiveTurn(key, 0, map[ledger.NodeName]bool{"n": true})
		}
	case 2:
		w.take(key)
	case 3:
		w.plugin.book.NodeGone("n") // whoever holds gives back
		w.plugin.book.NodeSeen(kit.Node("n", kit.N1("n")))
	case 4:
		if intn(10) == 0 {
			w.plugin.book.GroupGone(g.Namespace, g.Name, g.UID)
		}
	case 5:
		w.plugin.book.GroupSeen(g)
	}
}

// take makes a plan of the first gang member that may have one.
func (w *queueWorld) take(key book.GroupKey) {
	for _, pod := range w.pods {
		if is, _ := book.KeyOf(pod); is != key {
			continue
		}
		a := w.plugin.book.Admit(pod)
		if a.Kind != gang.VerdictPlan {
			continue
		}
		places := make([]book.Place, a.Need)
		for i := range places {
			places[i] = book.Place{Pod: a.Candidates[i].Pod, Planned: book.Planned{Node: "n", Rank: -1}}
		}
		if err := w.plugin.book.Take(key, places); err != nil {
			panic(err)
		}
		return
	}
}

// TestCaseB016LessIsAStrictOrder: for any frozen state of the gangs Less is a total strict order over all that can stand in
// the queue, and the members of a gang stand together among those of their priority.
func TestCaseB016LessIsAStrictOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w := newQueueWorld()
		w.fill(25, random.IntN)
		less := func(a, b fwk.QueuedEntityInfo) bool { return w.plugin.Less(a, b) }
		for i, a := range w.entries {
			if less(a, a) {
				t.Fatalf("entry %d is before itself", i)
			}
			for j, b := range w.entries {
				if i != j && less(a, b) == less(b, a) {
					t.Fatalf("entries %d and %d: neither, or each, is before the other", i, j)
				}
				for k, c := range w.entries {
					if less(a, b) && less(b, c) && !less(a, c) {
						t.Fatalf("entries %d, %d, %d: not transitive", i, j, k)
					}
				}
			}
		}
	})
}

// TestCaseB016ThousandEntriesStandTogether sorts a thousand entries.
func TestCaseB016ThousandEntriesStandTogether(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 0))
	w := newQueueWorld()
	w.fill(1000, random.IntN)
	sorted := slices.Clone(w.entries)
	slices.SortFunc(sorted, func(a, b fwk.QueuedEntityInfo) int {
		switch {
		case w.plugin.Less(a, b):
			return -1
		case w.plugin.Less(b, a):
			return 1
		}
		return 0
	})
	type block struct {
		key      book.GroupKey
		priority int32
	}
	done, last := map[block]bool{}, block{}
	for i, entry := range sorted {
		if i > 0 && sorted[i-1].GetPriority() < entry.GetPriority() {
			t.Fatalf("entry %d has a higher priority than the one before", i)
		}
		now := block{priority: entry.GetPriority()}
		if e, isPod := entry.(*framework.QueuedPodInfo); isPod {
			now.key, _ = book.KeyOf(e.Pod)
		}
		if now != last {
			done[last], last = true, now
		}
		if now.key.Name != "" && w.known(now.key) && done[now] {
			t.Errorf("members of %s, priority %d, do not stand together", now.key, now.priority)
		}
	}
}

// known is false for a group without an object: its members stand by their own age.
func (w *queueWorld) known(key book.GroupKey) bool {
	a := w.plugin.book.Admit(w.pods[slices.IndexFunc(w.pods, func(p *v1.Pod) bool { is, _ := book.KeyOf(p); return is == key })])
	return !a.Created.IsZero()
}

// liveHeap is a queue whose order changes while it is in use.
type liveHeap struct {
	less    func(a, b fwk.QueuedEntityInfo) bool
	entries []fwk.QueuedEntityInfo
}

func (h *liveHeap) Len() int           { return len(h.entries) }
func (h *liveHeap) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }
func (h *liveHeap) Swap(i, j int)      { h.entries[i], h.entries[j] = h.entries[j], h.entries[i] }

func (h *liveHeap) Push(x any) {
	if e, ok := x.(fwk.QueuedEntityInfo); ok {
		h.entries = append(h.entries, e)
	}
}

func (h *liveHeap) Pop() any {
	last := h.entries[len(h.entries)-1]
	h.entries = h.entries[:len(h.entries)-1]
	return last
}

// TestCaseB016HeapDrains: the gangs change while entries are pushed and popped. Every entry comes out once.
func TestCaseB016HeapDrains(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 1))
	w := newQueueWorld()
	w.fill(1000, random.IntN)
	h := &liveHeap{less: w.plugin.Less}
	out := map[fwk.QueuedEntityInfo]int{}
	pop := func() {
		if e, ok := heap.Pop(h).(fwk.QueuedEntityInfo); ok {
			out[e]++
		}
	}
	for _, entry := range w.entries {
		heap.Push(h, entry)
		w.move(random.IntN)
		if random.IntN(3) == 0 {
			pop()
		}
	}
	for h.Len() > 0 {
		w.move(random.IntN)
		pop()
	}
	if len(out) != len(w.entries) || slices.Max(slices.Collect(maps.Values(out))) != 1 {
		t.Errorf("%d entries came out, want each of %d once", len(out), len(w.entries))
	}
}
