package engine

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// leases tells which nodes have stopped renewing their lease before the node controller has said so. Ages count from when
// this process saw a renewal, by its own clock: those of the nodes may differ.
type leases struct {
	clock   clock.PassiveClock
	timeout time.Duration
	factory informers.SharedInformerFactory

	mu   sync.Mutex
	seen map[string]renewal
}

type renewal struct{ at, seen time.Time }

func newLeases(client clientset.Interface, c clock.PassiveClock, timeout time.Duration) *leases {
	return &leases{
		clock: c, timeout: timeout, seen: map[string]renewal{},
		factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(v1.NamespaceNodeLease), informers.WithTransform(shortLease)),
	}
}

// shortLease keeps of a lease what is read here.
func shortLease(o any) (any, error) {
	if l, ok := o.(*coordinationv1.Lease); ok {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name, UID: l.UID, ResourceVersion: l.ResourceVersion},
			Spec:       coordinationv1.LeaseSpec{RenewTime: l.Spec.RenewTime},
		}, nil
	}
	return o, nil
}

func (l *leases) run(ctx context.Context) {
	informer := l.factory.Coordination().V1().Leases().Informer()
	_, err := informer.AddEventHandler(handlerOf(l.renewed, func(_, is *coordinationv1.Lease) { l.renewed(is) }, l.gone))
	if err != nil {
		return // only an informer that has ended refuses a handler
	}
	l.factory.StartWithContext(ctx)
	<-ctx.Done()
	l.factory.Shutdown()
}

func (l *leases) renewed(lease *coordinationv1.Lease) {
	if lease.Spec.RenewTime == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.seen[lease.Name]; !known || !last.at.Equal(lease.Spec.RenewTime.Time) {
		l.seen[lease.Name] = renewal{at: lease.Spec.RenewTime.Time, seen: l.clock.Now()}
	}
}

func (l *leases) gone(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, lease.Name)
}

// stale returns the nodes whose lease is too old. A node without a lease is not among them: its taints and conditions say
// what is known of it.
func (l *leases) stale() map[string]bool {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out map[string]bool
	for name, last := range l.seen {
		if now.Sub(last.seen) > l.timeout {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = true
		}
	}
	return out
}
