package tracing

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// queue is the SDK's batch processor, with what the SDK does not tell: how many spans it drops. It admits as many as the
// processor's own queue has room for, so that the processor never has to drop one.
type queue struct {
	sdktrace.SpanProcessor
	exporter *counted
	size     int64
}

// newQueue starts the goroutine that sends to the exporter; Shutdown ends it.
func newQueue(exporter sdktrace.SpanExporter, size int) *queue {
	c := &counted{SpanExporter: exporter}
	return &queue{SpanProcessor: sdktrace.NewBatchSpanProcessor(c, sdktrace.WithMaxQueueSize(size)), exporter: c, size: int64(size)}
}

// OnEnd implements SpanProcessor. It never blocks.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.exporter.pending.Add(1) > q.size {
		q.exporter.pending.Add(-1)
		metrics.SpansDropped.WithLabelValues(metrics.SpanQueueFull).Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// counted is an exporter that tells how many spans are on their way to it.
type counted struct {
	sdktrace.SpanExporter
	pending atomic.Int64
}

// ExportSpans implements SpanExporter. A collector that cannot be reached is no error of the scheduler's.
func (c *counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer c.pending.Add(-int64(len(spans)))
	if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
		metrics.SpansDropped.WithLabelValues(metrics.SpanNotSent).Add(float64(len(spans)))
		klog.FromContext(ctx).V(2).Info("Spans could not be sent", "spans", len(spans), "err", err)
	}
	return nil
}
