package engine

import (
	"context"
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
)

// leadPeriod is how often a process that has placed nothing looks whether it leads.
const leadPeriod = 2 * time.Second

const actionEvict = "EvictGang"

// gangs is what the engine runs for Coscheduling.
type gangs struct {
	args    *config.CoschedulingArgs
	watcher *podgroup.Watcher
	leases  *leases
	synced  []func() bool
	writer  *podgroup.Writer
}

// Gangs returns the process's gang book.
func (e *Engine) Gangs() *book.Book { return e.book }

// StartGangs registers the handlers of the gang book and starts its loops. Every instance of Coscheduling calls it; calls
// after the first only add their profile and check that their args agree. It does not block and does no I/O. The loops end
// with ctx or Close.
func (e *Engine) StartGangs(ctx context.Context, handle fwk.Handle, args *config.CoschedulingArgs) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.book.Serve(handle.ProfileName())
	if e.gangs != nil {
		if !reflect.DeepEqual(e.gangs.args, args) {
			return fmt.Errorf("profile %q: CoschedulingArgs differ from another profile's: the process has one gang book, so all profiles must agree on them", handle.ProfileName())
		}
		return nil
	}
	logger := klog.FromContext(ctx)
	metrics.Register()
	g := &gangs{args: args}
	h := host{handle: handle, engine: e}
	factory := handle.SharedInformerFactory()
	shared := settings(args)
	shared.Fabric, shared.Freed = e.Fabric, e.planFreed
	e.book.Start(h, shared, factory.Core().V1().Pods().Lister(), logger)
	if err := e.watchMembers(ctx, g, handle); err != nil {
		return err
	}
	g.watcher = podgroup.NewWatcher(handle.KubeConfig(), e.clock, sink{e, g}, logger)
	g.synced = append(g.synced, g.watcher.HasSynced)
	groups, err := podgroup.NewClient(handle.KubeConfig())
	if err != nil {
		return fmt.Errorf("client of PodGroups: %w", err)
	}
	g.writer = podgroup.NewWriter(groups, handle.ClientSet(), e.clock, e, logger, e.pace.queued)
	if timeout := args.NodeLeaseTimeout.Duration; timeout > 0 {
		g.leases = newLeases(handle.ClientSet(), e.clock, timeout, e.book.MayCureAll)
	}
	e.gangs = g
	e.startGangLoops(ctx, g)
	return nil
}

func settings(args *config.CoschedulingArgs) book.Settings {
	return book.Settings{
		Gang: gang.Config{
			PermitTimeout:  args.PermitTimeout.Duration,
			PlanTTL:        args.PlanTTL.Duration,
			BackoffInitial: args.BackoffInitial.Duration,
			BackoffMax:     args.BackoffMax.Duration,
		},
		TurnAfter:   int(*args.TurnAfter),
		TurnTimeout: args.TurnTimeout.Duration,
		External:    args.Status == config.StatusExternal,
	}
}

// watchMembers registers the handlers of pods and nodes.
func (e *Engine) watchMembers(ctx context.Context, g *gangs, handle fwk.Handle) error {
	factory := handle.SharedInformerFactory()
	watched := []struct {
		kind     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"Pod", factory.Core().V1().Pods().Informer(), handlerOf(e.book.PodSeen, e.book.PodUpdated, e.book.PodGone)},
		{"Node", factory.Core().V1().Nodes().Informer(), handlerOf(e.book.NodeSeen, func(_, n *v1.Node) { e.book.NodeSeen(n) }, func(n *v1.Node) { e.book.NodeGone(n.Name) })},
		{"ended Pod", e.endedPods(ctx, handle), endedHandler(e.book)},
	}
	for _, w := range watched {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("%s informer: %w", w.kind, err)
		}
		g.synced = append(g.synced, registration.HasSynced)
	}
	return nil
}

// handlerOf makes a handler of functions that take the object itself. What is not of the type is left to the next list.
func handlerOf[T any](added func(T), updated func(old, is T), deleted func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if is, ok := o.(T); ok {
				added(is)
			}
		},
		UpdateFunc: func(o, n any) {
			was, known := o.(T)
			if is, ok := n.(T); ok && known {
				updated(was, is)
			}
		},
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			if was, ok := o.(T); ok {
				deleted(was)
			}
		},
	}
}

// endedHandler passes on pods that have ended. Their informer keeps a part of each only, so no other pod may get in.
func endedHandler(b *book.Book) cache.ResourceEventHandler {
	seen := func(pod *v1.Pod) {
		if observe.Terminal(pod) {
			b.PodSeen(pod)
		}
	}
	return handlerOf(seen, func(_, is *v1.Pod) { seen(is) }, func(pod *v1.Pod) {
		if observe.Terminal(pod) {
			b.EndedGone(pod)
		}
	})
}

func (e *Engine) startGangLoops(ctx context.Context, g *gangs) {
	loops, stop := context.WithCancel(ctx)
	e.stops = append(e.stops, stop)
	e.done.Go(func() { e.book.Run(loops) })
	e.done.Go(func() { g.watcher.Run(loops) })
	e.done.Go(func() { e.lead(loops, g) })
	if g.leases != nil {
		e.done.Go(func() { g.leases.run(loops) })
	}
}

// lead waits until this process schedules. From then on it writes the status of PodGroups and evicts what is left of broken
// gangs: a replica that stands by sees the same losses, perhaps late, and must not act on them.
func (e *Engine) lead(ctx context.Context, g *gangs) {
	ticker := e.clock.NewTicker(leadPeriod)
	defer ticker.Stop()
	for !e.placing.Load() {
		select {
		case <-ctx.Done():
			return
		case <-e.leads:
		case <-ticker.C():
			if leads, err := metrics.Leads(); err == nil && leads && e.GangsSynced() {
				e.Placing()
			}
		}
	}
	e.book.WriteStatus(g.writer)
	e.done.Go(func() { e.book.RunEvictions(ctx) })
	g.writer.Run(ctx)
}

// GangsSynced reports whether the gang book has heard of every pod, node and PodGroup that existed at the start, and the
// fabric of every node.
func (e *Engine) GangsSynced() bool {
	if e.gangsInSync.Load() {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gangs == nil {
		return false
	}
	for _, synced := range e.gangs.synced {
		if !synced() {
			return false
		}
	}
	if f := e.fabric.Load(); f != nil && !f.registration.HasSynced() {
		return false
	}
	e.gangsInSync.Store(true)
	return true
}

// StaleNodes returns the nodes that have a lease and stopped to renew it, nil if there are none.
func (e *Engine) StaleNodes() map[string]bool {
	e.mu.Lock()
	g := e.gangs
	e.mu.Unlock()
	if g == nil || g.leases == nil {
		return nil
	}
	return g.leases.stale()
}

// sink hands PodGroups to those who want to know.
type sink struct {
	engine *Engine
	gangs  *gangs
}

// GroupSeen implements podgroup.Sink.
func (s sink) GroupSeen(g podgroup.Group) {
	s.gangs.writer.Seen(g)
	s.engine.book.GroupSeen(g)
}

// GroupGone implements podgroup.Sink.
func (s sink) GroupGone(namespace, name string, uid gang.GroupUID) {
	s.engine.book.GroupGone(namespace, name, uid)
	s.gangs.writer.Forget(uid)
}

// host is the scheduler as the book sees it.
type host struct {
	handle fwk.Handle
	engine *Engine
}

// WaitingPod implements book.Host.
func (h host) WaitingPod(uid types.UID) book.WaitingPod {
	if w := h.handle.GetWaitingPod(uid); w != nil {
		return w
	}
	return nil
}

// Activate implements book.Host.
func (h host) Activate(pods map[string]*v1.Pod) { h.handle.Activate(klog.Background(), pods) }

// Evict implements book.Host.
func (h host) Evict(ctx context.Context, pod *v1.Pod, reason string) error {
	h.Report(pod, "GangBroken", actionEvict, reason)
	return h.handle.ClientSet().PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
}

// Report implements book.Host.
func (h host) Report(regarding runtime.Object, reason, action, detail string) {
	h.engine.Report(regarding, reason, action, detail)
}
