package announce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// crowd are callers of one Limiter, by the order in which they came.
type crowd struct {
	limiter *Limiter
	busy    atomic.Bool
	came    int
	leave   map[int]chan struct{}
	cancel  map[int]context.CancelFunc
	events  chan report
	// in are those that are through, in the order of their turns; out are those whose context ended.
	in, out, done []int
}

type report struct {
	who int
	err error
}

func newCrowd() *crowd {
	c := &crowd{leave: map[int]chan struct{}{}, cancel: map[int]context.CancelFunc{}, events: make(chan report, 100000)}
	c.limiter = NewLimiter(c.busy.Load)
	return c
}

// settle waits until nobody moves any more and notes what happened.
func (c *crowd) settle() {
	synctest.Wait()
	had := len(c.in)
	defer func() { slices.Sort(c.in[had:]) }() // those who were let through at one time may say so in any order
	for {
		select {
		case e := <-c.events:
			if e.err != nil {
				c.out = append(c.out, e.who)
			} else {
				c.in = append(c.in, e.who)
			}
		default:
			return
		}
	}
}

// come has n more callers enter, one after the other.
func (c *crowd) come(n int) {
	for range n {
		who := c.came
		c.came++
		ctx, cancel := context.WithCancel(context.Background())
		leave := make(chan struct{})
		c.leave[who], c.cancel[who] = leave, cancel
		go func() {
			defer cancel()
			err := c.limiter.Acquire(ctx)
			c.events <- report{who, err}
			if err == nil {
				<-leave
				c.limiter.Release()
			}
		}()
		c.settle()
	}
}

// writing are those that are through and have not left.
func (c *crowd) writing() []int {
	return slices.DeleteFunc(slices.Clone(c.in), func(who int) bool { return slices.Contains(c.done, who) })
}

func (c *crowd) end(who int) {
	close(c.leave[who])
	c.done = append(c.done, who)
	c.settle()
}

// pass lets time pass.
func (c *crowd) pass(d time.Duration) {
	<-time.After(d)
	c.settle()
}

// clear ends all that is left.
func (c *crowd) clear() {
	c.busy.Store(false)
	for c.pass(recheck); len(c.writing()) > 0; {
		c.end(c.writing()[0])
	}
}

// TestLimiterWithoutBindings: a scheduler that never binds by GPUTopology writes events as kube-scheduler does.
func TestLimiterWithoutBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.come(3 * limit)
		if got := c.writing(); len(got) != 3*limit {
			t.Fatalf("%d write, want all %d", len(got), 3*limit)
		}
		c.clear()
	})
}

func TestLimiterBehindBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.busy.Store(true)
		c.come(100)
		c.pass(maxDelay / 2)
		if got := c.writing(); len(got) != 0 {
			t.Fatalf("while Bindings are open %v write", got)
		}
		c.busy.Store(false)
		c.pass(recheck)
		for most := 1; most < 2*limit; most++ {
			if got := c.writing(); len(got) != min(limit, most) {
				t.Fatalf("after %d that were written %d write, want %d", most-1, len(got), min(limit, most))
			}
			c.end(c.writing()[0])
		}
		c.busy.Store(true)
		c.end(c.writing()[0])
		if got := c.writing(); len(got) != limit-1 {
			t.Fatalf("when Bindings are open again %d write, want the %d that had begun", len(got), limit-1)
		}
		c.busy.Store(false)
		c.end(c.writing()[0])
		if got := c.writing(); len(got) != limit-2 {
			t.Fatalf("when they are not %d write, want the %d that had begun, and no more than one", len(got), limit-2)
		}
		c.clear()
		if len(c.done) != 100 {
			t.Fatalf("%d of 100 wrote", len(c.done))
		}
	})
}

// TestLimiterMaxDelay: whatever holds the limit, a burst that does not end or writes that do not, nobody waits for longer.
func TestLimiterMaxDelay(t *testing.T) {
	for name, busy := range map[string]bool{"Bindings stay open": true, "writes hang": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd()
				c.limiter.binds = true
				c.busy.Store(busy)
				through := 1
				if busy {
					through = 0
				}
				c.come(3)
				c.pass(maxDelay - time.Millisecond)
				if got := c.writing(); len(got) != through {
					t.Fatalf("%d write before the delay is over, want %d", len(got), through)
				}
				c.pass(time.Millisecond)
				if got := c.writing(); len(got) != 3 {
					t.Fatalf("%d write after it, want all", len(got))
				}
				c.come(1)
				if got := c.writing(); len(got) != 3 {
					t.Fatalf("%d write, want the next to wait", len(got))
				}
				c.clear()
				if len(c.done) != 4 {
					t.Fatalf("%d wrote", len(c.done))
				}
			})
		})
	}
}

// TestLimiterWhoGivesUp: a caller whose context ends takes no turn with it.
func TestLimiterWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.limiter.binds = true
		c.come(3)
		c.busy.Store(true)
		c.cancel[1]()
		c.settle()
		if !slices.Equal(c.out, []int{1}) {
			t.Fatalf("%v gave up, want the second", c.out)
		}
		c.busy.Store(false)
		c.end(0)
		if got := c.writing(); !slices.Equal(got, []int{2}) {
			t.Fatalf("%v write, want the third", got)
		}
		c.clear()
	})
}

func TestLimiterErrorIsTheContexts(t *testing.T) {
	limiter := NewLimiter(func() bool { return true })
	why := errors.New("the process ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := limiter.Acquire(ctx); !errors.Is(err, why) {
		t.Fatalf("error %v, want %v", err, why)
	}
}

// TestLimiterRandom: whoever comes, leaves and gives up, and whenever Bindings are open, turns come in order, nobody gets one while
// Bindings are open but by waiting for long, no more write than may, and nobody waits while nobody writes and no Binding is open.
func TestLimiterRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 10), 1, 60).Draw(rt, "steps")
		who := rapid.SliceOfN(rapid.IntRange(0, 1000), len(steps), len(steps)).Draw(rt, "who")
		fault := ""
		synctest.Test(t, func(*testing.T) {
			c := newCrowd()
			defer c.clear()
			c.limiter.binds = true
			spent := time.Duration(0)
			for i, step := range steps {
				before := len(c.writing())
				switch writing := c.writing(); {
				case step < 4:
					c.come(1 + who[i]%3)
				case step < 7 && len(writing) > 0:
					c.end(writing[who[i]%len(writing)])
				case step == 7 && c.came > 0:
					c.cancel[who[i]%c.came]()
					c.settle()
				case step == 8:
					c.pass(recheck)
					spent += recheck
				case step > 8:
					c.busy.Store(!c.busy.Load())
				}
				if wrong := c.check(before, step > 8); wrong != "" {
					fault = fmt.Sprintf("step %d: %s", i, wrong)
				}
				if fault != "" || spent > maxDelay-2*recheck {
					return
				}
			}
			c.clear()
			if len(c.done)+len(c.out) != c.came {
				fault = fmt.Sprintf("%d came, %d wrote, %d gave up", c.came, len(c.done), len(c.out))
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// check says what is wrong after a step, before which so many wrote; nobody has waited for maxDelay.
func (c *crowd) check(before int, toggled bool) string {
	now, waiting := len(c.writing()), c.came-len(c.in)-len(c.out)
	switch {
	case !slices.IsSorted(c.in):
		return fmt.Sprintf("turns in the order %v", c.in)
	case now > limit || c.busy.Load() && now > before:
		return fmt.Sprintf("%d write, %d did before, busy %v", now, before, c.busy.Load())
	case now == 0 && waiting > 0 && !c.busy.Load() && !toggled:
		c.pass(recheck)
		if len(c.writing()) == 0 {
			return fmt.Sprintf("%d wait, nobody writes and no Binding is open", waiting)
		}
	}
	return ""
}
