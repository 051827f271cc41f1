package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	componentbaseconfig "k8s.io/component-base/config"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// ErrDeposed means that this process cannot show that it leads: nothing was sent.
var ErrDeposed = errors.New("this replica cannot show that it leads")

const (
	// fenceMargin is the part of a lease, one in fenceMargin, in which its holder sends nothing any more: a Binding needs
	// time to arrive, and clocks that count the same seconds drift.
	fenceMargin = 5
	// fenceTimeout bounds one read of the lease.
	fenceTimeout = 5 * time.Second
)

// Elects says by which lease this process elects its leader, so that it binds while it can show that it holds it, and so that
// it does not take itself for the leader before the election says so. Call it before Start, if at all.
func (e *Engine) Elects(c componentbaseconfig.LeaderElectionConfiguration) {
	metrics.Elects()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.election = &c
}

// fence keeps a leader from binding that is none any more. The election alone does not: a process that stood still for
// longer than its lease (stopped, swapped out, its machine suspended) goes on where it stood, and its Bindings leave before
// it learns that another leads. A fence lets a request pass only while the lease, as it was read, names this process and
// had time left:
//
//	                 now < until                                the lease is ours
//	request --> pass <----------- check --else--> GET lease --> until = renewTime + duration - margin
//	                                                  |not ours, not fresh, not readable
//	                                                  v
//	                                              ErrDeposed, nothing is sent
//
// Another replica waits for the duration from the moment at which it saw the lease renewed, which is after renewTime, so
// that at until nobody else leads. Time is compared by the wall clock, which wrote renewTime and counts while a machine is
// suspended, and by the monotonic one, which nobody can set.
//
// What is left open is a process that stands still between the check and the send, which are microseconds apart, or a
// request that the network holds back for longer than the margin.
type fence struct {
	leases coordinationclient.LeaseInterface
	name   string
	// host begins the identity under which this process takes part in the election.
	host  string
	clock clock.PassiveClock

	// mu guards what follows, and is held while the lease is read: those who wait for it want the same answer.
	mu   sync.Mutex
	term term
	// until is when requests stop, renew when the lease is read again before that.
	until, renew time.Time
}

// term is the time during which one process holds the lease.
type term struct {
	holder      string
	transitions int32
}

func newFence(client kubernetes.Interface, by *componentbaseconfig.LeaderElectionConfiguration, c clock.PassiveClock) (*fence, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("fence of lease %s/%s: %w", by.ResourceNamespace, by.ResourceName, err)
	}
	return &fence{leases: client.CoordinationV1().Leases(by.ResourceNamespace), name: by.ResourceName, host: host + "_", clock: c}, nil
}

// begin notes the term under which this process leads. The caller has been told by the election that it does.
func (f *fence) begin(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(ctx, true)
}

// check returns nil while this process leads, and an ErrDeposed if it cannot tell.
func (f *fence) check(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if earlier(f.clock.Now(), f.renew) {
		return nil
	}
	err := f.read(ctx, false)
	if err != nil && !errors.Is(err, errNotOurs) && earlier(f.clock.Now(), f.until) {
		return nil // an API server that did not answer this once
	}
	return err
}

// errNotOurs is an ErrDeposed that the lease itself says.
var errNotOurs = fmt.Errorf("%w: its lease is not its own", ErrDeposed)

// read reads the lease; first says that its holder is noted, not compared. The caller holds mu.
func (f *fence) read(ctx context.Context, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	lease, err := f.leases.Get(ctx, f.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%w: read lease %s: %w", ErrDeposed, f.name, err)
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil || spec.LeaseTransitions == nil {
		return fmt.Errorf("%w: lease %s has no holder, renewTime, duration or transitions", errNotOurs, f.name)
	}
	found := term{*spec.HolderIdentity, *spec.LeaseTransitions}
	switch {
	case !strings.HasPrefix(found.holder, f.host):
		return fmt.Errorf("%w: lease %s is held by %q, this is a process of %q", errNotOurs, f.name, found.holder, strings.TrimSuffix(f.host, "_"))
	case !first && found != f.term:
		return fmt.Errorf("%w: lease %s is held by %q (transition %d), it was by %q (%d)", errNotOurs, f.name, found.holder, found.transitions, f.term.holder, f.term.transitions)
	}
	now := f.clock.Now()
	until, renew := limits(spec, now)
	if !earlier(now, until) {
		return fmt.Errorf("%w: lease %s was renewed %s ago, which is too near to its end after %ds", ErrDeposed, f.name, now.Sub(spec.RenewTime.Time).Round(time.Millisecond), *spec.LeaseDurationSeconds)
	}
	f.term, f.until, f.renew = found, until, renew
	return nil
}

// limits are the end of the time in which the holder of a lease may send, and the moment halfway to it. Both have now's
// reading of the monotonic clock, if it has one.
func limits(spec *coordinationv1.LeaseSpec, now time.Time) (until, renew time.Time) {
	lease := time.Duration(*spec.LeaseDurationSeconds) * time.Second
	left := min(spec.RenewTime.Add(lease).Sub(now), lease) - lease/fenceMargin
	return now.Add(left), now.Add(left / 2)
}

// earlier reports whether a is before b by every clock that both have.
func earlier(a, b time.Time) bool { return a.Before(b) && a.Round(0).Before(b.Round(0)) }

// fenced is a transport whose requests pass the fence last of all: behind the client's rate limit, where a request may wait.
type fenced struct {
	next  http.RoundTripper
	fence *fence
}

// RoundTrip sends the request, or returns an ErrDeposed.
func (t fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.fence.check(r.Context()); err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	return t.next.RoundTrip(r)
}

// openFence makes the fence and the client whose requests pass it, where a leader is elected.
func (e *Engine) openFence(handle fwk.Handle) error {
	if e.election == nil {
		return nil
	}
	if handle.KubeConfig() == nil {
		return errors.New("a leader is elected, but there is no client configuration to bind by")
	}
	f, err := newFence(handle.ClientSet(), e.election, e.clock)
	if err != nil {
		return err
	}
	config := rest.CopyConfig(handle.KubeConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{next, f} })
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for Bindings: %w", err)
	}
	e.fence, e.binder = f, client
	return nil
}
