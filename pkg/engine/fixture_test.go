package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// podUID is the pod that every test here binds; it holds card 0 of node n1.
const podUID = "u1"

// errLost is an answer that never came: it says nothing about what the server did.
var errLost = errors.New("read: connection reset by peer")

// server plays the API server for one pod.
type server struct {
	mu sync.Mutex
	// pod is what a GET returns, nil for NotFound.
	pod *v1.Pod
	// posts and gets count requests.
	posts, gets int
	// onPost answers the n-th Binding, counted from 1; it may call commit.
	onPost func(s *server, n int, b *v1.Binding) error
	// getErr is the answer to a GET if it is not nil.
	getErr error
}

// commit does what the server does with a Binding.
func (s *server) commit(b *v1.Binding) {
	s.pod.Spec.NodeName = b.Target.Name
	maps.Copy(s.pod.Annotations, b.Annotations)
}

func (s *server) client() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding, ok := create.GetObject().(*v1.Binding)
		if !ok {
			return true, nil, errors.New("not a Binding")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.posts++
		return true, nil, s.onPost(s, s.posts, binding)
	})
	client.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gets++
		switch {
		case s.getErr != nil:
			return true, nil, s.getErr
		case s.pod == nil:
			return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "p")
		}
		return true, s.pod.DeepCopy(), nil
	})
	return client
}

// activated records what the scheduling queue is told to try again.
type activated struct {
	mu   sync.Mutex
	pods []string
}

func (a *activated) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range pods {
		a.pods = append(a.pods, name)
	}
}

func (a *activated) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.pods)
	return a.pods
}

// bench is an engine whose ledger has node n1 with eight cards, of which pod u1 holds card 0 in flight.
type bench struct {
	*Engine
	ctx     context.Context
	server  *server
	handle  fwk.Handle
	woken   *activated
	factory informers.SharedInformerFactory
	binding *v1.Binding
	holding ledger.Holding
}

func newBench(t *testing.T, c clock.WithTicker) *bench {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	b := &bench{Engine: New(Options{Clock: c}), ctx: ctx, woken: &activated{}}
	b.server = &server{pod: kit.Pod("ns", "p", kit.UID(podUID), kit.GPUs(1))}
	client := b.server.client()
	b.factory = informers.NewSharedInformerFactory(client, 0)
	b.handle = newHandle(ctx, t, client, frameworkruntime.WithInformerFactory(b.factory), frameworkruntime.WithPodActivator(b.woken))

	node, err := topology.New(kit.N8s("n1"), topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	b.ledger.SetNode("n1", node)
	card := node.Card(0)
	choice := allocate.Choice{Cards: []allocate.CardShare{{
		Index: 0, UUID: card.UUID, SliceMask: allocate.WholeCard, VRAMBytes: card.VRAMBytes, ComputeMilli: allocate.MilliPerCard,
	}}}
	b.holding = ledger.Holding{UID: podUID, Pod: "ns/p", Node: "n1", Cards: choice.Cards}
	if err := b.ledger.Assume(b.holding); err != nil {
		t.Fatal(err)
	}
	annotations, err := record.Annotations(b.server.pod, "n1", choice, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.binding = &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: podUID, Annotations: annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	return b
}

func newHandle(ctx context.Context, t *testing.T, client clientset.Interface, options ...frameworkruntime.Option) fwk.Handle {
	t.Helper()
	registry := frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New}
	handle, err := frameworkruntime.NewFramework(ctx, registry, &schedconfig.KubeSchedulerProfile{
		SchedulerName: kit.SchedulerName,
		Plugins: &schedconfig.Plugins{
			QueueSort: schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: queuesort.Name}}},
			Bind:      schedconfig.PluginSet{Enabled: []schedconfig.Plugin{{Name: defaultbinder.Name}}},
		},
	}, append([]frameworkruntime.Option{frameworkruntime.WithClientSet(client), frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// observed gives the engine its observer without any loop.
func (b *bench) observed(t *testing.T) *bench {
	t.Helper()
	observer := observe.New(b.ledger, observe.Options{Rates: topology.DefaultRates()}, b.Engine, klog.FromContext(b.ctx), b.clock)
	if _, err := observer.Register(b.factory); err != nil {
		t.Fatal(err)
	}
	b.observer.Store(observer)
	return b
}

// stage returns the pod's stage, 0 if it holds nothing.
func (b *bench) stage() ledger.Stage {
	_, stage, _ := b.ledger.Holding(podUID)
	return stage
}

func defaultArgs() *config.GPUTopologyArgs {
	args := &config.GPUTopologyArgs{}
	config.SetDefaults(args)
	return args
}

func eventually(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
