package book

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The bench drives a book without a scheduler, an API server or goroutines: everything happens in the test's own calls,
// in an order that the test decides.
//
//	world      node, group, create, change, finish, remove   what informers would tell
//	scheduler  run: what was activated is tried, one cycle after the other; who was let go at Permit is bound
//	           cycle, reserve, bind, unreserve               the same step by step, where a test wants another order
//	time       pass                                          the clock moves, and the loop does what is due

// epoch is when every bench starts.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const ns = "team"

// fails is the part of *testing.T and *rapid.T that the fixture needs.
type fails interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

type bench struct {
	*Book
	t     fails
	clock *testingclock.FakeClock
	host  *fakeHost
	store cache.Indexer
	// queue is what the scheduler is about to try, by UID.
	queue map[types.UID]*v1.Pod
	// again are the pods at Permit that were activated meanwhile, failed those whose cycle ended with an error.
	again  map[types.UID]bool
	failed map[types.UID]*v1.Pod
	// follows has the pods that are kept out of the queue since they wait for their lead.
	follows map[types.UID]bool
	// ungated is a profile without the plugin that does so.
	ungated bool
	// refuse, where it is set, is the filter chain: a text refuses the pod on the node.
	refuse func(pod *v1.Pod, node string) string
	// placing, where it is set, plans instead of plan.
	placing func(*Admission) ([]Place, string)
	uids    int
}

// benchSettings are those of the fixture's key: permit timeout 30 s, backoff 10 s.
func benchSettings() Settings {
	return Settings{Gang: gang.Config{
		PermitTimeout: 30 * time.Second, PlanTTL: 5 * time.Second, BackoffInitial: 10 * time.Second, BackoffMax: 10 * time.Second,
	}, TurnTimeout: 10 * time.Minute}
}

func newBench(t fails, change ...func(*Settings)) *bench {
	t.Helper()
	b := &bench{
		t: t, clock: testingclock.NewFakeClock(epoch), host: newFakeHost(), queue: map[types.UID]*v1.Pod{}, again: map[types.UID]bool{}, failed: map[types.UID]*v1.Pod{}, follows: map[types.UID]bool{},
		store: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	settings := benchSettings()
	for _, c := range change {
		c(&settings)
	}
	b.Book = New(ledger.New(), b.clock)
	b.Serve(kit.SchedulerName)
	b.Start(b.host, settings, corelisters.NewPodLister(b.store), klog.New(nil))
	return b
}

// node adds a node of a shape, or brings a lost one back.
func (b *bench) node(name string, shape func(string) topology.Spec) {
	b.t.Helper()
	graph, err := topology.New(shape(name), topology.DefaultRates())
	if err != nil {
		b.t.Fatalf("fixture of node %s: %v", name, err)
	}
	b.ledger.SetNode(ledger.NodeName(name), graph)
	b.NodeSeen(kit.Node(name, shape(name)))
}

// group is a PodGroup that the watcher shows; its UID is new each time.
func (b *bench) group(name string, minMember int, change ...func(*podgroup.Group)) podgroup.Group {
	b.t.Helper()
	b.uids++
	g := podgroup.Group{
		UID: gang.GroupUID(fmt.Sprintf("group-%d", b.uids)), Namespace: ns, Name: name, Created: b.clock.Now(),
		Spec: gang.Spec{MinMember: minMember}, Singles: minMember == 0, Object: &v1.ObjectReference{Kind: "PodGroup", Namespace: ns, Name: name},
	}
	for _, c := range change {
		c(&g)
	}
	b.GroupSeen(g)
	return g
}

// member is a pod of a group that nobody knows yet.
func (b *bench) member(group, name string, options ...kit.PodOption) *v1.Pod {
	b.uids++
	pod := kit.Pod(ns, name, append([]kit.PodOption{kit.UID(fmt.Sprintf("pod-%03d", b.uids))}, options...)...)
	pod.CreationTimestamp = metav1.NewTime(b.clock.Now())
	if group != "" {
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: group}
	}
	return pod
}

// members are n pods group-0, group-1, ...
func (b *bench) members(group string, n int, options ...kit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = b.member(group, fmt.Sprintf("%s-%d", group, i), options...)
	}
	return pods
}

// create shows pods to the book, and to the queue where it lets them in.
func (b *bench) create(pods ...*v1.Pod) {
	b.t.Helper()
	for _, pod := range pods {
		b.put(pod)
		b.PodSeen(pod)
		b.offer(pod)
	}
}

// change shows another state of a pod, and returns it.
func (b *bench) change(pod *v1.Pod, change func(*v1.Pod)) *v1.Pod {
	b.t.Helper()
	now := pod.DeepCopy()
	change(now)
	b.put(now)
	b.PodUpdated(pod, now)
	return now
}

// finish ends a pod: it leaves the informer of living pods and comes into that of ended ones.
func (b *bench) finish(pod *v1.Pod, phase v1.PodPhase) *v1.Pod {
	b.t.Helper()
	ended := b.current(pod).DeepCopy()
	ended.Status.Phase = phase
	b.takeOut(pod)
	b.PodGone(ended)
	b.PodSeen(ended)
	b.ledger.Release(ledger.PodUID(pod.UID))
	return ended
}

// remove deletes living pods at once, as a kubelet that has stopped them does.
func (b *bench) remove(pods ...*v1.Pod) {
	b.t.Helper()
	for _, pod := range pods {
		last := b.current(pod)
		b.takeOut(pod)
		b.PodGone(last)
		b.ledger.Release(ledger.PodUID(pod.UID))
		delete(b.queue, pod.UID)
		if waiting := b.host.waiting[pod.UID]; waiting != nil {
			waiting.Reject(PluginName, "the pod is deleted") // as the scheduler does by itself
		}
	}
}

// pass lets time go by in steps of at most a second; the loop runs after each.
func (b *bench) pass(d time.Duration) {
	for d > 0 {
		by := min(d, time.Second)
		b.clock.Step(by)
		d -= by
		for _, uid := range slices.Sorted(maps.Keys(b.failed)) {
			if now := b.current(b.failed[uid]); now.Spec.NodeName == "" && b.stored(now) {
				b.offer(now)
			}
		}
		clear(b.failed)
		b.run()
	}
}

func (b *bench) put(pod *v1.Pod) {
	if err := b.store.Update(pod); err != nil {
		b.t.Fatalf("store pod %s: %v", pod.Name, err)
	}
}

func (b *bench) takeOut(pod *v1.Pod) {
	if err := b.store.Delete(pod); err != nil {
		b.t.Fatalf("take pod %s out of the store: %v", pod.Name, err)
	}
}

// current is the pod as the informer has it, or as given where it does not.
func (b *bench) current(pod *v1.Pod) *v1.Pod {
	if o, ok, err := b.store.Get(pod); err == nil && ok {
		if now, is := o.(*v1.Pod); is && now.UID == pod.UID {
			return now
		}
	}
	return pod
}

func (b *bench) stored(pod *v1.Pod) bool {
	_, ok, err := b.store.Get(pod)
	return err == nil && ok
}

func (b *bench) everyNode() map[ledger.NodeName]bool {
	out := map[ledger.NodeName]bool{}
	for node := range b.ledger.Nodes() {
		out[node.Name] = true
	}
	return out
}

// free is how many cards nobody holds.
func (b *bench) free() int {
	n := 0
	for node := range b.ledger.Nodes() {
		n += node.Free.Len()
	}
	return n
}

// bound is how many of the pods have a node.
func (b *bench) bound(pods ...*v1.Pod) int {
	n := 0
	for _, pod := range pods {
		if b.current(pod).Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// counts are those of a gang that exists.
func (b *bench) counts(group string) gang.Counts {
	b.t.Helper()
	g := b.groups[GroupKey{ns, group}]
	if g == nil || g.state == nil {
		b.t.Fatalf("there is no gang %s", group)
		return gang.Counts{}
	}
	return g.state.Counts()
}

// check holds that the ledger and every gang are sound, that gangs which have no plan hold nothing unbound, that whoever is kept
// out of the queue has a lead that stands for it, and that others yield to the right gang.
func (b *bench) check() {
	b.t.Helper()
	if err := b.ledger.Check(); err != nil {
		b.t.Errorf("ledger: %v", err)
	}
	b.kept()
	b.first()
	for _, g := range b.groups {
		if g.state == nil {
			continue
		}
		if err := g.state.Check(); err != nil {
			b.t.Errorf("gang %s: %v", g.key, err)
		}
		if c := g.state.Counts(); c.Planned+c.Reserved+c.Admitted+c.Leaving > 0 {
			continue
		}
		for uid, m := range g.members {
			if _, stage, held := b.ledger.Holding(uid); held && stage == ledger.StageAssumed {
				b.t.Errorf("pod %s holds cards and its gang has no plan", m.pod.Name)
			}
		}
	}
}
