package announce

import (
	"context"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Sink writes events to another sink, each when the Limiter lets it through. Errors are that sink's, or of a context that ended
// before. Safe for concurrent use if that sink is.
type Sink struct {
	To      events.EventSink
	Limiter *Limiter
}

var _ events.EventSink = (*Sink)(nil)

// Create writes a new event.
func (s *Sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.write(ctx, func() (*eventsv1.Event, error) { return s.To.Create(ctx, event) })
}

// Update replaces an event.
func (s *Sink) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.write(ctx, func() (*eventsv1.Event, error) { return s.To.Update(ctx, event) })
}

// Patch adds to an event that was written before.
func (s *Sink) Patch(ctx context.Context, old *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	return s.write(ctx, func() (*eventsv1.Event, error) { return s.To.Patch(ctx, old, data) })
}

func (s *Sink) write(ctx context.Context, send func() (*eventsv1.Event, error)) (*eventsv1.Event, error) {
	if err := s.Limiter.Acquire(ctx); err != nil {
		return nil, err
	}
	defer s.Limiter.Release()
	return send()
}

// recorded is a profile of a scheduler that has another recorder.
type recorded struct {
	framework.Framework

	recorder events.EventRecorderLogger
}

// WithRecorder returns the profile with another recorder for what the scheduler itself says of its pods. What the profile's
// plugins say through their handle goes to the recorder that it has.
func WithRecorder(f framework.Framework, recorder events.EventRecorderLogger) framework.Framework {
	return &recorded{f, recorder}
}

// EventRecorder returns the other recorder.
func (r *recorded) EventRecorder() events.EventRecorderLogger { return r.recorder }
