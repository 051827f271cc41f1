package engine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2/ktesting"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestStandbyEvictsNobody: every replica sees that a gang is broken; the one that schedules evicts what is left of it.
func TestStandbyEvictsNobody(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	e := New(Options{Clock: testingclock.NewFakeClock(time.Unix(1000, 0))})
	client := fake.NewClientset()
	var evicted, early atomic.Int32
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		if !e.placing.Load() {
			early.Add(1)
		}
		evicted.Add(1)
		return true, nil, nil
	})
	empty := httptest.NewServer(http.NotFoundHandler())
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(func() {
		cancel()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		factory.Shutdown()
		empty.Close()
	})
	args := &config.CoschedulingArgs{}
	config.SetCoschedulingDefaults(args)
	handle := newHandle(ctx, t, client, frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithKubeConfig(&rest.Config{Host: empty.URL}),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()))
	if err := e.StartGangs(ctx, handle, args); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	breakGang(e)
	evicts := func(within time.Duration) error {
		return wait.PollUntilContextTimeout(ctx, time.Millisecond, within, true, func(context.Context) (bool, error) { return evicted.Load() > 0, nil })
	}
	if evicts(100*time.Millisecond) == nil { // what never comes cannot be waited for: a slow machine may only miss a fault
		t.Errorf("%d members are evicted by a replica that stands by", evicted.Load())
	}
	e.Placing()
	err := evicts(time.Minute)
	if err != nil || early.Load() != 0 {
		t.Errorf("%d evictions, %d of them before this replica scheduled: %v", evicted.Load(), early.Load(), err)
	}
}

// breakGang shows a gang of two that runs, and then the loss of one of their nodes.
func breakGang(e *Engine) {
	e.book.GroupSeen(podgroup.Group{UID: "g", Namespace: "ns", Name: "a", Spec: gang.Spec{MinMember: 2, OnLoss: gang.LossEvict}})
	for _, node := range []string{"n1", "n2"} {
		pod := kit.Pod("ns", "a-"+node, kit.UID("uid-"+node), kit.OnNode(node))
		pod.Labels = map[string]string{v1alpha1.PodGroupLabel: "a"}
		pod.Status.Phase = v1.PodRunning
		e.book.PodSeen(pod)
	}
	e.book.NodeGone("n1")
}
