package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// recorder keeps the notes it is given; it waits for gate where there is one.
type recorder struct {
	gate  chan struct{}
	mu    sync.Mutex
	notes []string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	if r.gate != nil {
		<-r.gate
	}
	name := "no pod"
	if pod, ok := regarding.(*v1.Pod); ok {
		name = pod.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf("%s %s %s %s: %s", kind, name, reason, action, fmt.Sprintf(note, args...)))
}

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.notes...)
}

func dropped(t *testing.T) float64 {
	t.Helper()
	metrics.Register()
	n, err := testutil.GetCounterMetricValue(metrics.ReportsDropped)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReportIsSilentUntilPlacing: only the replica that schedules sends events.
func TestReportIsSilentUntilPlacing(t *testing.T) {
	e := New(Options{})
	pod := kit.Pod("ns", "p")
	e.Report(pod, "Reason", "Action", "before")
	if got := len(e.reports.queue); got != 0 {
		t.Fatalf("%d reports are queued by a replica that does not schedule", got)
	}
	e.Placing()
	e.Report(pod, "Reason", "Action", "after")
	if got := len(e.reports.queue); got != 1 {
		t.Errorf("%d reports are queued, want 1", got)
	}
}

// TestReportQueueIsBounded: nobody takes from the queue, and Report returns all the same.
func TestReportQueueIsBounded(t *testing.T) {
	e := New(Options{})
	e.Placing()
	before := dropped(t)
	const over = 5
	for i := range reportLimit + over {
		e.Report(kit.Pod("ns", "p"), "Reason", "Action", fmt.Sprint(i))
	}
	if got := len(e.reports.queue); got != reportLimit {
		t.Errorf("%d reports are queued, want %d", got, reportLimit)
	}
	if got := dropped(t) - before; got != over {
		t.Errorf("%v drops are counted, want %d", got, over)
	}
}

// TestReportDoesNotWaitForTheRecorder: the recorder hangs, reports are taken, and they arrive in order once it goes on.
func TestReportDoesNotWaitForTheRecorder(t *testing.T) {
	b := newBench(t, clock.RealClock{})
	blocked := &recorder{gate: make(chan struct{})}
	if err := b.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil { // the loop of Start has no recorder
		t.Fatal(err)
	}
	b.reports.recorder = blocked
	var running sync.WaitGroup
	running.Go(func() { b.reports.run(b.ctx) })
	b.Placing()
	pod := kit.Pod("ns", "p")
	for i := range 3 {
		b.Report(pod, "Reason", "Action", fmt.Sprint(i))
	}
	if got := blocked.seen(); len(got) != 0 {
		t.Fatalf("the recorder was to hang and has %q", got)
	}
	close(blocked.gate)
	want := []string{"Warning p Reason Action: 0", "Warning p Reason Action: 1", "Warning p Reason Action: 2"}
	eventually(b.ctx, t, "all reports arrive", func() bool { return len(blocked.seen()) == len(want) })
	if d := cmp.Diff(want, blocked.seen()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestCut(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"short":                      {"abc", "abc"},
		"exactly the limit":          {strings.Repeat("a", 16), strings.Repeat("a", 16)},
		"one over":                   {strings.Repeat("a", 17), strings.Repeat("a", 13) + "..."},
		"never inside a character":   {"12345678901Ωäöü", "12345678901Ω..."},
		"inside a character, undone": {"123456789012Ωäöü", "123456789012..."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := cut(tt.in, 16)
			if got != tt.want || !utf8.ValidString(got) {
				t.Errorf("cut(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}
