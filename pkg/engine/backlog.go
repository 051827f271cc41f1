package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/backlog"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// tidyPeriod is how often pods that are gone, or bound by somebody else, are taken out of the backlog. Until then they cost a few
// hundred bytes.
const tidyPeriod = time.Minute

// parking has the pods that wait for cards and that no event wakes but a change of the ledger.
type parking struct {
	// count is the number of parked pods, so that who asks about a pod where there are none takes no lock.
	count atomic.Int64

	// mu guards what follows. The ledger's lock is taken while it is held; the scheduling queue's may be held by who takes it.
	mu      sync.Mutex
	backlog *backlog.Backlog
	cursor  *ledger.Cursor
}

func newParking(l *ledger.Ledger, c *allocate.Chooser) parking {
	fits := func(v *allocate.View, r *allocate.Request) bool { return c.Fits(v, r) == nil }
	return parking{backlog: backlog.New(fits), cursor: l.Follow()}
}

// follow takes in what the ledger has published. The caller holds mu.
func (p *parking) follow() {
	if p.cursor.Read() {
		p.backlog.Reset()
	}
	for name, a := range p.cursor.Changed() {
		p.backlog.Set(name, a)
	}
}

// Park keeps a pod that asks for r, and could not be placed, from being tried before a node may have its cards; false where one
// may have them now. What becomes of the pod then is decided by Parked, when the scheduling queue asks for it.
func (e *Engine) Park(pod *v1.Pod, r *allocate.Request) bool {
	p := &e.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow()
	parked := p.backlog.Park(backlog.Pod{
		UID: ledger.PodUID(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Priority: corev1helpers.PodPriority(pod), Created: pod.CreationTimestamp.UnixNano(),
	}, r, e.clock.Now())
	p.count.Store(int64(p.backlog.Len()))
	return parked
}

// Parked reports whether a pod is parked and is to stay so. The scheduling queue asks it, with its lock held.
func (e *Engine) Parked(pod *v1.Pod) bool {
	p, uid := &e.parking, ledger.PodUID(pod.UID)
	if p.count.Load() == 0 || !p.has(uid) {
		return false
	}
	r, err := e.RequestOf(pod)
	if err != nil {
		r = nil // its next try says what is wrong with it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow()
	parked := p.backlog.Parked(uid, r, e.clock.Now())
	p.count.Store(int64(p.backlog.Len()))
	return parked
}

func (p *parking) has(uid ledger.PodUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backlog.Has(uid)
}

// wakeParked has pods tried again that a node may have cards for now. It returns in how long it wants to be called again though
// nothing happens, 0 for never.
func (e *Engine) wakeParked(ctx context.Context, handle fwk.Handle, pods corelisters.PodLister) time.Duration {
	p := &e.parking
	if p.count.Load() == 0 {
		return 0
	}
	p.mu.Lock()
	p.follow()
	woken, more := p.backlog.Wake(e.clock.Now())
	p.count.Store(int64(p.backlog.Len()))
	p.mu.Unlock()
	found := map[string]*v1.Pod{}
	for i := range woken {
		if pod := stillWaits(pods, &woken[i]); pod != nil {
			found[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(found) > 0 {
		metrics.PodsWoken.Add(float64(len(found)))
		handle.Activate(klog.FromContext(ctx), found)
	}
	return more
}

// stillWaits returns the object of a pod, nil if it is gone or bound.
func stillWaits(pods corelisters.PodLister, p *backlog.Pod) *v1.Pod {
	pod, err := pods.Pods(p.Namespace).Get(p.Name)
	if err != nil || ledger.PodUID(pod.UID) != p.UID || pod.Spec.NodeName != "" {
		return nil // the store has no error but that of a pod that is not there
	}
	return pod
}

// tidy forgets parked pods that wait no more.
func (e *Engine) tidy(pods corelisters.PodLister) {
	p := &e.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backlog.Keep(func(pod *backlog.Pod) bool { return stillWaits(pods, pod) != nil })
	p.count.Store(int64(p.backlog.Len()))
}

// parkedLoop wakes parked pods as the ledger changes.
func (e *Engine) parkedLoop(ctx context.Context, handle fwk.Handle) {
	pods := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	ticker := e.clock.NewTicker(tidyPeriod)
	defer ticker.Stop()
	again := e.clock.NewTimer(tidyPeriod)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.ledger.News():
		case <-again.C():
		case <-ticker.C():
			e.tidy(pods)
		}
		if more := e.wakeParked(ctx, handle, pods); more > 0 {
			again.Stop()
			again.Reset(more)
		}
	}
}
