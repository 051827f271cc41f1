package announce

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

const (
	// behind is how many events are written at a time while Bindings are open, abreast how many else.
	behind, abreast = 1, 16
	// patience is how many events may wait behind Bindings. One that waits takes a goroutine and itself, about 10 KiB.
	patience = 5000
)

// Line lets events through in the order in which they come: one at a time while busy says so and no more than patience wait,
// else up to abreast. It is safe for concurrent use.
type Line struct {
	busy     func() bool
	patience int

	mu sync.Mutex
	// writing is how many are through and not done; waiting has for each that is not, in order, what is closed when it is.
	writing int
	waiting []chan struct{}
}

// NewLine returns a Line with nobody in it. busy is called with the Line's lock held, whenever one comes or is done.
func NewLine(busy func() bool) *Line { return &Line{busy: busy, patience: patience} }

// Enter returns when it is the caller's turn; then Leave must follow. An error is that of a context that ended before.
func (l *Line) Enter(ctx context.Context) error {
	turn := make(chan struct{})
	l.mu.Lock()
	l.waiting = append(l.waiting, turn)
	l.admit()
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn:
		return nil // at the same moment: its turn counts
	default:
		at := slices.Index(l.waiting, turn)
		l.waiting = slices.Delete(l.waiting, at, at+1)
		return fmt.Errorf("wait for Bindings: %w", context.Cause(ctx))
	}
}

// Leave ends a turn.
func (l *Line) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing--
	l.admit()
}

// admit lets through who may go. It is called with mu held.
func (l *Line) admit() {
	for len(l.waiting) > 0 && l.writing < l.most() {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.writing++
	}
}

// most is how many events may be written at a time now.
func (l *Line) most() int {
	if len(l.waiting) <= l.patience && l.busy() {
		return behind
	}
	return abreast
}
