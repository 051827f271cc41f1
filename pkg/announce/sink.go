package announce

import (
	"context"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Sink writes events to another sink, each in its turn. The methods are those of events.EventSink; their errors are that
// sink's, or of a context that ended before it was the event's turn.
type Sink struct {
	events.EventSink
	Line *Line
}

// Create writes a new event.
func (s *Sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if err := s.Line.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.Line.Leave()
	return s.EventSink.Create(ctx, event)
}

// Update replaces an event.
func (s *Sink) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	if err := s.Line.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.Line.Leave()
	return s.EventSink.Update(ctx, event)
}

// Patch adds to an event that was written before.
func (s *Sink) Patch(ctx context.Context, old *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	if err := s.Line.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.Line.Leave()
	return s.EventSink.Patch(ctx, old, data)
}

// profile is a profile of a scheduler that has another recorder.
type profile struct {
	framework.Framework

	recorder events.EventRecorderLogger
}

// Profile returns the profile with another recorder for what the scheduler itself says of its pods.
func Profile(f framework.Framework, recorder events.EventRecorderLogger) framework.Framework {
	return &profile{f, recorder}
}

// EventRecorder returns the other recorder.
func (p *profile) EventRecorder() events.EventRecorderLogger { return p.recorder }
