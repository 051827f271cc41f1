package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/backlog"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

const (
	// idlePeriod is how often the parked pods are looked at though nothing says that it would help.
	idlePeriod = time.Minute
	// Settle is how long a change of the ledger is left alone before pods are woken by it: the scheduler's own handlers hear of the end
	// of a pod at the same time, and a pod that is tried before its cache has heard of it is refused, and backs off.
	Settle = 25 * time.Millisecond
	// earlyMost is how often one pod is tried again since it was woken before the scheduler's cache had heard, and earlyPlaces how many
	// nodes are looked at to find that out.
	earlyMost, earlyPlaces = 20, 8
)

// parking has the pods that wait for cards and that no event of the scheduler wakes.
type parking struct {
	// count is the number of parked pods, so that who asks about a pod where there are none takes no lock.
	count atomic.Int64
	// kicks has a token when somebody may have to be woken by something else than a change of the ledger.
	kicks chan struct{}

	// mu guards what follows. The ledger's lock is taken while it is held; the scheduling queue's may be held by who takes it.
	mu      sync.Mutex
	backlog *backlog.Backlog
	cursor  *ledger.Cursor
	holders *holders
	// early is how often a pod was tried too early.
	early map[ledger.PodUID]int
	// pods and nodes are the informers' stores, nil before Start: then nobody is parked.
	pods  corelisters.PodLister
	nodes corelisters.NodeLister
}

func newParking(l *ledger.Ledger, c *allocate.Chooser) parking {
	fits := func(v *allocate.View, r *allocate.Request) bool { return c.Fits(v, r) == nil }
	return parking{kicks: make(chan struct{}, 1), backlog: backlog.New(fits), cursor: l.Follow(), holders: newHolders(l), early: map[ledger.PodUID]int{}}
}

// watch registers the handlers of pods and nodes.
func (p *parking) watch(handle fwk.Handle) error {
	pods, nodes := handle.SharedInformerFactory().Core().V1().Pods(), handle.SharedInformerFactory().Core().V1().Nodes()
	p.mu.Lock()
	p.pods, p.nodes = pods.Lister(), nodes.Lister()
	p.mu.Unlock()
	for kind, w := range map[string]struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		"Pod":  {pods.Informer(), handlerOf(p.podSeen, p.podUpdated, p.podGone)},
		"Node": {nodes.Informer(), handlerOf(p.nodeSeen, p.nodeUpdated, p.nodeSeen)},
	} {
		if _, err := w.informer.AddEventHandler(w.handler); err != nil {
			return fmt.Errorf("%s informer: %w", kind, err)
		}
	}
	return nil
}

// podSeen takes note of a bound pod: it waits no more, and may be preempted.
func (p *parking) podSeen(pod *v1.Pod) {
	if pod.Spec.NodeName != "" {
		p.told(pod, p.holders.seen)
	}
}

func (p *parking) podUpdated(was, pod *v1.Pod) {
	if was.UID != pod.UID { // the watch missed the end of the one and the beginning of the other
		p.podGone(was)
	}
	if was.UID != pod.UID || was.Spec.NodeName == "" || len(pod.Spec.ResourceClaims) > 0 {
		p.podSeen(pod)
	}
}

func (p *parking) podGone(pod *v1.Pod) { p.told(pod, p.holders.gone) }

// told changes who holds cards on account of a pod that does not wait any more.
func (p *parking) told(pod *v1.Pod, change func(*v1.Pod) (lowest int32)) {
	p.mu.Lock()
	p.backlog.Forget(ledger.PodUID(pod.UID))
	delete(p.early, ledger.PodUID(pod.UID))
	fell := p.backlog.SetLowest(change(pod))
	p.unlock()
	if fell {
		p.kick()
	}
}

func (p *parking) nodeUpdated(was, is *v1.Node) {
	if !sameAdmission(was, is) {
		p.nodeSeen(is)
	}
}

func (p *parking) nodeSeen(node *v1.Node) {
	p.mu.Lock()
	p.backlog.Touch(ledger.NodeName(node.Name))
	p.mu.Unlock()
	p.kick()
}

// unlock ends what has begun with a lock of mu and may have changed who is parked.
func (p *parking) unlock() {
	p.count.Store(int64(p.backlog.Len()))
	p.mu.Unlock()
}

func (p *parking) kick() {
	if p.count.Load() == 0 {
		return
	}
	select {
	case p.kicks <- struct{}{}:
	default: // somebody has said so already
	}
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
// may have them now, where the pod is in a group, may preempt or has a node nominated, and where it waits no more. What becomes of a parked pod
// is decided by Parked, when the scheduling queue asks for it.
func (e *Engine) Park(pod *v1.Pod, r *allocate.Request) bool {
	if book.InGroup(pod) {
		return false // it is not woken alone
	}
	if pod.Status.NominatedNodeName != "" {
		return false // others keep off that node on its account: it must hear of all that happens there
	}
	p := &e.parking
	p.mu.Lock()
	defer p.unlock()
	waits := backlog.Pod{
		UID: ledger.PodUID(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Priority: corev1helpers.PodPriority(pod), Created: pod.CreationTimestamp.UnixNano(),
		Patient: pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever,
	}
	if p.pods == nil || p.find(&waits) == nil {
		return false
	}
	p.follow()
	return p.backlog.Park(waits, wantOf(pod, r, p.nodes), e.clock.Now())
}

// Early reports whether a pod that asks for r was refused by what the scheduler's cache has not heard of yet: a node that has the
// cards is not in the snapshot, or has a pod there whose cards the ledger knows to be free. It should be tried again after Settle.
func (e *Engine) Early(pod *v1.Pod, r *allocate.Request, snapshot fwk.NodeInfoLister) bool {
	p, uid := &e.parking, ledger.PodUID(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nodes == nil || book.InGroup(pod) || p.early[uid] >= earlyMost {
		return false
	}
	p.follow()
	for _, name := range p.backlog.Places(wantOf(pod, r, p.nodes), earlyPlaces) {
		if info, err := snapshot.Get(string(name)); err != nil || e.outlived(info) {
			p.early[uid]++
			return true
		}
	}
	return false
}

// outlived reports whether a node of a snapshot has a pod that the ledger knows to be gone.
func (e *Engine) outlived(info fwk.NodeInfo) bool {
	return slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool {
		if !request.TakesCards(p.GetPod()) {
			return false
		}
		_, _, holds := e.ledger.Holding(ledger.PodUID(p.GetPod().UID))
		return !holds
	})
}

// Parked reports whether a pod is parked and is to stay so. The scheduling queue asks it, with its lock held.
func (e *Engine) Parked(pod *v1.Pod) bool {
	p, uid := &e.parking, ledger.PodUID(pod.UID)
	if p.count.Load() == 0 || !p.has(uid) {
		return false
	}
	r, err := e.RequestOf(pod)
	p.mu.Lock()
	defer p.unlock()
	var want *backlog.Want
	if err == nil && r != nil && pod.Status.NominatedNodeName == "" && !book.InGroup(pod) {
		want = wantOf(pod, r, p.nodes)
	}
	return p.backlog.Parked(uid, want, e.clock.Now())
}

func (p *parking) has(uid ledger.PodUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backlog.Has(uid)
}

// find returns the object of a pod, nil if it is gone or bound.
func (p *parking) find(waits *backlog.Pod) *v1.Pod {
	pod, err := p.pods.Pods(waits.Namespace).Get(waits.Name)
	if err != nil || ledger.PodUID(pod.UID) != waits.UID || pod.Spec.NodeName != "" {
		return nil // the store has no error but that of a pod that is not there
	}
	return pod
}

// wakeParked has pods tried again that a node may have cards for now. It returns in how long it wants to be called again though
// nothing happens, 0 for never.
func (e *Engine) wakeParked(ctx context.Context, handle fwk.Handle) time.Duration {
	p := &e.parking
	if p.count.Load() == 0 {
		return 0
	}
	p.mu.Lock()
	p.follow()
	woken, more := p.backlog.Wake(e.clock.Now())
	found := map[string]*v1.Pod{}
	for i := range woken {
		if pod := p.find(&woken[i]); pod != nil {
			found[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	p.unlock()
	if len(found) > 0 {
		metrics.PodsWoken.Add(float64(len(found)))
		handle.Activate(klog.FromContext(ctx), found)
	}
	return more
}

// parkedLoop wakes parked pods as the ledger, nodes and priorities change.
func (e *Engine) parkedLoop(ctx context.Context, handle fwk.Handle) {
	again := e.clock.NewTimer(idlePeriod)
	defer again.Stop()
	for {
		wait := e.wakeParked(ctx, handle)
		if wait == 0 {
			wait = idlePeriod
		}
		again.Stop()
		again.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-e.ledger.News():
			if e.parking.count.Load() == 0 {
				continue
			}
			select {
			case <-time.After(Settle): // of the real clock, by which handlers run
			case <-ctx.Done():
				return
			}
		case <-e.parking.kicks:
		case <-again.C():
		}
	}
}
