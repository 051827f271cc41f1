package tracing

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept keeps the spans after the end, which the in-memory exporter does not.
type kept struct{ *tracetest.InMemoryExporter }

func (kept) Shutdown(context.Context) error { return nil }

func inMemory(t testing.TB, options ...sdktrace.TracerProviderOption) (*Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	memory := tracetest.NewInMemoryExporter()
	return New(kept{memory}, 64, options...), memory
}

func shutdown(t testing.TB, tracer *Tracer) {
	t.Helper()
	if err := tracer.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestTrail: the spans of one trail are one trace below the first of them; another trail is another trace.
func TestTrail(t *testing.T) {
	tracer, memory := inMemory(t)
	var one, other Trail
	plan := tracer.Start(t.Context(), &one, SpanPlan)
	plan.End(Details{})
	tracer.Start(t.Context(), &one, SpanReserve).End(Details{})
	tracer.Start(t.Context(), &other, SpanReserve).End(Details{})
	tracer.Start(t.Context(), &one, SpanBind).End(Details{})
	tracer.Start(t.Context(), nil, SpanRollback).End(Details{})
	shutdown(t, tracer)
	spans := memory.GetSpans()
	if len(spans) != 5 {
		t.Fatalf("%d spans, want 5", len(spans))
	}
	root := spans[0]
	if root.Parent.IsValid() {
		t.Error("the first span has a parent")
	}
	for _, i := range []int{1, 3} {
		if spans[i].Parent.SpanID() != root.SpanContext.SpanID() || spans[i].SpanContext.TraceID() != root.SpanContext.TraceID() {
			t.Errorf("span %d, %s, is not a child of the first", i, spans[i].Name)
		}
	}
	for _, i := range []int{2, 4} {
		if spans[i].Parent.IsValid() || spans[i].SpanContext.TraceID() == root.SpanContext.TraceID() {
			t.Errorf("span %d is of the first trace", i)
		}
	}
}

// TestTrailFollowsTheContext: the first span is a child of whoever called.
func TestTrailFollowsTheContext(t *testing.T) {
	tracer, memory := inMemory(t)
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	var trail Trail
	tracer.Start(trace.ContextWithSpanContext(t.Context(), caller), &trail, SpanReserve).End(Details{})
	tracer.Start(t.Context(), &trail, SpanBind).End(Details{})
	shutdown(t, tracer)
	spans := memory.GetSpans()
	if len(spans) != 2 || spans[0].Parent.SpanID() != caller.SpanID() || spans[1].SpanContext.TraceID() != caller.TraceID() {
		t.Errorf("%d spans, not of the caller's trace", len(spans))
	}
}

func TestDetails(t *testing.T) {
	tracer, memory := inMemory(t)
	cause := errors.New("no room")
	all := Details{
		Namespace: "ns", Pod: "p", Node: "n1", Gang: "ns/g", Plan: "u-1", Cards: []allocate.CardShare{{Index: 2}, {Index: 5}}, Stage: "waiting",
	}
	tracer.Start(t.Context(), nil, SpanBind).End(all.Because(cause))
	tracer.Start(t.Context(), nil, SpanBind).End(Details{}.Because(nil))
	shutdown(t, tracer)
	want := []map[string]any{{
		"k8s.namespace.name": "ns", "k8s.pod.name": "p", "k8s.node.name": "n1", "gputopology.gang": "ns/g", "gputopology.plan": "u-1",
		"gputopology.cards": []int64{2, 5}, "gputopology.outcome": OutcomeFailed, "gputopology.stage": "waiting",
	}, {"gputopology.outcome": OutcomeSuccess}}
	var got []map[string]any
	for _, span := range memory.GetSpans() {
		attributes := map[string]any{}
		for _, a := range span.Attributes {
			attributes[string(a.Key)] = a.Value.AsInterface()
		}
		got = append(got, attributes)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("attributes (-want +got):\n%s", d)
	}
	first, second := memory.GetSpans()[0].Status, memory.GetSpans()[1].Status
	if first.Code != codes.Error || first.Description != cause.Error() || second.Code != codes.Unset {
		t.Errorf("status %+v and %+v", first, second)
	}
}

// TestNotSampled: what the sampler leaves out takes no place in the queue.
func TestNotSampled(t *testing.T) {
	tracer, memory := inMemory(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	for range 1000 {
		tracer.Start(t.Context(), nil, SpanBind).End(Details{Pod: "p"})
	}
	shutdown(t, tracer)
	if got := len(memory.GetSpans()); got != 0 {
		t.Errorf("%d spans were sent", got)
	}
}

func dropped(t *testing.T, reason string) float64 {
	t.Helper()
	metrics.Register()
	n, err := testutil.GetCounterMetricValue(metrics.SpansDropped.WithLabelValues(reason))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stuck is an exporter that waits, as one does whose collector does not answer.
type stuck struct {
	entered, release chan struct{}
	err              error
}

func (s *stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	s.entered <- struct{}{}
	<-s.release
	return s.err
}

func (*stuck) Shutdown(context.Context) error { return nil }

// TestQueueIsBounded: nobody waits for a collector that hangs; what does not fit is counted, and what cannot be sent too.
func TestQueueIsBounded(t *testing.T) {
	const size, over = 8, 5
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1") // the first span is sent at once
	s := &stuck{entered: make(chan struct{}, size+over), release: make(chan struct{}), err: errors.New("unreachable")}
	tracer := New(s, size)
	full, lost := dropped(t, metrics.SpanQueueFull), dropped(t, metrics.SpanNotSent)
	tracer.Start(t.Context(), nil, SpanBind).End(Details{})
	<-s.entered
	for range size + over - 1 {
		tracer.Start(t.Context(), nil, SpanBind).End(Details{})
	}
	if got := dropped(t, metrics.SpanQueueFull) - full; got != over {
		t.Errorf("%v spans found the queue full, want %d", got, over)
	}
	close(s.release)
	shutdown(t, tracer)
	if got := dropped(t, metrics.SpanNotSent) - lost; got != size {
		t.Errorf("%v spans could not be sent, want %d", got, size)
	}
	if got := dropped(t, metrics.SpanQueueFull) - full; got != over {
		t.Errorf("%v spans found the queue full in the end, want %d", got, over)
	}
}

// TestOff: a tracer that is off does nothing, and takes no memory.
func TestOff(t *testing.T) {
	var tracer *Tracer
	var trail Trail
	ctx := t.Context()
	allocs := testing.AllocsPerRun(100, func() {
		span := tracer.Start(ctx, &trail, SpanBind)
		span.End(Details{Namespace: "ns", Pod: "p", Node: "n1", Outcome: OutcomeSuccess})
	})
	if allocs != 0 || trail.root.Load() != nil || tracer.Start(ctx, &trail, SpanBind).On() {
		t.Errorf("%v allocations, trail %v", allocs, trail.root.Load())
	}
	shutdown(t, tracer)
}

// BenchmarkOff is one call site of a tracer that is off.
func BenchmarkOff(b *testing.B) {
	var tracer *Tracer
	var trail Trail
	ctx := b.Context()
	cards := []allocate.CardShare{{Index: 1}}
	b.ReportAllocs()
	for b.Loop() {
		span := tracer.Start(ctx, &trail, SpanReserve)
		if span.On() {
			span.End(Details{Namespace: "ns", Pod: "p", Node: "n1", Gang: "ns/g", Plan: "u-1", Cards: cards}.Because(nil))
		}
	}
}

// BenchmarkOn is the same with spans, to an exporter that keeps nothing.
func BenchmarkOn(b *testing.B) {
	tracer := New(nothing{}, 1<<16)
	defer shutdown(b, tracer)
	ctx := b.Context()
	cards := []allocate.CardShare{{Index: 1}}
	b.ReportAllocs()
	for b.Loop() {
		var trail Trail
		tracer.Start(ctx, &trail, SpanReserve).End(Details{Namespace: "ns", Pod: "p", Node: "n1", Gang: "ns/g", Plan: "u-1", Cards: cards}.Because(nil))
	}
}

type nothing struct{}

func (nothing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nothing) Shutdown(context.Context) error                             { return nil }
