package nccltopology

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Label keys of the fixtures' fabric.
const (
	leafKey  = "network.topology.nvidia.com/leaf"
	spineKey = "network.topology.nvidia.com/spine"
)

// fixture is the plugin on a fake API server, with ledger and fabric in line with the objects.
type fixture struct {
	*Plugin
	ctx      context.Context
	recorder *events.FakeRecorder
	client   *fake.Clientset
	// infos are the nodes of the snapshot, in the order of the objects.
	infos []fwk.NodeInfo
	// activated has how often each pod was wanted tried at once.
	activated *activations
	filters   *filters
}

// filters stands for Coscheduling: the test decides what its Filter says; nil lets every pod onto every node. Beside it stands NodePorts,
// which cannot do without what its PreFilter writes.
type filters struct{ status func(node string) *fwk.Status }

func (*filters) Name() string { return book.PluginName }

func (f *filters) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if f.status == nil {
		return nil
	}
	return f.status(info.Node().Name)
}

// nobody is promised a node.
type nobody struct{ fwk.PodNominator }

func (nobody) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

type activations struct {
	mu   sync.Mutex
	pods map[string]int
}

func (a *activations) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pod := range pods {
		a.pods[pod.Name]++
	}
}

func (a *activations) of(pod string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[pod]
}

// withNativeGroups turns the gates on that snapshots look at.
func withNativeGroups(t testing.TB) {
	t.Helper()
	gates := utilfeature.DefaultMutableFeatureGate
	was := gates.Enabled(features.GenericWorkload)
	set := func(on bool) {
		if err := gates.SetFromMap(map[string]bool{string(features.GenericWorkload): on}); err != nil {
			t.Fatal(err)
		}
	}
	set(true)
	t.Cleanup(func() { set(was) })
}

func newFixture(t testing.TB, nodes []*v1.Node, pods ...*v1.Pod) *fixture {
	t.Helper()
	return newFixtureWith(t, nil, nodes, pods...)
}

// newFixtureWith has its args changed.
func newFixtureWith(t testing.TB, change func(*config.NCCLTopologyArgs), nodes []*v1.Node, pods ...*v1.Pod) *fixture {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	var objects []runtime.Object
	for _, n := range nodes {
		objects = append(objects, n)
	}
	for _, p := range pods {
		objects = append(objects, p)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := cache.NewTestSnapshotWithPodGroups(pods, nodes, []*schedulingv1beta1.PodGroup{nativeGroup("g", 1, "").PodGroup})
	recorder, activated, filters := events.NewFakeRecorder(1000), &activations{pods: map[string]int{}}, &filters{}
	schedmetrics.Register() // what frameworks with filters count in
	filtering := schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: nodeports.Name}, {Name: filters.Name()}}}
	handle, err := frameworkruntime.NewFramework(ctx, frameworkruntime.Registry{
		queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New, nodeports.Name: frameworkruntime.FactoryAdapter(feature.Features{}, nodeports.New),
		filters.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return filters, nil },
	}, &schedconfig.KubeSchedulerProfile{
		SchedulerName: kit.SchedulerName,
		Plugins: &schedconfig.Plugins{
			QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: queuesort.Name}}},
			Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
			Filter:    filtering,
		},
	}, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithEventRecorder(recorder), frameworkruntime.WithPodActivator(activated), frameworkruntime.WithPodNominator(nobody{}))
	if err != nil {
		t.Fatal(err)
	}
	shared := engine.New(engine.Options{})
	cards, args := &config.GPUTopologyArgs{}, &config.NCCLTopologyArgs{}
	config.SetDefaults(cards)
	config.SetNCCLDefaults(args)
	if change != nil {
		change(args)
	}
	if err := shared.Start(ctx, handle, cards); err != nil {
		t.Fatal(err)
	}
	shared.Gangs().Serve(kit.SchedulerName)
	built, err := New(shared)(ctx, args, handle)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	f := &fixture{Plugin: built.(*Plugin), ctx: ctx, recorder: recorder, client: client, activated: activated, filters: filters} //nolint:errcheck // the factory makes nothing else
	t.Cleanup(func() {
		cancel()
		if err := shared.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		factory.Shutdown()
	})
	f.eventually(t, "ledger in sync", shared.HasSynced)
	f.eventually(t, "fabric in sync", func() bool { return shared.Fabric().Len() == len(nodes) })
	for _, n := range nodes {
		info, err := snapshot.NodeInfos().Get(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		f.infos = append(f.infos, info)
	}
	return f
}

func (f *fixture) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// racked returns racks x each nodes named r1n1, r1n2, ...; racks r1 to rK are on spine s1, and so on.
func racked(racks, each, perSpine int, spec func(string) topology.Spec) []*v1.Node {
	var nodes []*v1.Node
	for r := range racks {
		for i := range each {
			n := kit.Node(fmt.Sprintf("r%dn%d", r+1, i+1), spec(fmt.Sprintf("r%dn%d", r+1, i+1)))
			n.Labels[leafKey] = "r" + strconv.Itoa(r+1)
			n.Labels[spineKey] = "s" + strconv.Itoa(r/perSpine+1)
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// position is a node's place in the fabric, -1 if it has none.
func (f *fixture) position(node string) int {
	if pos, ok := f.engine.Fabric().Position(node); ok {
		return pos
	}
	return -1
}

// take has a pod hold n cards of a node.
func (f *fixture) take(t testing.TB, uid, node string, n int) {
	t.Helper()
	choice := f.choice(t, node, n)
	if err := f.engine.Ledger().Assume(ledger.Holding{UID: ledger.PodUID(uid), Pod: "ns/" + uid, Node: ledger.NodeName(node), Cards: choice}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) choice(t testing.TB, node string, n int) []allocate.CardShare {
	t.Helper()
	asked, err := f.engine.RequestOf(kit.Pod("ns", "x", kit.GPUs(int64(n))))
	if err != nil {
		t.Fatal(err)
	}
	choice, rejection, err := f.engine.Chooser().Choose(&f.engine.Ledger().Node(ledger.NodeName(node)).View, asked)
	if err != nil || rejection != nil {
		t.Fatalf("choose %d cards of %s: %v, %v", n, node, rejection, err)
	}
	return choice.Cards
}

// feasible are the nodes on which the pod's cards are free.
func (f *fixture) feasible(t testing.TB, pod *v1.Pod) []fwk.NodeInfo {
	t.Helper()
	asked, err := f.engine.RequestOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	var out []fwk.NodeInfo
	for _, info := range f.infos {
		if f.engine.Chooser().Fits(&f.engine.Ledger().Node(ledger.NodeName(info.Node().Name)).View, asked) == nil {
			out = append(out, info)
		}
	}
	return out
}

// scores runs one scoring cycle over the nodes, and checks the range. It is nil if PreScore skips.
func (f *fixture) scores(t testing.TB, pod *v1.Pod, nodes []fwk.NodeInfo) map[string]int64 {
	t.Helper()
	state := framework.NewCycleState()
	status := f.PreScore(f.ctx, state, pod, nodes)
	if status.IsSkip() {
		return nil
	}
	if !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	list := make(fwk.NodeScoreList, len(nodes))
	for i, info := range nodes {
		raw, status := f.Score(f.ctx, state, pod, info)
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		list[i] = fwk.NodeScore{Name: info.Node().Name, Score: raw}
	}
	if status := f.ScoreExtensions().NormalizeScore(f.ctx, state, pod, list); !status.IsSuccess() {
		t.Fatalf("NormalizeScore: %v", status)
	}
	out := map[string]int64{}
	for _, n := range list {
		if n.Score < fwk.MinScore || n.Score > fwk.MaxScore {
			t.Fatalf("node %s scores %d", n.Name, n.Score)
		}
		out[n.Name] = n.Score
	}
	return out
}

// place gives the pod the best feasible node, the first of equal ones, and returns its name; "" if there is none.
func (f *fixture) place(t testing.TB, pod *v1.Pod, cards int) string {
	t.Helper()
	nodes := f.feasible(t, pod)
	if len(nodes) == 0 {
		return ""
	}
	scores := f.scores(t, pod, nodes)
	best := nodes[0].Node().Name
	for _, info := range nodes {
		if name := info.Node().Name; scores[name] > scores[best] {
			best = name
		}
	}
	f.take(t, string(pod.UID), best, cards)
	bound := pod.DeepCopy()
	bound.Spec.NodeName = best
	f.engine.Gangs().PodSeen(bound)
	return best
}

// elastic returns n pods of a PodGroup whose members are scheduled one by one, all of them known to the book.
func (f *fixture) elastic(group string, n int, options ...kit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", group, i)
		pods[i] = kit.Pod("ns", name, append([]kit.PodOption{kit.UID("uid-" + name)}, options...)...)
		pods[i].Labels = map[string]string{v1alpha1.PodGroupLabel: group}
		f.engine.Gangs().PodSeen(pods[i])
	}
	return pods
}

// nativeGroup is a group of the scheduling.k8s.io API in namespace ns; key "" for no constraint, minCount 0 for the basic
// policy.
func nativeGroup(name string, minCount int32, key string, pods ...*v1.Pod) *framework.PodGroupInfo {
	g := &schedulingv1beta1.PodGroup{}
	g.Namespace, g.Name = "ns", name
	if minCount > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	}
	if key != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
	}
	return &framework.PodGroupInfo{Namespace: "ns", Name: name, Type: fwk.PodGroupKeyType, UnscheduledPods: pods, PodGroup: g}
}

func nativePods(group string, n int, options ...kit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", group, i)
		pods[i] = kit.Pod("ns", name, append([]kit.PodOption{kit.UID("uid-" + name)}, options...)...)
		pods[i].Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	return pods
}
