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

// opens returns the number of open Bindings.
func (p *pace) opens() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// pacing is how Bindings end while Pace waits: the first of so many after so long, and so on.
type pacing struct {
	open, ends int
	members    int
	every      time.Duration
	cancel     time.Duration // 0 is never
}

// paced returns how long Pace takes, and how many Bindings are open at the end.
func paced(t *testing.T, p pacing) (took time.Duration, left int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Clock: clock.RealClock{}})
		ctx, stop := context.WithCancel(t.Context())
		e.pace.add(p.open)
		var binds sync.WaitGroup
		binds.Go(func() {
			for i := 0; i < p.ends && ctx.Err() == nil; i++ {
				<-time.After(p.every)
				e.pace.end()
			}
		})
		if p.cancel > 0 {
			time.AfterFunc(p.cancel, stop)
		}
		began := time.Now()
		e.Pace(ctx, p.members)
		took, left = time.Since(began), e.pace.opens()
		stop()
		binds.Wait()
	})
	return took, left
}

func TestPace(t *testing.T) {
	metrics.Register()
	const ms = time.Millisecond
	tests := map[string]struct {
		pacing
		want     time.Duration
		wantLeft int
	}{
		"nothing open":                       {pacing{}, 0, 0},
		"no more than may be":                {pacing{open: bindsAhead, ends: 9, every: ms}, 0, bindsAhead},
		"two more":                           {pacing{open: bindsAhead + 2, ends: 9, every: 3 * ms}, 6 * ms, bindsAhead},
		"a gang of 80":                       {pacing{open: bindsAhead + 80, ends: 99, every: 5 * ms}, 400 * ms, bindsAhead},
		"each as slow as is waited for":      {pacing{open: bindsAhead + 5, ends: 9, every: paceStall - ms}, 5 * (paceStall - ms), bindsAhead},
		"an API server that does not answer": {pacing{open: bindsAhead + 1}, paceStall, bindsAhead + 1},
		"one that answers no more":           {pacing{open: bindsAhead + 5, ends: 3, every: ms}, 3*ms + paceStall, bindsAhead + 2},
		"more than can be waited for":        {pacing{open: bindsAhead + 1000, ends: 1000, every: 7 * ms}, paceMost, bindsAhead + 1000 - 71},
		"a gang of 16":                       {pacing{open: 16, members: 16}, 0, 16},
		"a gang of 20 lets one such pass":    {pacing{open: 22, members: 20, ends: 9, every: ms}, 2 * ms, 20},
		"a gang of 500 waits for as many as can be under way": {pacing{open: bindsInFlight + 3, members: 500, ends: 9, every: ms}, 3 * ms, bindsInFlight},
		"the scheduler stops in the meantime":                 {pacing{open: bindsAhead + 1, cancel: 9 * ms}, 9 * ms, bindsAhead + 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, err := testutil.GetCounterMetricValue(metrics.PacedSeconds)
			if err != nil {
				t.Fatal(err)
			}
			took, left := paced(t, tt.pacing)
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

// TestBindingsThatHangAreWaitedForOnce: after that, gangs wait for each other's Bindings alone. When those that hung end, as many
// may be open as ever.
func TestBindingsThatHangAreWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Clock: clock.RealClock{}})
		wait := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if e.Pace(t.Context(), 8); time.Since(began) != want {
				t.Errorf("waited for %v, want %v", time.Since(began), want)
			}
		}
		const hung = bindsAhead + 8
		e.pace.add(hung)
		wait(paceStall)
		for range 100 {
			wait(0)
			e.pace.begin()
			e.pace.end()
		}
		e.pace.add(3)
		time.AfterFunc(time.Millisecond, func() { e.pace.add(-3) })
		wait(time.Millisecond)
		e.pace.add(-hung)
		e.pace.add(bindsAhead)
		wait(0)
		e.pace.begin()
		time.AfterFunc(time.Millisecond, e.pace.end)
		wait(time.Millisecond)
	})
}

// TestFollowersCount: the members that follow one on its way count as open until it has arrived, and once.
func TestFollowersCount(t *testing.T) {
	e := New(Options{Clock: clocktesting.NewFakeClock(time.Now())})
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { e.Led("a") }, 0},
		{func() { e.Leads("a", 0) }, 0},
		{func() { e.Leads("a", 7) }, 7},
		{func() { e.Leads("b", 3) }, 10},
		{func() { e.Leads("a", 5) }, 8},
		{func() { e.Led("a") }, 3},
		{func() { e.Led("a") }, 3},
		{func() { e.Led("b") }, 0},
	} {
		if step.do(); e.pace.open != step.want || len(e.pace.led) > 2 || e.BindingsOpen() != (step.want > 0) {
			t.Errorf("step %d: %d open, want %d; %v; any: %v", i, e.pace.open, step.want, e.pace.led, e.BindingsOpen())
		}
	}
	if len(e.pace.led) != 0 {
		t.Errorf("%v is left", e.pace.led)
	}
}

// TestBindIsCounted: a Binding is open from the call of Bind to its return, whatever comes of it, also while it waits for others.
func TestBindIsCounted(t *testing.T) {
	b := newBench(t, clocktesting.NewFakeClock(time.Now()))
	opens := b.pace.opens
	during := 0
	b.server.onPost = func(*server, int, *v1.Binding) error {
		during = opens()
		return errLost
	}
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); err == nil {
		t.Error("the answer was lost, and Bind returns nil")
	}
	if during != 1 || opens() != 0 {
		t.Errorf("%d open meanwhile and %d after it, want 1 and 0", during, opens())
	}
	ctx, cancel := context.WithCancel(b.ctx)
	for range bindsInFlight {
		b.binds <- struct{}{}
	}
	ended := make(chan error)
	go func() { ended <- b.Bind(ctx, b.handle, b.binding, b.holding.Cards) }()
	eventually(b.ctx, t, "the Binding that waits is open", func() bool { return opens() == 1 })
	cancel()
	if err := <-ended; err == nil || opens() != 0 {
		t.Errorf("%v, %d open", err, opens())
	}
}

// TestBindingsOpen: Bindings that do not end, and are not waited for any more, do not hold anything else back either.
func TestBindingsOpen(t *testing.T) {
	e := New(Options{Clock: clocktesting.NewFakeClock(time.Now())})
	e.pace.add(bindsAhead + 2)
	e.pace.giveUp(0)
	if e.BindingsOpen() {
		t.Error("Bindings that were given up are open")
	}
	e.pace.begin()
	if !e.BindingsOpen() {
		t.Error("a new one beside them is not")
	}
}

func TestQueued(t *testing.T) {
	p := newPace()
	for n, want := range map[int]bool{0: false, bindsQueued: false, bindsQueued + 1: true} {
		p.add(n)
		if got := p.queued(); got != want {
			t.Errorf("%d open: queued is %t", n, got)
		}
		p.add(-n)
	}
}
