package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

const attemptKey fwk.StateKey = "gputopology.io/attempt"

// Attempt is what the plugins together know of one attempt to schedule one pod: how far it came, and the trace that its spans
// belong to. It decides nothing: it is read for metrics and spans alone. All methods work on a nil Attempt, and may be called
// at the same time.
type Attempt struct {
	trail tracing.Trail

	mu sync.Mutex
	progress
}

// progress is how far an attempt came.
type progress struct {
	step step
	// trial is set while placements of a native group are tried.
	trial bool
	// refused is set where the gang rejected the pod.
	refused bool
	// wait is the span of the wait at Permit, off once it has ended.
	wait tracing.Span
}

// step is the last thing that happened to a pod.
type step uint8

const (
	stepNone step = iota
	stepReserved
	stepWaiting
	stepPermitted
	stepBinding
	stepBound
	// stepOver was rolled back.
	stepOver
)

// Clone returns the same attempt: a cycle state is cloned within one attempt.
func (a *Attempt) Clone() fwk.StateData { return a }

// AttemptOf returns the attempt that a cycle state belongs to, nil if none was begun.
func AttemptOf(state fwk.CycleState) *Attempt {
	if state == nil {
		return nil
	}
	return ReadState[*Attempt](state, attemptKey)
}

// Begin returns the attempt that a cycle state belongs to, a new one if none was begun.
func Begin(state fwk.CycleState) *Attempt {
	if state == nil {
		return nil
	}
	a := ReadState[*Attempt](state, attemptKey)
	if a == nil {
		a = &Attempt{}
		state.Write(attemptKey, a)
	}
	return a
}

// trace makes the tracer that the environment asks for. The caller holds mu.
func (e *Engine) trace(ctx context.Context) error {
	if e.tracer != nil {
		return nil
	}
	tracer, err := tracing.FromEnvironment(ctx)
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	e.tracer = tracer
	return nil
}

// flushTimeout bounds the time to send the last spans.
const flushTimeout = 5 * time.Second

// flush sends what is left of the spans, once nothing makes any more.
func (e *Engine) flush() error {
	e.mu.Lock()
	tracer := e.tracer
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	return tracer.Shutdown(ctx)
}

// Span begins a span of the attempt.
func (e *Engine) Span(ctx context.Context, a *Attempt, name string) tracing.Span {
	if e.tracer == nil {
		return tracing.Span{}
	}
	if a == nil {
		return e.tracer.Start(ctx, nil, name)
	}
	return e.tracer.Start(ctx, &a.trail, name)
}

// Reserved says that the pod has its cards. trial is set where that is but tried, for a placement of a native group.
func (a *Attempt) Reserved(trial bool) {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.step, a.trial, a.refused = stepReserved, trial, false
	}
}

// Permitted says that the pod need not wait at Permit.
func (a *Attempt) Permitted() { a.advance(stepPermitted, false) }

// Refused says that the gang does not let the pod go on.
func (a *Attempt) Refused() { a.advance(stepReserved, true) }

// Bound says that the pod is bound.
func (a *Attempt) Bound() { a.advance(stepBound, false) }

func (a *Attempt) advance(to step, refused bool) {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.step, a.refused = to, refused
	}
}

// Waits says that the pod is about to wait at Permit.
func (e *Engine) Waits(ctx context.Context, a *Attempt) {
	if a == nil {
		return
	}
	span := e.Span(ctx, a, tracing.SpanPermitWait)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.step, a.refused, a.wait = stepWaiting, false, span
}

// Binding says that the Binding of the pod is about to be sent: a wait at Permit is over.
func (a *Attempt) Binding(pod *v1.Pod, node string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	wait := a.wait
	a.step, a.wait = stepBinding, tracing.Span{}
	a.mu.Unlock()
	if wait.On() {
		wait.End(tracing.Details{Namespace: pod.Namespace, Pod: pod.Name, Node: node, Outcome: tracing.OutcomeSuccess})
	}
}

// Stood says where the gang had the pod when it was rolled back: whether it had rejected it, or had let it go.
func (a *Attempt) Stood(stage gang.Stage) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case stage == gang.StageLeaving:
		a.refused = true
	case stage == gang.StageAdmitted && a.step == stepWaiting:
		a.step = stepPermitted
	}
}

// end ends the attempt of a pod that is not bound. It returns how far it had come, stepOver if it had ended before.
func (a *Attempt) end() progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.progress
	if a.step != stepBound {
		a.step = stepOver
	}
	a.wait = tracing.Span{}
	return at
}
