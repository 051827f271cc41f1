package engine

import (
	"context"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// reportLimit bounds the queue of unsent events: enough for a burst over a few thousand nodes, about 1 MiB.
const reportLimit = 4096

// maxNote is the longest note the events API accepts, in bytes.
const maxNote = 1024

type report struct {
	regarding              runtime.Object
	reason, action, detail string
}

// reportQueue sends events from one goroutine. Whoever has something to report never waits for the API server.
type reportQueue struct {
	queue    chan report
	recorder events.EventRecorderLogger
}

func newReportQueue() *reportQueue {
	return &reportQueue{queue: make(chan report, reportLimit)}
}

func (q *reportQueue) add(r report) {
	select {
	case q.queue <- r:
	default:
		metrics.ReportsDropped.Inc()
	}
}

func (q *reportQueue) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-q.queue:
			if q.recorder != nil {
				q.recorder.Eventf(r.regarding, nil, v1.EventTypeWarning, r.reason, r.action, "%s", cut(r.detail, maxNote))
			}
		}
	}
}

// cut shortens s to at most limit bytes, and never leaves a part of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len("...")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}

// Report queues a warning event about a node or pod. It never blocks. A replica that does not schedule stays silent:
// the one that does sees the same objects.
func (e *Engine) Report(regarding runtime.Object, reason, action, detail string) {
	if e.placing.Load() {
		e.reports.add(report{regarding: regarding, reason: reason, action: action, detail: detail})
	}
}
