package engine

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

const (
	// takeOverTimeout bounds the one list of TakeOver, all its pages. 50,000 pods take an API server a few seconds.
	takeOverTimeout = 30 * time.Second
	// takeOverPage is how many pods are asked for at a time: all at once would be the most memory that a scheduler ever needs.
	takeOverPage = 1000
	// livingBound selects the pods that may hold cards.
	livingBound = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
)

// TakeOver makes sure, once in a process, that the ledger has what the scheduler that led before has bound, also where this
// replica's watch was cut, or hangs behind: it reads the bound pods from the API server itself, as of now, and not from a
// cache of unknown age. No card may be given out before it has returned nil; it is asked again otherwise. It blocks for as
// long as the list takes, and returns at once from then on.
//
// The former leader sends nothing any more by then: its fence closed before its lease ended.
func (e *Engine) TakeOver(ctx context.Context, handle fwk.Handle) error {
	if e.current.Load() {
		return nil
	}
	e.takeOver.Lock()
	defer e.takeOver.Unlock()
	if e.current.Load() {
		return nil
	}
	observer := e.Observer()
	if observer == nil || !e.HasSynced() {
		return ErrNotSynced
	}
	ctx, cancel := context.WithTimeout(ctx, takeOverTimeout)
	defer cancel()
	if e.fence != nil {
		if err := e.fence.begin(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNotSynced, err)
		}
	}
	read, missed := 0, 0
	// Without a resource version the answer is as new as what etcd has; the pages after the first are of the same moment.
	options := metav1.ListOptions{FieldSelector: livingBound, Limit: takeOverPage}
	for more := true; more; more = options.Continue != "" {
		list, err := handle.ClientSet().CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("%w: list bound pods before the first placement: %w", ErrNotSynced, err)
		}
		read, missed, options.Continue = read+len(list.Items), missed+e.takeIn(observer, list.Items), list.Continue
	}
	e.current.Store(true)
	klog.FromContext(ctx).V(2).Info("Bound pods read before the first placement", "pods", read, "notHeardOf", missed)
	return nil
}

// takeIn tells the observer of the pods that the ledger does not know to be bound where they are, and returns how many of them
// hold cards.
func (e *Engine) takeIn(observer *observe.Observer, pods []v1.Pod) (missed int) {
	for i := range pods {
		uid := ledger.PodUID(pods[i].UID)
		held, stage, known := e.ledger.Holding(uid)
		if known && stage == ledger.StageBound && string(held.Node) == pods[i].Spec.NodeName {
			continue
		}
		observer.PodSeen(&pods[i])
		if _, _, holds := e.ledger.Holding(uid); holds {
			missed++
		}
	}
	return missed
}
