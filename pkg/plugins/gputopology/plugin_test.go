package gputopology

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// fixture is the plugin on a fake API server.
type fixture struct {
	*Plugin
	client *fake.Clientset
	ctx    context.Context
}

// quiet has no queue.
type quiet struct{}

func (quiet) Activate(klog.Logger, map[string]*v1.Pod) {}

// newFixture returns the plugin with its ledger in sync with the objects.
func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	shared := engine.New(engine.Options{})
	handle, err := frameworkruntime.NewFramework(ctx, frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New}, &schedconfig.KubeSchedulerProfile{
		SchedulerName: kit.SchedulerName,
		Plugins: &schedconfig.Plugins{
			QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: queuesort.Name}}},
			Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
		},
	}, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithPodActivator(quiet{}))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	args := &config.GPUTopologyArgs{}
	config.SetDefaults(args)
	built, err := New(shared)(ctx, args, handle)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p, ok := built.(*Plugin)
	if !ok {
		cancel()
		t.Fatalf("factory made a %T", built)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	f := &fixture{Plugin: p, client: client, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		factory.Shutdown()
	})
	f.eventually(t, "handlers in sync", shared.HasSynced)
	return f
}

func (f *fixture) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (f *fixture) nodeInfo(t *testing.T, node *v1.Node) fwk.NodeInfo {
	t.Helper()
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

// cycle runs PreFilter and returns the state it left.
func (f *fixture) cycle(t *testing.T, pod *v1.Pod) (*framework.CycleState, *fwk.Status) {
	t.Helper()
	state := framework.NewCycleState()
	_, status := f.PreFilter(f.ctx, state, pod, nil)
	return state, status
}

func TestPodWithoutGPUsIsSkipped(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	pod := kit.Pod("ns", "p", kit.UID("u1"))
	state, status := f.cycle(t, pod)
	if !status.IsSkip() {
		t.Fatalf("PreFilter: %v, want Skip", status)
	}
	if status := f.PreScore(f.ctx, state, pod, nil); !status.IsSkip() {
		t.Errorf("PreScore: %v, want Skip", status)
	}
	if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
	if status := f.Bind(f.ctx, state, pod, "n1"); !status.IsSkip() {
		t.Errorf("Bind: %v, want Skip", status)
	}
	if fragments, status := f.SignPod(f.ctx, pod); len(fragments) != 0 || !status.IsSuccess() {
		t.Errorf("SignPod: %v, %v", fragments, status)
	}
	if got := f.engine.Ledger().Stats().Pods(); got != 0 {
		t.Errorf("ledger has %d holdings", got)
	}
}

func TestFilterCodes(t *testing.T) {
	node := kit.Node("n1", kit.N8s("n1"))
	bare := kit.Node("bare", kit.N1("bare"))
	bare.Annotations = nil
	bare.Status.Allocatable, bare.Status.Capacity = v1.ResourceList{}, v1.ResourceList{}
	f := newFixture(t, node, bare)
	taken := ledger.Holding{UID: "other", Pod: "ns/other", Node: "n1", Cards: f.choice(t, 6)}
	if err := f.engine.Ledger().Assume(taken); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		node  *v1.Node
		cards int64
		want  fwk.Code
	}{
		"fits":                       {node, 2, fwk.Success},
		"fits when pods leave":       {node, 4, fwk.Unschedulable},
		"fits never":                 {node, 9, fwk.UnschedulableAndUnresolvable},
		"a node without GPUs":        {bare, 1, fwk.UnschedulableAndUnresolvable},
		"a node nobody has heard of": {kit.Node("new", kit.N1("new")), 1, fwk.UnschedulableAndUnresolvable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := kit.Pod("ns", "p", kit.UID("u1"), kit.GPUs(tt.cards))
			state, status := f.cycle(t, pod)
			if !status.IsSuccess() {
				t.Fatalf("PreFilter: %v", status)
			}
			got := f.Filter(f.ctx, state, pod, f.nodeInfo(t, tt.node))
			if got.Code() != tt.want {
				t.Errorf("Filter: %v (%s), want %v", got.Code(), got.Message(), tt.want)
			}
		})
	}
}

// TestUnreserveLaw: Unreserve may come any number of times, before Reserve, after it, and with any state.
func TestUnreserveLaw(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	pod := kit.Pod("ns", "p", kit.UID("u1"), kit.GPUs(2))
	f.Unreserve(f.ctx, nil, nil, "")
	f.Unreserve(f.ctx, nil, pod, "n1")
	state, _ := f.cycle(t, pod)
	f.Unreserve(f.ctx, state, pod, "n1")
	if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Fatalf("Reserve: %v", status)
	}
	if got := Reservation(state); got == nil || got.NodeName != "n1" || len(got.Choice.Cards) != 2 {
		t.Fatalf("reservation in CycleState: %+v", got)
	}
	if got := f.engine.Ledger().Node("n1").Free.Len(); got != 6 {
		t.Fatalf("%d cards are free after Reserve, want 6", got)
	}
	for range 3 {
		f.Unreserve(f.ctx, state, pod, "elsewhere")
	}
	if got := f.engine.Ledger().Node("n1").Free.Len(); got != 8 {
		t.Errorf("%d cards are free after Unreserve, want 8", got)
	}
	// A confirmed pod is bound: an Unreserve that comes late must not free its cards.
	if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Fatalf("second Reserve: %v", status)
	}
	f.engine.Ledger().Confirm("u1")
	f.Unreserve(f.ctx, state, pod, "n1")
	if got := f.engine.Ledger().Node("n1").Free.Len(); got != 6 {
		t.Errorf("%d cards are free after an Unreserve of a bound pod, want 6", got)
	}
}

// TestCaseB052BoundPodIsNotPlacedAgain: a stale queue entry of a bound pod chooses and writes nothing.
func TestCaseB052BoundPodIsNotPlacedAgain(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	pod := kit.Pod("ns", "p", kit.UID("u1"), kit.GPUs(2))
	state, _ := f.cycle(t, pod)
	if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	f.engine.Ledger().Confirm("u1")
	if _, status := f.cycle(t, pod); status.IsSuccess() {
		t.Error("PreFilter admits a pod that is bound")
	}
}

// TestDryRunGivesBackExactlyTheVictimsCards also holds that a pod put back takes its own cards again and that the real
// node never changes.
func TestDryRunGivesBackExactlyTheVictimsCards(t *testing.T) {
	node := kit.Node("n1", kit.N8s("n1"))
	f := newFixture(t, node)
	victim := kit.Pod("ns", "victim", kit.UID("v"), kit.GPUs(6))
	vs, _ := f.cycle(t, victim)
	if status := f.Reserve(f.ctx, vs, victim, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(8))
	state, _ := f.cycle(t, pod)
	dry := state.Clone()
	info := f.nodeInfo(t, node)
	vi, err := framework.NewPodInfo(victim)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		do   func(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status
		want fwk.Code
	}{{f.RemovePod, fwk.Success}, {f.AddPod, fwk.Unschedulable}, {f.RemovePod, fwk.Success}}
	for i, step := range steps {
		if status := step.do(f.ctx, dry, pod, vi, info); !status.IsSuccess() {
			t.Fatalf("step %d: %v", i, status)
		}
		if got := f.Filter(f.ctx, dry, pod, info); got.Code() != step.want {
			t.Errorf("step %d: Filter %v, want %v", i, got.Code(), step.want)
		}
	}
	if got := f.Filter(f.ctx, state, pod, info); got.Code() != fwk.Unschedulable {
		t.Errorf("the dry run leaked into the cycle it was cloned from: Filter %v", got.Code())
	}
	if got := f.engine.Ledger().Node("n1").Free.Len(); got != 2 {
		t.Errorf("%d cards are free in the ledger, want 2", got)
	}
}

// TestNominatedPodCounts: a pod that is nominated but not placed takes the cards it would get.
func TestNominatedPodCounts(t *testing.T) {
	node := kit.Node("n1", kit.N8s("n1"))
	f := newFixture(t, node)
	nominated, err := framework.NewPodInfo(kit.Pod("ns", "nominated", kit.UID("n"), kit.GPUs(6)))
	if err != nil {
		t.Fatal(err)
	}
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(4))
	state, _ := f.cycle(t, pod)
	if status := f.AddPod(f.ctx, state, pod, nominated, f.nodeInfo(t, node)); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got := f.Filter(f.ctx, state, pod, f.nodeInfo(t, node)); got.Code() != fwk.Unschedulable {
		t.Errorf("Filter: %v, want Unschedulable", got.Code())
	}
}

// TestOneEngineForSeveralProfiles: a second instance shares the ledger, and must agree on what is shared.
func TestOneEngineForSeveralProfiles(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	args := &config.GPUTopologyArgs{}
	config.SetDefaults(args)
	second, err := New(f.engine)(f.ctx, args, f.handle)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := second.(*Plugin); !ok || p.engine.Ledger() != f.engine.Ledger() {
		t.Error("the second profile has a ledger of its own")
	}
}

// choice returns n cards of node n1 as the plugin would choose them.
func (f *fixture) choice(t *testing.T, n int64) []allocate.CardShare {
	t.Helper()
	asked, err := f.requestOf(kit.Pod("ns", "x", kit.GPUs(n)))
	if err != nil {
		t.Fatal(err)
	}
	_, choice, status := f.choose(asked, "n1")
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	return choice.Cards
}
