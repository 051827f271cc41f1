package integration

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/coscheduling"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/nccltopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/topologyspread"
	"github.com/gputopology/gpu-topology-scheduler/pkg/preflight"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// patience bounds every wait of these tests. It is no measure of speed: a test that reaches it has failed.
const patience = 2 * time.Minute

// replica is one scheduler in this process.
type replica struct {
	engine *engine.Engine
	stop   func()
}

// replicaOptions changes what the shipped configuration says.
type replicaOptions struct {
	// configure edits the loaded configuration.
	configure func(*schedconfig.KubeSchedulerConfiguration)
	// registry adds plugins under test.
	registry frameworkruntime.Registry
	// wrap changes the transport to the API server.
	wrap func(http.RoundTripper) http.RoundTripper
	// clock replaces the engine's clock.
	clock clock.WithTicker
	// lead has the scheduler stand by until it is closed: it hears of everything and schedules nothing.
	lead <-chan struct{}
}

// startReplica runs a scheduler until the test ends or stop is called.
func startReplica(t *testing.T, config *rest.Config, o replicaOptions) *replica {
	t.Helper()
	loaded, err := options.LoadConfigFromFile(klog.Background(), checkout.SchedulerConfig(t))
	if err != nil {
		t.Fatalf("load the shipped configuration: %v", err)
	}
	if o.configure != nil {
		o.configure(loaded)
	}
	turnOffGates(t)
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	if o.wrap != nil {
		config.Wrap(o.wrap)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quietContext(t))
	shared := engine.New(engine.Options{Clock: o.clock})
	registry := frameworkruntime.Registry{}
	for name, factory := range o.registry {
		registry[name] = factory
	}
	registry[gputopology.Name] = gputopology.New(shared)
	registry[gputopology.GateName] = gputopology.NewGate(shared)
	registry[coscheduling.Name] = coscheduling.New(shared)
	registry[nccltopology.Name] = nccltopology.New(shared)
	registry[topologyspread.Name] = topologyspread.New(shared)

	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	broadcaster.StartRecordingToSink(ctx.Done())
	factory := scheduler.NewInformerFactory(client, 0, nil)
	dynamicFactory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0, "", nil)
	sched, err := scheduler.New(ctx, client, factory, dynamicFactory, profile.NewRecorderFactory(broadcaster),
		scheduler.WithKubeConfig(config),
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithPercentageOfNodesToScore(loaded.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(loaded.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(loaded.PodInitialBackoffSeconds),
		scheduler.WithParallelism(loaded.Parallelism),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
	)
	if err != nil {
		cancel()
		t.Fatalf("build the scheduler: %v", err)
	}
	factory.Start(ctx.Done())
	dynamicFactory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		cancel()
		t.Fatalf("wait for the handlers: %v", err)
	}
	var running sync.WaitGroup
	running.Add(1)
	go func() {
		defer running.Done()
		if o.lead != nil {
			select {
			case <-o.lead:
			case <-ctx.Done():
			}
		}
		sched.Run(ctx)
	}()
	r := &replica{engine: shared, stop: sync.OnceFunc(func() {
		cancel()
		running.Wait()
		broadcaster.Shutdown()
		factory.Shutdown()
	})}
	t.Cleanup(r.stop)
	return r
}

// turnOffGates does what the scheduler's command does with gates that are on by default.
func turnOffGates(t *testing.T) {
	t.Helper()
	for _, gate := range preflight.Costly() {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(gate): false}); err != nil {
			t.Fatal(err)
		}
	}
}

// quietContext gives the scheduler a logger that writes to the test only when -v asks for it.
func quietContext(t *testing.T) context.Context {
	if !testing.Verbose() {
		return klog.NewContext(context.Background(), klog.New(nil))
	}
	logger := ktesting.NewLogger(quietAfterEnd(t), ktesting.NewConfig(ktesting.Verbosity(2)))
	return klog.NewContext(context.Background(), logger)
}

// quietAfterEnd drops what goroutines of upstream write after the test has ended.
func quietAfterEnd(t *testing.T) ktesting.TL {
	return &untilEnd{t: t}
}

type untilEnd struct {
	t    *testing.T
	mu   sync.Mutex
	once sync.Once
	over bool
}

func (u *untilEnd) Helper() {}

func (u *untilEnd) Log(args ...any) {
	u.once.Do(func() {
		u.t.Cleanup(func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.over = true
		})
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		u.t.Log(args...)
	}
}

// eventually waits until ok returns true, and fails the test with what describe says if it never does.
func eventually(t *testing.T, what string, ok func(context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		done, err := ok(ctx)
		last = err
		return done && err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not so in %s (last error: %v)", what, patience, last)
	}
}

// hasStage is a condition for eventually.
func (r *replica) hasStage(uid ledger.PodUID, want ledger.Stage) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) {
		_, stage, ok := r.engine.Ledger().Holding(uid)
		return ok && stage == want, nil
	}
}
