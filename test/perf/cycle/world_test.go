package cycle

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
	_ "github.com/gputopology/gpu-topology-scheduler/pkg/apis/config" // makes plugin args known to the configuration decoder
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/coscheduling"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/nccltopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/topologyspread"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

const (
	nodesPerLeaf  = 16
	nodesPerSpine = 8 * nodesPerLeaf
	// syncPatience bounds the wait for informers that read from memory.
	syncPatience = time.Minute
)

// variant is a scheduler that is measured.
type variant struct {
	name string
	// change makes its configuration of the one that ships.
	change func(map[string]any) error
	// plugins says that ours run, fabric that NCCLTopology is one of them.
	plugins, fabric bool
}

var variants = []variant{
	{name: "default", change: simulate.WithoutPlugins},
	{name: "ours", change: func(map[string]any) error { return nil }, plugins: true, fabric: true},
	{name: "flat", change: simulate.WithoutFabric, plugins: true},
}

// world is a scheduler with a cluster of its own.
type world struct {
	variant
	ctx       context.Context
	engine    *engine.Engine
	scheduler *scheduler.Scheduler
	snapshot  *internalcache.Snapshot
	profile   framework.Framework
	client    *fake.Clientset
	pods      cache.Store
}

// newWorld starts a scheduler's informers and returns when they are in sync.
func newWorld(t testing.TB, v variant, nodes int) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	w := &world{variant: v, ctx: ctx, engine: engine.New(engine.Options{}), snapshot: internalcache.NewEmptySnapshot()}
	w.client = clientWith(t, nodes)
	factory := scheduler.NewInformerFactory(w.client, 0, nil)
	registry := frameworkruntime.Registry{}
	if v.plugins {
		registry = frameworkruntime.Registry{
			gputopology.Name: gputopology.New(w.engine), coscheduling.Name: coscheduling.New(w.engine),
			gputopology.GateName: gputopology.NewGate(w.engine), nccltopology.Name: nccltopology.New(w.engine), topologyspread.Name: topologyspread.New(w.engine),
		}
	}
	config := configOf(t, v)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: w.client.EventsV1()})
	var err error
	w.scheduler, err = scheduler.New(ctx, w.client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithKubeConfig(&rest.Config{Host: "http://127.0.0.1:1"}), // of clients that find nothing to do here
		scheduler.WithNodeInfoSnapshot(w.snapshot), scheduler.WithProfiles(config.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(registry), scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	w.profile, w.pods = w.scheduler.Profiles[simulate.SchedulerName], factory.Core().V1().Pods().Informer().GetStore()
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		if err := w.engine.Close(); err != nil {
			t.Error(err)
		}
		broadcaster.Shutdown()
		factory.Shutdown()
	})
	factory.WaitForCacheSync(ctx.Done())
	if err := w.scheduler.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	w.waitForPlugins(t, nodes)
	return w
}

func (w *world) waitForPlugins(t testing.TB, nodes int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, time.Millisecond, syncPatience, true, func(context.Context) (bool, error) {
		return !w.plugins || w.engine.HasSynced() && (!w.fabric || w.engine.Fabric().Len() == nodes), nil
	})
	if err != nil {
		t.Fatalf("%s: plugins in sync: %v", w.name, err)
	}
}

// clientWith has the nodes, and takes every Binding.
func clientWith(t testing.TB, nodes int) *fake.Clientset {
	t.Helper()
	objects := make([]runtime.Object, nodes)
	for i := range objects {
		n, err := simulate.HGXH100.Node(i)
		if err != nil {
			t.Fatal(err)
		}
		n.Object.Labels["network.topology.nvidia.com/leaf"] = fmt.Sprintf("leaf-%04d", i/nodesPerLeaf)
		n.Object.Labels["network.topology.nvidia.com/spine"] = fmt.Sprintf("spine-%03d", i/nodesPerSpine)
		objects[i] = n.Object
	}
	client := fake.NewClientset(objects...)
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "binding", &v1.Binding{}, nil
	})
	return client
}

// configOf reads the configuration that ships, with the variant's change.
func configOf(t testing.TB, v variant) *schedconfig.KubeSchedulerConfiguration {
	t.Helper()
	base, err := manifests.Base()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(base, manifests.SchedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = simulate.DeriveConfig(text, v.change); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), manifests.SchedulerConfig)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
