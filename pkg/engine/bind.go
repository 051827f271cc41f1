package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

const (
	// bindRounds is how often a Binding whose answer was lost is sent.
	bindRounds = 3
	// bindsInFlight is how many Bindings are under way at a time. A gang's members are let go at once; what is more than an
	// API server's priority level takes from one client it refuses with 429, and client-go then waits for a second. An API
	// server that answers a Binding in 20 ms takes 3200 a second from this many.
	bindsInFlight = 64
	// readBackTimeout bounds one read of the pod after a failed bind.
	readBackTimeout = 5 * time.Second
)

// ErrBindUnknown means that the outcome of a bind could not be learned: its cards stay held.
var ErrBindUnknown = errors.New("the outcome of the bind is not known yet; the cards stay held until the pod can be read back")

// fate is what a pod, read back, says of a Binding.
type fate uint8

const (
	// fateUnread: the pod could not be read.
	fateUnread fate = iota
	// fateUnbound: the pod has no node.
	fateUnbound
	// fateOurs: the pod is bound to our node with our record.
	fateOurs
	// fateLost: the pod is gone or bound otherwise; this Binding can never be committed.
	fateLost
)

// Bind sends the Binding, whose annotations hold the allocation record, and learns its outcome. It returns nil only for
// a pod that is bound as asked, and then the ledger has it confirmed. After ErrBindUnknown the ledger keeps the cards
// whatever Unreserve says; after any other error they may be given back. Nothing is sent for a pod that does not hold
// these cards any more: others may hold them by now.
func (e *Engine) Bind(ctx context.Context, handle fwk.Handle, binding *v1.Binding, cards []allocate.CardShare) error {
	uid := ledger.PodUID(binding.UID)
	e.pace.begin()
	defer e.pace.end()
	select {
	case e.binds <- struct{}{}:
		defer func() { <-e.binds }()
	case <-ctx.Done():
		return fmt.Errorf("bind pod %s/%s: %w", binding.Namespace, binding.Name, context.Cause(ctx)) // nothing was sent
	}
	if err := e.inFlight.begin(e.ledger, uid, ledger.NodeName(binding.Target.Name), cards); err != nil {
		metrics.BindOutcomes.WithLabelValues(metrics.BindFailed).Inc()
		return fmt.Errorf("bind pod %s/%s to node %s: %w", binding.Namespace, binding.Name, binding.Target.Name, err)
	}
	defer e.inFlight.end(uid)
	err := e.bind(ctx, handle, binding)
	switch {
	case err == nil:
		e.ledger.Confirm(uid)
	case errors.Is(err, ErrBindUnknown):
		metrics.BindOutcomes.WithLabelValues(metrics.BindUnknown).Inc()
		e.suspect(binding)
	case apierrors.IsConflict(err):
		metrics.BindOutcomes.WithLabelValues(metrics.BindConflict).Inc()
	default:
		metrics.BindOutcomes.WithLabelValues(metrics.BindFailed).Inc()
	}
	return err
}

func (e *Engine) bind(ctx context.Context, handle fwk.Handle, binding *v1.Binding) error {
	logger := klog.FromContext(ctx)
	// The binding cycle's context ends when its pod is deleted; learning the outcome must not.
	detached := context.WithoutCancel(ctx)
	var last error
	// underWay is true once a request was sent of which nobody knows whether the server is done with it.
	underWay := false
	for range bindRounds {
		last = e.post(ctx, handle, binding)
		if last == nil {
			metrics.BindOutcomes.WithLabelValues(metrics.BindSuccess).Inc()
			return nil
		}
		if errors.Is(last, ErrDeposed) && !underWay {
			return last // nothing was sent, and nobody else binds this pod to these cards
		}
		found, err := e.readBack(detached, handle.ClientSet(), binding)
		logger.V(2).Info("Bind failed, pod read back", "pod", klog.KRef(binding.Namespace, binding.Name), "node", binding.Target.Name, "err", last, "fate", found, "readErr", err)
		switch found {
		case fateOurs:
			metrics.BindOutcomes.WithLabelValues(metrics.BindConfirmed).Inc()
			return nil
		case fateLost:
			return last
		case fateUnbound:
			if refused(handle, last) && !underWay {
				return last
			}
		case fateUnread:
		}
		underWay = underWay || !refused(handle, last)
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrBindUnknown, last)
}

// post sends the Binding once, or hands it to the scheduler's own queue of API calls where that is in use. That queue has the
// scheduler's client, so there the fence is passed before the queue and not behind it.
func (e *Engine) post(ctx context.Context, handle fwk.Handle, binding *v1.Binding) error {
	cacher := handle.APICacher()
	if cacher == nil {
		var client corev1client.PodsGetter = handle.ClientSet().CoreV1()
		if e.binder != nil {
			client = e.binder
		}
		return client.Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	if e.fence != nil {
		if err := e.fence.check(ctx); err != nil {
			return err
		}
	}
	finished, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, finished)
}

// refused reports whether the error is a last word, so that nothing of the request is still under way. What the fence kept back
// was never sent. Of what the server says only a refusal (4xx) is: a 5xx may come from something between here and the server, or
// from a server that lost sight of its own write. The scheduler's queue of API calls repeats by itself and reports the last try
// only, so of it nothing is final.
func refused(handle fwk.Handle, err error) bool {
	if errors.Is(err, ErrDeposed) {
		return true
	}
	var status apierrors.APIStatus
	if handle.APICacher() != nil || !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// readBack asks the API server, not a cache, what became of the Binding. A pod that turns out to be bound otherwise is
// charged for what it holds there at once.
func (e *Engine) readBack(ctx context.Context, client clientset.Interface, binding *v1.Binding) (fate, error) {
	pod, err := read(ctx, client, binding)
	if apierrors.IsNotFound(err) {
		return fateLost, nil
	}
	if err != nil {
		return fateUnread, err
	}
	found := fateOf(pod, binding)
	if observer := e.Observer(); observer != nil && found == fateLost && pod.UID == binding.UID {
		observer.PodSeen(pod)
	}
	return found, nil
}

func read(ctx context.Context, client clientset.Interface, binding *v1.Binding) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	return client.CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
}

func fateOf(pod *v1.Pod, binding *v1.Binding) fate {
	switch {
	case pod.UID != binding.UID:
		return fateLost
	case pod.Spec.NodeName == "":
		return fateUnbound
	case pod.Spec.NodeName == binding.Target.Name &&
		pod.Annotations[v1alpha1.AllocationAnnotation] == binding.Annotations[v1alpha1.AllocationAnnotation]:
		return fateOurs
	}
	return fateLost
}
