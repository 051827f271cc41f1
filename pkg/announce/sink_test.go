package announce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// notebook is a sink that counts.
type notebook struct {
	err error
	// step is received from before each write ends; nil for at once.
	step chan struct{}

	mu        sync.Mutex
	now, most int
	written   map[string]int
	calls     []string
	wrote     chan struct{}
}

func (n *notebook) write(call string, e *eventsv1.Event) (*eventsv1.Event, error) {
	n.mu.Lock()
	n.now++
	n.most = max(n.most, n.now)
	n.calls = append(n.calls, call)
	n.mu.Unlock()
	if n.step != nil {
		<-n.step
	}
	n.mu.Lock()
	n.now--
	n.written[e.Note]++
	n.mu.Unlock()
	if n.wrote != nil {
		n.wrote <- struct{}{}
	}
	return e, n.err
}

func (n *notebook) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return n.write("create", e)
}

func (n *notebook) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return n.write("update", e)
}

func (n *notebook) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return n.write("patch", e)
}

// TestSinkTakesTurns: every way to write takes a turn, gives it back whatever comes of it, and does not write without one.
func TestSinkTakesTurns(t *testing.T) {
	refused := errors.New("refused")
	writes := map[string]func(s *Sink, ctx context.Context) error{
		"create": func(s *Sink, ctx context.Context) error { _, err := s.Create(ctx, &eventsv1.Event{}); return err },
		"update": func(s *Sink, ctx context.Context) error { _, err := s.Update(ctx, &eventsv1.Event{}); return err },
		"patch":  func(s *Sink, ctx context.Context) error { _, err := s.Patch(ctx, &eventsv1.Event{}, nil); return err },
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			n := &notebook{err: refused, written: map[string]int{}}
			s := &Sink{To: n, Limiter: NewLimiter(func() bool { return false })}
			for range limit + 1 { // a turn that is kept would stop the second
				if err := write(s, t.Context()); !errors.Is(err, refused) {
					t.Fatalf("error %v, want the sink's", err)
				}
			}
			s.Limiter.busy = func() bool { return true }
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := write(s, ended); !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v, want that of the context", err)
			}
			if len(n.calls) != limit+1 || n.calls[0] != name {
				t.Fatalf("calls %v", n.calls)
			}
		})
	}
}

// TestEventsBehindBindings: what a recorder says of many pods while Bindings are open is written when none is, all of it, once.
func TestEventsBehindBindings(t *testing.T) {
	const pods = 50
	n := &notebook{written: map[string]int{}, step: make(chan struct{}), wrote: make(chan struct{}, pods)}
	var open atomic.Bool
	open.Store(true)
	looks := make(chan struct{}, 1<<16)
	busy := func() bool {
		looks <- struct{}{}
		return open.Load()
	}
	broadcaster := events.NewBroadcaster(&Sink{To: n, Limiter: NewLimiter(busy)})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(scheme.Scheme, "gpu-topology-scheduler")
	for i := range pods {
		name := fmt.Sprintf("p-%d", i)
		recorder.Eventf(kit.Pod("ns", name, kit.UID(name)), nil, v1.EventTypeNormal, "Scheduled", "Binding", "%s is bound", name)
	}
	for range pods { // each is looked at when it comes
		<-looks
	}
	n.mu.Lock()
	if len(n.calls) > 0 {
		t.Errorf("%d events were written while Bindings were open", len(n.calls))
	}
	n.mu.Unlock()
	open.Store(false)
	for range pods {
		n.step <- struct{}{}
		<-n.wrote
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.most > limit {
		t.Errorf("%d were written at a time, want no more than %d", n.most, limit)
	}
	for i := range pods {
		if note := fmt.Sprintf("p-%d is bound", i); n.written[note] != 1 {
			t.Errorf("%q was written %d times", note, n.written[note])
		}
	}
}

// said is a recorder that keeps the last reason.
type said struct {
	events.EventRecorderLogger

	reason string
}

func (s *said) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) { s.reason = reason }

// named is a profile that has a name and nothing else.
type named struct{ framework.Framework }

func (named) ProfileName() string { return "mine" }

func TestWithRecorder(t *testing.T) {
	recorder := &said{}
	p := WithRecorder(named{}, recorder)
	p.EventRecorder().Eventf(nil, nil, v1.EventTypeNormal, "Scheduled", "Binding", "")
	if recorder.reason != "Scheduled" || p.ProfileName() != "mine" {
		t.Errorf("the recorder heard %q, the profile is %q", recorder.reason, p.ProfileName())
	}
}
