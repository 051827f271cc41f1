package announce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// limit is how many events are written at a time when no Binding has been open for a while: the first alone, then one more for
	// each that was written, since between two gangs there is none open for a moment.
	limit = 16
	// recheck is how soon it is seen that no Binding is open any more.
	recheck = 20 * time.Millisecond
	// maxDelay is how long an event waits for others at the most. One that waits takes a goroutine and itself, about 10 KiB, so it
	// bounds their memory too: to 20 MiB where 700 pods a second are bound.
	maxDelay = 3 * time.Second
)

// Limiter lets callers through in the order in which they reach it: none while busy says so, else up to limit at a time, and whoever
// has waited for maxDelay. Until busy says so for the first time, it lets all through at once, as kube-scheduler does: a process
// whose profiles do not bind by GPUTopology is one. Safe for concurrent use.
type Limiter struct {
	busy func() bool

	mu sync.Mutex
	// writing is how many are through and not done; waiting has for each that is not, in order, what is closed when it is.
	writing int
	waiting []chan struct{}
	// binds says that busy was true once, calm is how many were done since it was the last time, watching that a look at it is due,
	// after recheck.
	binds, watching bool
	calm            int
}

// NewLimiter returns a Limiter that nobody has reached. busy is called whenever one comes or is done, and every recheck while anybody
// waits.
func NewLimiter(busy func() bool) *Limiter { return &Limiter{busy: busy} }

// Acquire returns nil when the caller may go on; then Release must follow. An error is that of a context that ended before.
func (l *Limiter) Acquire(ctx context.Context) error {
	turn, busy := make(chan struct{}), l.busy()
	l.mu.Lock()
	l.waiting = append(l.waiting, turn)
	l.admit(busy)
	l.mu.Unlock()
	late := time.NewTimer(maxDelay)
	defer late.Stop()
	select {
	case <-turn:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, turn)
	if at < 0 {
		return nil // let through at the same moment
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	if ctx.Err() != nil {
		return fmt.Errorf("wait for Bindings: %w", context.Cause(ctx))
	}
	l.writing++
	return nil
}

// Release ends what Acquire began.
func (l *Limiter) Release() {
	busy := l.busy()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
	l.calm++
	l.admit(busy)
}

// admit lets through who may go, and sees to it that the rest is looked at again. It is called with mu held.
func (l *Limiter) admit(busy bool) {
	for len(l.waiting) > 0 && l.writing < l.most(busy) {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.writing++
	}
	if len(l.waiting) > 0 && !l.watching {
		l.watching = true
		time.AfterFunc(recheck, func() {
			busy := l.busy()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.watching = false
			l.admit(busy)
		})
	}
}

// most is how many may write at a time now.
func (l *Limiter) most(busy bool) int {
	switch {
	case busy:
		l.binds, l.calm = true, 0
		return 0
	case !l.binds:
		return math.MaxInt
	}
	return min(limit, 1+l.calm)
}
