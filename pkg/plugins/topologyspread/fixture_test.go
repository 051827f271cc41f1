package topologyspread

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

const (
	zoneKey = v1.LabelTopologyZone
	hostKey = v1.LabelHostname
	rackKey = "network.topology.nvidia.com/leaf"
)

// fixture is the plugin, and the in-tree one beside it, on one snapshot of the scheduler's own cache.
type fixture struct {
	*Plugin
	ctx      context.Context
	inTree   *podtopologyspread.PodTopologySpread
	cache    cache.Cache
	snapshot *cache.Snapshot
	logger   klog.Logger
}

// options are what tests change about a fixture.
type options struct {
	args    func(*config.TopologySpreadArgs)
	objects []runtime.Object
	// fabric has the engine keep the network, and read the requests of GPU pods.
	fabric bool
}

// alone turns off what the in-tree plugin does not have.
func alone(a *config.TopologySpreadArgs) { *a.GangAware, *a.IgnoreNonGPUNodes = false, false }

func newFixture(t testing.TB, o options) *fixture {
	t.Helper()
	schedmetrics.Register()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	client := fake.NewClientset(o.objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	f := &fixture{ctx: ctx, cache: cache.New(ctx, nil, false, false), snapshot: cache.NewEmptySnapshot()}
	handle := newHandle(t, f, client, factory)
	args := &config.TopologySpreadArgs{}
	config.SetTopologySpreadDefaults(args)
	if o.args != nil {
		o.args(args)
	}
	shared := engine.New(engine.Options{})
	if o.fabric {
		startEngine(ctx, t, shared, handle)
	}
	built, err := New(shared)(ctx, args, handle)
	if err != nil {
		t.Fatal(err)
	}
	f.Plugin = built.(*Plugin) //nolint:errcheck // the factory makes nothing else
	stock, err := podtopologyspread.New(ctx, &schedconfig.PodTopologySpreadArgs{
		DefaultConstraints: args.DefaultConstraints, DefaultingType: args.DefaultingType,
	}, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		t.Fatal(err)
	}
	f.inTree = stock.(*podtopologyspread.PodTopologySpread) //nolint:errcheck // its New makes nothing else
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		if err := shared.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		factory.Shutdown()
	})
	if o.fabric {
		f.eventually(t, "ledger in sync", shared.HasSynced)
	}
	return f
}

func newHandle(t testing.TB, f *fixture, client kubernetes.Interface, factory informers.SharedInformerFactory) framework.Framework {
	t.Helper()
	handle, err := frameworkruntime.NewFramework(f.ctx, frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New}, &schedconfig.KubeSchedulerProfile{
		SchedulerName: kit.SchedulerName,
		Plugins: &schedconfig.Plugins{
			QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: queuesort.Name}}},
			Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
		},
	}, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(f.snapshot), frameworkruntime.WithEventRecorder(events.NewFakeRecorder(1000)))
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

func startEngine(ctx context.Context, t testing.TB, shared *engine.Engine, handle fwk.Handle) {
	t.Helper()
	cards, nccl := &config.GPUTopologyArgs{}, &config.NCCLTopologyArgs{}
	config.SetDefaults(cards)
	config.SetNCCLDefaults(nccl)
	if err := shared.Start(ctx, handle, cards); err != nil {
		t.Fatal(err)
	}
	if err := shared.StartFabric(handle, nccl, klog.Logger{}); err != nil {
		t.Fatal(err)
	}
	shared.Gangs().Serve(kit.SchedulerName)
}

func (f *fixture) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// refresh brings the snapshot in line with the cache, as a scheduling cycle begins.
func (f *fixture) refresh(t testing.TB) []fwk.NodeInfo {
	t.Helper()
	if err := f.cache.UpdateSnapshot(f.logger, f.snapshot); err != nil {
		t.Fatal(err)
	}
	infos, err := f.snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

// holds puts nodes and pods into the cache and returns the snapshot's list.
func (f *fixture) holds(t testing.TB, nodes []*v1.Node, pods ...*v1.Pod) []fwk.NodeInfo {
	t.Helper()
	for _, n := range nodes {
		f.cache.AddNode(f.logger, n)
	}
	for _, p := range pods {
		if err := f.cache.AddPod(f.logger, p); err != nil {
			t.Fatal(err)
		}
	}
	return f.refresh(t)
}

// verdicts runs one cycle up to Filter: the reason by node, "" for a node that passes; all nodes have PreFilter's where it refuses.
func (f *fixture) verdicts(t testing.TB, pod *v1.Pod) map[string]string {
	t.Helper()
	infos := f.refresh(t)
	state := framework.NewCycleState()
	out := map[string]string{}
	_, status := f.PreFilter(f.ctx, state, pod, infos)
	for _, info := range infos {
		switch {
		case status.IsSkip():
			out[info.Node().Name] = ""
		case !status.IsSuccess():
			out[info.Node().Name] = status.Message()
		default:
			out[info.Node().Name] = f.Filter(f.ctx, state, pod, info).Message()
		}
	}
	return out
}

// node returns a node with labels, given as key, value, key, value ...
func node(name string, pairs ...string) *v1.Node {
	n := &v1.Node{}
	n.Name, n.Labels = name, map[string]string{hostKey: name}
	for i := 0; i < len(pairs); i += 2 {
		n.Labels[pairs[i]] = pairs[i+1]
	}
	return n
}

// spreads adds a constraint that selects pods with the label app of the given value.
func spreads(key string, maxSkew int32, kind v1.UnsatisfiableConstraintAction, app string, edit ...func(*v1.TopologySpreadConstraint)) kit.PodOption {
	return func(p *v1.Pod) {
		c := v1.TopologySpreadConstraint{TopologyKey: key, MaxSkew: maxSkew, WhenUnsatisfiable: kind, LabelSelector: selects("app", app)}
		for _, e := range edit {
			e(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// labelled sets labels of a pod.
func labelled(pairs ...string) kit.PodOption {
	return func(p *v1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func named(name string) kit.PodOption { return kit.UID("uid-" + name) }
