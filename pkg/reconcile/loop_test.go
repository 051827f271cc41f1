package reconcile

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

// runner is a world whose loop runs.
type runner struct {
	*world
	t *testing.T
}

func run(t *testing.T, w *world) *runner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	r := &runner{w, t}
	r.idle()
	return r
}

// idle waits until the loop waits for the clock.
func (r *runner) idle() {
	r.t.Helper()
	r.until("the loop waits for the clock", r.clock.HasWaiters)
}

func (r *runner) until(what string, ok func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// step moves the clock and waits until there were so many sweeps.
func (r *runner) step(d time.Duration, sweeps int64) {
	r.t.Helper()
	r.clock.Step(d)
	r.until("a sweep ends", func() bool { return r.Last().Sweeps >= sweeps })
	r.idle()
	if got := r.Last().Sweeps; got != sweeps {
		r.t.Errorf("%d sweeps, want %d", got, sweeps)
	}
}

const longest = period + period/jitterPart

func TestRunSweepsEveryPeriod(t *testing.T) {
	r := run(t, newWorld(t, observe.Options{}))
	r.step(period-1, 0)
	r.step(longest-period+1, 1)
	for n := range int64(3) {
		r.step(period-1, 1+n)
		r.step(longest-period+1, 2+n)
	}
}

// TestRunConfirmsSoon: a sweep that suspects something is followed by the next after confirmAfter, and one that does not is not.
func TestRunConfirmsSoon(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.sweep()
	w.must(w.Ledger.Adopt(holding("p", "n1", 0)))
	r := run(t, w)
	r.step(longest, 2)
	r.step(confirmAfter-1, 2)
	r.step(1, 3)
	if got := w.free("n1"); got != 8 {
		t.Errorf("%d cards are free, want 8", got)
	}
	r.step(confirmAfter, 3)
}

// TestKick: one sweep soon, however many kicks, and the next ones when they were due after it.
func TestKick(t *testing.T) {
	r := run(t, newWorld(t, observe.Options{}))
	for range 100 {
		r.Kick()
	}
	r.until("the kicks are taken", func() bool { return len(r.kick) == 0 })
	// The loop may not have set its timer yet: the clock goes on in steps until it has.
	r.until("a sweep ends", func() bool { r.clock.Step(kickDelay); return r.Last().Sweeps > 0 })
	if since := r.clock.Since(start); since >= period {
		t.Errorf("the sweep came after %s, when it was due anyway", since)
	}
	r.idle()
	if got := r.Last().Sweeps; got != 1 {
		t.Errorf("%d sweeps after 100 kicks, want 1", got)
	}
	r.step(longest, 2)
}

// TestKickNeverDelays: a sweep that is due sooner than the kick's stays where it is.
func TestKickNeverDelays(t *testing.T) {
	r := run(t, newWorld(t, observe.Options{}))
	jitter := rand.New(rand.NewPCG(1, 0))
	due := period + time.Duration(jitter.Int64N(int64(period)/jitterPart+1))
	r.step(due-1, 0)
	r.Kick()
	r.until("the kick is taken", func() bool { return len(r.kick) == 0 })
	r.step(1, 1)
}

// TestNoSweepBeforeSync: all that has not been heard of yet would be missing.
func TestNoSweepBeforeSync(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.synced = false
	r := run(t, w)
	r.step(longest, 0)
	r.step(longest, 0)
	w.mu.Lock()
	w.synced = true
	w.mu.Unlock()
	r.step(longest, 1)
}

// TestJitter: from the period to a tenth more, not always the same, and the same for the same seed.
func TestJitter(t *testing.T) {
	l := New(Options{Period: period})
	seen := map[time.Duration]bool{}
	a, b := rand.New(rand.NewPCG(7, 0)), rand.New(rand.NewPCG(7, 0))
	for range 1000 {
		d := l.wait(a, 0)
		if d < period || d > longest {
			t.Fatalf("%s is not within %s and %s", d, period, longest)
		}
		if again := l.wait(b, 0); again != d {
			t.Fatalf("%s and %s from one seed", d, again)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("%d different waits of 1000", len(seen))
	}
	if d := l.wait(a, 1); d != confirmAfter {
		t.Errorf("%s with a suspicion, want %s", d, confirmAfter)
	}
	l.Period = time.Second
	if d := l.wait(a, 1); d > time.Second+time.Second/jitterPart {
		t.Errorf("%s with a suspicion and a period of 1s", d)
	}
}
