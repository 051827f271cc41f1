package tracing

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// The names of the spans.
const (
	SpanPlan       = "plan"
	SpanReserve    = "reserve"
	SpanPermitWait = "permit wait"
	SpanBind       = "bind"
	SpanRollback   = "rollback"
)

// scope is the instrumentation scope of all spans.
const scope = "github.com/gputopology/gpu-topology-scheduler"

// Tracer makes spans. A nil Tracer is off. Safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

// New returns a tracer that sends to the exporter from one goroutine, by a queue of so many spans. Shutdown ends it.
func New(exporter sdktrace.SpanExporter, size int, options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(newQueue(exporter, size)))...)
	return &Tracer{tracer: provider.Tracer(scope), provider: provider}
}

// Shutdown sends what is queued, as long as ctx lasts, and ends the goroutine. Spans that end later are lost.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Trail joins spans to one trace: the first one is the parent of the others. The zero value is one without spans. Safe for
// concurrent use.
type Trail struct {
	root atomic.Pointer[trace.SpanContext]
}

// Span is one that has begun. The zero value is that of a tracer that is off. Only one goroutine may use it.
type Span struct{ span trace.Span }

// Start begins a span of the trail. It is the child of the trail's first span; the first one is the child of the span that
// ctx carries, if any. A nil trail is one of its own.
func (t *Tracer) Start(ctx context.Context, trail *Trail, name string) Span {
	if t == nil {
		return Span{}
	}
	return t.start(ctx, trail, name)
}

func (t *Tracer) start(ctx context.Context, trail *Trail, name string) Span {
	if trail != nil {
		if root := trail.root.Load(); root != nil {
			ctx = trace.ContextWithSpanContext(ctx, *root)
		}
	}
	_, span := t.tracer.Start(ctx, name)
	if trail != nil && trail.root.Load() == nil {
		at := span.SpanContext()
		trail.root.CompareAndSwap(nil, &at)
	}
	return Span{span}
}

// Details are what is known of a span at its end. Empty ones are left out.
type Details struct {
	// Namespace and Pod name the pod, Node the node that it is about.
	Namespace, Pod, Node string
	// Gang is the PodGroup as "namespace/name", Plan the name of the plan.
	Gang, Plan string
	// Cards are the cards that it is about.
	Cards []allocate.CardShare
	// Outcome is one word, Stage how far the pod had come.
	Outcome, Stage string
	// Err is why it failed, nil if it did not.
	Err error
}

// Outcomes of spans that succeed or fail.
const (
	OutcomeSuccess = "success"
	OutcomeFailed  = "failed"
)

// Because sets the outcome by an error, nil for success.
func (d Details) Because(err error) Details {
	d.Outcome, d.Err = OutcomeSuccess, err
	if err != nil {
		d.Outcome = OutcomeFailed
	}
	return d
}

// On reports whether anybody will see the span. Ask it before the details are put together: that takes longer than all else
// where the tracer is off.
func (s Span) On() bool { return s.span != nil }

// End ends the span. Call it with no lock held, at most once.
func (s Span) End(d Details) {
	if s.span != nil {
		s.end(&d)
	}
}

func (s Span) end(d *Details) {
	if s.span.IsRecording() {
		s.span.SetAttributes(d.attributes()...)
		if d.Err != nil {
			s.span.SetStatus(codes.Error, d.Err.Error())
		}
	}
	s.span.End()
}

// The keys of the attributes. The first three are those of OpenTelemetry's conventions for Kubernetes.
const (
	keyNamespace = attribute.Key("k8s.namespace.name")
	keyPod       = attribute.Key("k8s.pod.name")
	keyNode      = attribute.Key("k8s.node.name")
	keyGang      = attribute.Key("gputopology.gang")
	keyPlan      = attribute.Key("gputopology.plan")
	keyCards     = attribute.Key("gputopology.cards")
	keyOutcome   = attribute.Key("gputopology.outcome")
	keyStage     = attribute.Key("gputopology.stage")
)

func (d *Details) attributes() []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 8)
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{
		{keyNamespace, d.Namespace}, {keyPod, d.Pod}, {keyNode, d.Node}, {keyGang, d.Gang}, {keyPlan, d.Plan},
		{keyOutcome, d.Outcome}, {keyStage, d.Stage},
	} {
		if a.value != "" {
			out = append(out, a.key.String(a.value))
		}
	}
	if len(d.Cards) > 0 {
		cards := make([]int, len(d.Cards))
		for i := range d.Cards {
			cards[i] = d.Cards[i].Index
		}
		out = append(out, keyCards.IntSlice(cards))
	}
	return out
}
