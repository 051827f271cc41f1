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
	// revived is called when a lease that was stale is renewed: no other event need follow.
	revived func()
	factory informers.SharedInformerFactory

	mu   sync.Mutex
	seen map[string]renewal
}

type renewal struct{ at, seen time.Time }

func newLeases(client clientset.Interface, c clock.PassiveClock, timeout time.Duration, revived func()) *leases {
	return &leases{
		clock: c, timeout: timeout, revived: revived, seen: map[string]renewal{},
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
	if l.renew(lease.Name, lease.Spec.RenewTime.Time) {
		l.revived()
	}
}

// renew reports whether the lease was stale until now.
func (l *leases) renew(node string, at time.Time) bool {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.seen[node]
	if known && last.at.Equal(at) {
		return false
	}
	l.seen[node] = renewal{at: at, seen: now}
	return known && now.Sub(last.seen) > l.timeout
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
