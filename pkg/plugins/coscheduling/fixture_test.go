package coscheduling

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// activations is a scheduling queue that counts how often each pod was to be tried.
type activations struct {
	mu   sync.Mutex
	pods map[string]int
}

func (a *activations) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range pods {
		a.pods[key]++
	}
}

func (a *activations) of(pod *v1.Pod) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[pod.Namespace+"/"+pod.Name]
}

// nominations are the pods to whom preemption promised a node.
type nominations map[string][]fwk.PodInfo

func (nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nominations) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo              { return n[node] }

func (n nominations) promise(t *testing.T, node string, pod *v1.Pod) {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	n[node] = append(n[node], info)
}

// paceClock counts the timers of Engine.Pace, which no other has the length of.
type paceClock struct {
	*clocktesting.FakeClock
	paces *atomic.Int32
}

func (c paceClock) NewTimer(d time.Duration) clock.Timer {
	if d == 500*time.Millisecond {
		defer c.paces.Add(1)
	}
	return c.FakeClock.NewTimer(d)
}

// fixture is the plugin on a fake API server that serves no PodGroups: tests tell the book of groups themselves.
type fixture struct {
	*Plugin
	ctx   context.Context
	clock *clocktesting.FakeClock
	// paces is how often a cycle has waited for Bindings.
	paces *atomic.Int32
	// nominated is what preemption promised.
	nominated nominations
	// activated is what was put into the active queue.
	activated *activations
	nodes     []fwk.NodeInfo
}

// newFixture returns the plugin with ledger and book in sync with the objects. Nodes among them are the snapshot.
func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	empty := httptest.NewServer(http.NotFoundHandler())
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	fakeClock, paces := clocktesting.NewFakeClock(time.Unix(1000, 0)), &atomic.Int32{}
	nominated, activated := nominations{}, &activations{pods: map[string]int{}}
	shared := engine.New(engine.Options{Clock: paceClock{fakeClock, paces}})
	handle, err := frameworkruntime.NewFramework(ctx, frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New}, &schedconfig.KubeSchedulerProfile{
		SchedulerName: kit.SchedulerName,
		Plugins: &schedconfig.Plugins{
			QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: queuesort.Name}}},
			Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
		},
	}, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithKubeConfig(&rest.Config{Host: empty.URL}),
		frameworkruntime.WithPodActivator(activated), frameworkruntime.WithPodNominator(nominated), frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	cards := &config.GPUTopologyArgs{}
	config.SetDefaults(cards)
	gangs := &config.CoschedulingArgs{}
	config.SetCoschedulingDefaults(gangs)
	if err := shared.Start(ctx, handle, cards); err != nil {
		t.Fatal(err)
	}
	built, err := New(shared)(ctx, gangs, handle)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := built.(*Plugin)
	if !ok {
		t.Fatalf("factory made a %T", built)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	f := &fixture{Plugin: p, ctx: ctx, clock: fakeClock, paces: paces, nominated: nominated, activated: activated}
	t.Cleanup(func() {
		cancel()
		if err := shared.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		factory.Shutdown()
		empty.Close()
	})
	f.eventually(t, "ledger in sync", shared.HasSynced)
	f.eventually(t, "book in sync", shared.GangsSynced)
	for _, o := range objects {
		if node, ok := o.(*v1.Node); ok {
			info := framework.NewNodeInfo()
			info.SetNode(node)
			f.nodes = append(f.nodes, info)
		}
	}
	return f
}

func (f *fixture) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// seesGroup tells the book of a PodGroup.
func (f *fixture) seesGroup(name string, minMember int, edit ...func(*podgroup.Group)) {
	g := podgroup.Group{
		UID: gang.GroupUID("uid-" + name), Namespace: "ns", Name: name, Created: time.Unix(1, 0), Spec: gang.Spec{MinMember: minMember},
	}
	for _, e := range edit {
		e(&g)
	}
	f.book.GroupSeen(g)
}

// prefilter runs one PreFilter and returns the node that it left, "" for any.
func (f *fixture) prefilter(t *testing.T, pod *v1.Pod) (*framework.CycleState, string, *fwk.Status) {
	t.Helper()
	state := framework.NewCycleState()
	result, status := f.PreFilter(f.ctx, state, pod, f.nodes)
	if result == nil || len(result.NodeNames) == 0 {
		return state, "", status
	}
	if len(result.NodeNames) != 1 {
		t.Fatalf("PreFilter left nodes %v, want one", result.NodeNames)
	}
	node, _ := result.NodeNames.PopAny()
	return state, node, status
}

// members returns n pods of a group with UIDs.
func members(group string, n int, options ...kit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", group, i)
		pods[i] = kit.Pod("ns", name, append([]kit.PodOption{kit.UID("uid-" + name)}, options...)...)
		pods[i].Labels = map[string]string{v1alpha1.PodGroupLabel: group}
	}
	return pods
}

func objects(nodes []*v1.Node, pods ...[]*v1.Pod) []runtime.Object {
	var out []runtime.Object
	for _, n := range nodes {
		out = append(out, n)
	}
	for _, list := range pods {
		for _, p := range list {
			out = append(out, p)
		}
	}
	return out
}
