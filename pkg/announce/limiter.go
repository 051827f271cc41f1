package announce

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// limitBinding is how many events are written at a time while Bindings are open, limitIdle how many else.
	limitBinding, limitIdle = 1, 16
	// maxDelay is how long an event waits for others at the most. One that waits takes a goroutine and itself, about 10 KiB, so it
	// bounds their memory too: to 20 MiB where 700 pods a second are bound.
	maxDelay = 3 * time.Second
)

// Limiter lets callers through in the order in which they reach it: one at a time while busy says so, else up to limitIdle, and
// whoever has waited for maxDelay. Safe for concurrent use.
type Limiter struct {
	busy func() bool

	mu sync.Mutex
	// writing is how many are through and not done; waiting has for each that is not, in order, what is closed when it is.
	writing int
	waiting []chan struct{}
}

// NewLimiter returns a Limiter that nobody has reached. busy is called with the Limiter's lock held, whenever one comes or is done.
func NewLimiter(busy func() bool) *Limiter { return &Limiter{busy: busy} }

// Acquire returns nil when the caller may go on; then Release must follow. An error is that of a context that ended before.
func (l *Limiter) Acquire(ctx context.Context) error {
	turn := make(chan struct{})
	l.mu.Lock()
	l.waiting = append(l.waiting, turn)
	l.admit()
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
	l.admit()
}

// admit lets through who may go. It is called with mu held.
func (l *Limiter) admit() {
	for len(l.waiting) > 0 && l.writing < l.limit() {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.writing++
	}
}

func (l *Limiter) limit() int {
	if l.busy() {
		return limitBinding
	}
	return limitIdle
}
