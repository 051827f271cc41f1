package engine

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// wakePause is the least time between two calls of wake, which lists every pod.
const wakePause = 200 * time.Millisecond

// endedPods returns the informer of pods that have succeeded or failed, which the scheduler's own leaves out, and starts it
// with the first call. It ends with ctx or Close. The caller holds mu.
func (e *Engine) endedPods(ctx context.Context, handle fwk.Handle) cache.SharedIndexInformer {
	if e.ended != nil {
		return e.ended
	}
	factory := informers.NewSharedInformerFactoryWithOptions(handle.ClientSet(), 0, informers.WithTransform(observe.ShortEnded),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = observe.EndedSelector }))
	e.ended = factory.Core().V1().Pods().Informer()
	loop, stop := context.WithCancel(ctx)
	e.stops = append(e.stops, stop)
	e.done.Go(func() {
		factory.StartWithContext(loop)
		<-loop.Done()
		factory.Shutdown()
	})
	return e.ended
}

// freed says that cards came free of which no event of the scheduler tells. It does not block.
func (e *Engine) freed() {
	e.wakeMembers.Store(true)
	e.planFreed()
}

// planFreed is freed for cards of a gang's plan. Gangs are woken by the book alone, in their order.
func (e *Engine) planFreed() {
	select {
	case e.wakes <- struct{}{}:
	default: // somebody has said so already
	}
}

func (e *Engine) wakeLoop(ctx context.Context, handle fwk.Handle) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wakes:
		}
		e.wake(ctx, handle)
		select {
		case <-ctx.Done():
			return
		case <-e.clock.After(wakePause):
		}
	}
}

// wake has the waiting GPU pods tried again. The scheduler announced the end of a bind, or of a pod, while the cards were
// still held: whoever was refused then has nothing else left to wake it.
func (e *Engine) wake(ctx context.Context, handle fwk.Handle) {
	logger := klog.FromContext(ctx)
	pods, err := handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		logger.Error(err, "Waiting pods cannot be listed from the informer's store")
		return
	}
	waiting, members := map[string]*v1.Pod{}, e.wakeMembers.Swap(false)
	for _, pod := range pods {
		if _, member := book.KeyOf(pod); pod.Spec.NodeName != "" || member && !members {
			continue
		}
		if !request.TakesCards(pod) {
			continue
		}
		if e.parking.has(ledger.PodUID(pod.UID)) || e.book.Follows(pod) {
			continue // it is woken by what came free, or its gang's first member is
		}
		waiting[pod.Namespace+"/"+pod.Name] = pod
	}
	e.book.MayCureAll()
	handle.Activate(logger, waiting)
}
