package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

const (
	// bindsAhead is how many Bindings may be under way, or wait to be, before the next gang is decided. It keeps an API server
	// that answers a Binding in 20 ms busy with 1600 a second.
	bindsAhead = 32
	// bindsQueued is how many open Bindings are a queue: fewer are the members of a gang that was just let go.
	bindsQueued = 8
	// paceStall is how long Pace waits for one Binding to end, and paceMost how long it waits in all.
	paceStall = 100 * time.Millisecond
	paceMost  = time.Second
)

// pace counts Bindings.
type pace struct {
	// open is the number of calls of Bind.
	open atomic.Int32
	// ended has a token when one has returned since the last look.
	ended chan struct{}
}

func (p *pace) begin() { p.open.Add(1) }

func (p *pace) end() {
	p.open.Add(-1)
	select {
	case p.ended <- struct{}{}:
	default:
	}
}

// queued reports whether Bindings queue up.
func (p *pace) queued() bool { return p.open.Load() > bindsQueued }

// Pace waits at the end of a scheduling cycle that let a gang go, until no more than bindsAhead Bindings are open. Members of a
// gang are let go all at once, and gangs are decided faster than an API server takes their Bindings: without the wait a second's
// worth of them queues up, and whoever comes then, however high its priority, is bound behind them. What the cycle decided
// stands, and the next one begins with the pod that is first in the queue by then, and with the nodes as they are by then.
//
// It gives up after paceStall without a Binding's end, and after paceMost: an API server that does not answer must not keep
// pods from learning why they do not fit.
func (e *Engine) Pace(ctx context.Context) {
	if e.pace.open.Load() <= bindsAhead {
		return
	}
	began := e.clock.Now()
	defer func() { metrics.PacedSeconds.Add(e.clock.Since(began).Seconds()) }()
	most := e.clock.NewTimer(paceMost)
	defer most.Stop()
	stall := e.clock.NewTimer(paceStall)
	defer stall.Stop()
	for e.pace.open.Load() > bindsAhead {
		select {
		case <-e.pace.ended:
			stall.Stop()
			stall.Reset(paceStall)
		case <-stall.C():
			return
		case <-most.C():
			return
		case <-ctx.Done():
			return
		}
	}
}
