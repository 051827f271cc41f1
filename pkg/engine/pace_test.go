package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// paced returns how long Pace takes with so many Bindings open, of which one ends each time after so long; 0 is never.
func paced(t *testing.T, open int, every, cancel time.Duration) (took time.Duration, left int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Clock: clock.RealClock{}})
		ctx, stop := context.WithCancel(t.Context())
		for range open {
			e.pace.begin()
		}
		var binds sync.WaitGroup
		binds.Go(func() {
			for every > 0 && ctx.Err() == nil && e.pace.open.Load() > 0 {
				time.Sleep(every)
				e.pace.end()
			}
		})
		if cancel > 0 {
			time.AfterFunc(cancel, stop)
		}
		began := time.Now()
		e.Pace(ctx)
		took, left = time.Since(began), e.pace.open.Load()
		stop()
		binds.Wait()
	})
	return took, left
}

func TestPace(t *testing.T) {
	metrics.Register()
	const ms = time.Millisecond
	tests := map[string]struct {
		open          int
		every, cancel time.Duration
		want          time.Duration
		wantLeft      int32
	}{
		"nothing open":                        {want: 0},
		"no more than may be":                 {open: bindsAhead, every: ms, want: 0, wantLeft: bindsAhead},
		"two more":                            {open: bindsAhead + 2, every: 3 * ms, want: 6 * ms, wantLeft: bindsAhead},
		"a gang of 100":                       {open: bindsAhead + 100, every: 5 * ms, want: 500 * ms, wantLeft: bindsAhead},
		"each as slow as is waited for":       {open: bindsAhead + 5, every: paceStall - ms, want: 5 * (paceStall - ms), wantLeft: bindsAhead},
		"an API server that does not answer":  {open: bindsAhead + 1, want: paceStall, wantLeft: bindsAhead + 1},
		"more than can be waited for":         {open: bindsAhead + 1000, every: 7 * ms, want: paceMost, wantLeft: bindsAhead + 1000 - 142},
		"the scheduler stops in the meantime": {open: bindsAhead + 1, cancel: 9 * ms, want: 9 * ms, wantLeft: bindsAhead + 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, err := testutil.GetCounterMetricValue(metrics.PacedSeconds)
			if err != nil {
				t.Fatal(err)
			}
			took, left := paced(t, tt.open, tt.every, tt.cancel)
			if took != tt.want || left != tt.wantLeft {
				t.Errorf("waited for %v with %d open at the end, want %v and %d", took, left, tt.want, tt.wantLeft)
			}
			after, err := testutil.GetCounterMetricValue(metrics.PacedSeconds)
			if got := time.Duration((after - before) * float64(time.Second)).Round(ms); err != nil || got != tt.want {
				t.Errorf("counted %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestBindIsCounted: a Binding is open from the call of Bind to its return, whatever comes of it.
func TestBindIsCounted(t *testing.T) {
	b := newBench(t, clocktesting.NewFakeClock(time.Now()))
	var during int32
	if b.pace.open.Store(bindsQueued); b.pace.queued() {
		t.Error("a gang of 8 is a queue")
	}
	if b.pace.open.Store(bindsQueued + 1); !b.pace.queued() {
		t.Error("9 Bindings are no queue")
	}
	b.pace.open.Store(0)
	b.server.onPost = func(s *server, _ int, _ *v1.Binding) error {
		during = b.pace.open.Load()
		return errLost
	}
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); err == nil {
		t.Error("the answer was lost, and Bind returns nil")
	}
	if got := b.pace.open.Load(); during != 1 || got != 0 {
		t.Errorf("%d open meanwhile and %d after it, want 1 and 0", during, got)
	}
	canceled, cancel := context.WithCancel(b.ctx)
	cancel()
	for range bindsInFlight {
		b.binds <- struct{}{}
	}
	if err := b.Bind(canceled, b.handle, b.binding, b.holding.Cards); err == nil || b.pace.open.Load() != 0 {
		t.Errorf("%v, %d open", err, b.pace.open.Load())
	}
}
