package gputopology

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// reserveRounds is how often a choice is made anew when informer events change the node between choice and Assume.
const reserveRounds = 3

// Reserve chooses the cards and takes them. Only informer events run beside it, so a conflict is rare; the choice is
// then made again on the node as it is now.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	s := requestOf(state)
	if s == nil {
		return nil
	}
	var last error
	for range reserveRounds {
		a, choice, status := p.choose(s.request, nodeName)
		if status != nil {
			metrics.Reservations.WithLabelValues(metrics.ReserveConflict).Inc()
			return status // not Unschedulable: that would park the pod, and what changed the node wakes nobody
		}
		last = p.engine.Ledger().Assume(ledger.Holding{
			UID:   ledger.PodUID(pod.UID),
			Pod:   pod.Namespace + "/" + pod.Name,
			Node:  ledger.NodeName(nodeName),
			Cards: choice.Cards,
		})
		if last == nil {
			state.Write(reservationKey, &ReservationState{NodeName: ledger.NodeName(nodeName), Choice: choice, Topology: a.Topology})
			metrics.Reservations.WithLabelValues(metrics.ReserveSuccess).Inc()
			return nil
		}
		var conflict *ledger.ConflictError
		if !errors.As(last, &conflict) {
			metrics.Reservations.WithLabelValues(metrics.ReserveError).Inc()
			return fwk.AsStatus(last)
		}
	}
	metrics.Reservations.WithLabelValues(metrics.ReserveConflict).Inc()
	return fwk.AsStatus(last)
}

func (p *Plugin) choose(asked *allocate.Request, nodeName string) (*ledger.NodeGPUAllocation, allocate.Choice, *fwk.Status) {
	a := p.engine.Ledger().Node(ledger.NodeName(nodeName))
	switch {
	case a == nil || a.Topology == nil:
		return nil, allocate.Choice{}, changed(nodeName, "its GPUs are not known any more")
	case a.Quarantined:
		return nil, allocate.Choice{}, changed(nodeName, a.Quarantine())
	}
	choice, rejection, err := p.engine.Chooser().Choose(&a.View, asked)
	if err != nil {
		return nil, allocate.Choice{}, fwk.AsStatus(err)
	}
	if rejection != nil {
		return nil, allocate.Choice{}, changed(nodeName, rejection.String())
	}
	return a, choice, nil
}

// changed is the status of a node that was fit when it was filtered: the pod is tried again after its backoff.
func changed(node, how string) *fwk.Status {
	return fwk.AsStatus(fmt.Errorf("node %s has changed since it was filtered: %s", node, how))
}

// Unreserve gives the cards back. It may be called any number of times, for pods that never reserved and after the
// bind: the ledger releases only what is still in flight.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if pod == nil {
		return
	}
	if p.engine.Ledger().Forget(ledger.PodUID(pod.UID)) {
		metrics.Rollbacks.Inc()
	}
}
