package engine

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// Reserved is what a pod had reserved, for reports.
type Reserved struct {
	Node ledger.NodeName
	Plan string
	// Gang is the name of the PodGroup, "" for none.
	Gang  string
	Cards []allocate.CardShare
}

// RolledBack counts and traces the end of a reservation, after GiveBack, and with no lock held. gave is what GiveBack said. It
// may be called any number of times: an attempt is counted once, however its cards came free, and not at all while they
// are held.
func (e *Engine) RolledBack(ctx context.Context, a *Attempt, pod *v1.Pod, r Reserved, gave bool) {
	if a == nil {
		if gave {
			metrics.Rollbacks.WithLabelValues(metrics.RollbackOther, metrics.StageUnknown).Inc()
		}
		return
	}
	p := a.end()
	details := tracing.Details{Namespace: pod.Namespace, Pod: pod.Name, Node: string(r.Node), Gang: r.Gang, Plan: r.Plan, Cards: r.Cards}
	details.Outcome, details.Stage = p.cause(e.gangsRun(), e.podIsGone(pod)), p.stage()
	p.wait.End(details)
	if p.step == stepBound || p.step == stepOver || p.step == stepNone && !gave {
		return
	}
	if !gave {
		if _, _, held := e.ledger.Holding(ledger.PodUID(pod.UID)); held {
			return
		}
	}
	metrics.Rollbacks.WithLabelValues(details.Outcome, details.Stage).Inc()
	if !p.trial {
		e.Span(ctx, a, tracing.SpanRollback).End(details)
	}
}

// cause is why an attempt ended, as far as our plugins can tell. asked says that a plugin of ours stands at Permit.
func (p *progress) cause(asked, gone bool) string {
	switch {
	case p.trial:
		return metrics.RollbackTrial
	case gone:
		return metrics.RollbackDeleted
	case p.step == stepBinding:
		return metrics.RollbackBind
	case p.refused:
		return metrics.RollbackGang
	case p.step == stepWaiting:
		return metrics.RollbackPermit
	case p.step == stepPermitted:
		return metrics.RollbackPreBind
	case p.step == stepReserved && asked:
		return metrics.RollbackReserve
	}
	return metrics.RollbackOther
}

// stage is how far the attempt had come, in one word.
func (p *progress) stage() string {
	switch p.step {
	case stepReserved:
		return metrics.StageReserved
	case stepWaiting:
		return metrics.StageWaiting
	case stepPermitted:
		return metrics.StagePermitted
	case stepBinding:
		return metrics.StageBinding
	case stepNone, stepBound, stepOver:
	}
	return metrics.StageUnknown
}

// gangsRun reports whether a profile runs Coscheduling, which stands at Permit.
func (e *Engine) gangsRun() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gangs != nil
}

// podIsGone reports whether the pod is deleted, is about to be, or has ended.
func (e *Engine) podIsGone(pod *v1.Pod) bool {
	if e.ledger.Released(ledger.PodUID(pod.UID)) {
		return true
	}
	observer := e.Observer()
	if observer == nil {
		return false
	}
	living := observer.Living(pod.Namespace+"/"+pod.Name, ledger.PodUID(pod.UID))
	return living == nil || living.DeletionTimestamp != nil
}
