package engine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

const (
	// takeOverTimeout bounds the one list of TakeOver. 50,000 pods take an API server a few seconds.
	takeOverTimeout = 30 * time.Second
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
	// Without a resource version the answer is as new as what etcd has.
	list, err := handle.ClientSet().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: livingBound})
	if err != nil {
		return fmt.Errorf("%w: list bound pods before the first placement: %w", ErrNotSynced, err)
	}
	missed := 0
	for i := range list.Items {
		pod := &list.Items[i]
		held, stage, known := e.ledger.Holding(ledger.PodUID(pod.UID))
		if known && stage == ledger.StageBound && string(held.Node) == pod.Spec.NodeName {
			continue
		}
		observer.PodSeen(pod)
		if _, _, holds := e.ledger.Holding(ledger.PodUID(pod.UID)); holds {
			missed++
		}
	}
	e.current.Store(true)
	klog.FromContext(ctx).V(2).Info("Bound pods read before the first placement", "pods", len(list.Items), "notHeardOf", missed)
	return nil
}
