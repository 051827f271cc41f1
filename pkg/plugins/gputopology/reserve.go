package gputopology

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// reserveRounds is how often a choice is made anew when informer events change the node between choice and Assume.
const reserveRounds = 3

// Reserve chooses the cards and takes them. Only informer events run beside it, so a conflict is rare; the choice is
// then made again on the node as it is now.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	s := requestOf(state)
	if s == nil {
		return nil
	}
	attempt, trial := engine.Begin(state), state.IsPodGroupSchedulingCycle()
	var span tracing.Span // a trial is none of the pod's story
	if !trial {
		span = p.engine.Span(ctx, attempt, tracing.SpanReserve)
	}
	status := p.reserve(state, s, pod, nodeName)
	if status == nil {
		attempt.Reserved(trial)
	}
	if span.On() {
		d := tracing.Details{Namespace: pod.Namespace, Pod: pod.Name, Node: nodeName}
		if r := Reservation(state); r != nil && status == nil {
			d.Plan, d.Gang, d.Cards = r.Plan, r.Gang, r.Choice.Cards
		}
		span.End(d.Because(status.AsError()))
	}
	return status
}

func (p *Plugin) reserve(state fwk.CycleState, s *requestState, pod *v1.Pod, nodeName string) *fwk.Status {
	if s.member {
		if planned := p.engine.Gangs().Planned(ledger.PodUID(pod.UID)); planned != nil {
			return p.takeOver(state, pod, nodeName, planned)
		}
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

// takeOver makes what a gang's plan holds for a pod its reservation. The plan may have been given back, and the cards
// taken, since it was looked at: then it is a conflict like any other.
func (p *Plugin) takeOver(state fwk.CycleState, pod *v1.Pod, nodeName string, planned *book.Planned) *fwk.Status {
	if string(planned.Node) != nodeName {
		return fwk.AsStatus(fmt.Errorf("pod %s/%s is planned on node %s and is to be reserved on node %s", pod.Namespace, pod.Name, planned.Node, nodeName))
	}
	if err := p.engine.Ledger().Assume(planned.Holding(pod)); err != nil {
		metrics.Reservations.WithLabelValues(metrics.ReserveConflict).Inc()
		return fwk.AsStatus(err)
	}
	reserved := &ReservationState{NodeName: planned.Node, Choice: planned.Choice, Topology: planned.Topology, Plan: planned.ID, Gang: planned.Gang.String()}
	if planned.Rank >= 0 {
		rank := int32(planned.Rank)
		reserved.Rank = &rank
	}
	state.Write(reservationKey, reserved)
	metrics.Reservations.WithLabelValues(metrics.ReserveSuccess).Inc()
	return nil
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
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if pod == nil {
		return
	}
	was := engine.Reserved{}
	if r := Reservation(state); r != nil {
		was = engine.Reserved{Node: r.NodeName, Plan: r.Plan, Gang: r.Gang, Cards: r.Choice.Cards}
	}
	gave := p.engine.GiveBack(ledger.PodUID(pod.UID), was.Plan)
	p.engine.RolledBack(ctx, engine.AttemptOf(state), pod, was, gave)
}
