package engine

import (
	"context"
	"sync"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

const (
	// bindsAhead is how many Bindings may be under way, or wait to be, before the next gang is let go, where it has no more members
	// than that; see ahead. It keeps an API server that answers a Binding in 10 ms busy with 800 a second, and each that waits
	// behind others adds to the time that they all take. One that takes 50 ms, and many at once, gets 160 to 320 a second.
	bindsAhead = 8
	// SinglesAhead is with how many members a pod of no gang is paced. Each comes by itself, so with bindsAhead an API server would often
	// be without any. With more, whoever comes in a burst waits longer.
	SinglesAhead = 32
	// bindsQueued is how many open Bindings do not make a queue: what can wait, waits while there are more.
	bindsQueued = 2
	// paceStall is how long Pace waits for one Binding to end, and paceMost how long it waits in all.
	paceStall = 100 * time.Millisecond
	paceMost  = 500 * time.Millisecond
)

// ahead returns how many Bindings may be open before a gang of so many members is let go: those of one such gang, so that the API
// server has some to do while the first member of the next is on its way, but at least bindsAhead, and no more than can be under way.
func ahead(members int) int { return min(bindsInFlight, max(bindsAhead, members)) }

// pace counts Bindings.
type pace struct {
	// ended has a token when one has ended since the last look.
	ended chan struct{}

	// mu guards what follows.
	mu sync.Mutex
	// open is the number of Bindings that have begun and not ended, and of those that led stands for.
	open int
	// led is how many members of its gang follow each member that is bound ahead of them.
	led map[ledger.PodUID]int
	// stuck is how many Bindings are not waited for, since they did not end when they were.
	stuck int
}

func newPace() pace { return pace{ended: make(chan struct{}, 1), led: map[ledger.PodUID]int{}} }

// begin and end stand around each Binding.
func (p *pace) begin() { p.add(1) }
func (p *pace) end()   { p.add(-1) }

func (p *pace) add(n int) {
	p.mu.Lock()
	p.open += n
	p.stuck = max(0, min(p.stuck, p.open-bindsAhead))
	p.mu.Unlock()
	if n < 0 {
		select {
		case p.ended <- struct{}{}:
		default:
		}
	}
}

// full reports whether more Bindings are open than may be, but for those that are stuck.
func (p *pace) full(most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > most+p.stuck
}

// giveUp no longer waits for what is open now.
func (p *pace) giveUp(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = max(0, p.open-most)
}

// queued reports whether Bindings queue up.
func (p *pace) queued() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > bindsQueued
}

// BindingsOpen reports whether a Binding of GPUTopology's is open, those of gangs included whose first member is on its way, and not
// those that Pace gave up to wait for. It is fast, and safe for concurrent use.
func (e *Engine) BindingsOpen() bool {
	e.pace.mu.Lock()
	defer e.pace.mu.Unlock()
	return e.pace.open > e.pace.stuck
}

// Leads says that so many members of a gang will be bound once the member is. Led must follow, whatever becomes of the member; it
// may be called for any pod and any number of times.
func (e *Engine) Leads(uid ledger.PodUID, followers int) {
	if followers <= 0 {
		return
	}
	e.pace.mu.Lock()
	known := e.pace.led[uid]
	e.pace.led[uid] = followers
	e.pace.mu.Unlock()
	e.pace.add(followers - known)
}

// Led ends what Leads said of the pod.
func (e *Engine) Led(uid ledger.PodUID) {
	e.pace.mu.Lock()
	followers := e.pace.led[uid]
	delete(e.pace.led, uid)
	e.pace.mu.Unlock()
	if followers > 0 {
		e.pace.add(-followers)
	}
}

// Pace waits until few Bindings are open, those of gangs included whose first member is on its way. It is called in the last cycle of
// a gang of so many members, before they are let go, and in that of a pod of no gang, with SinglesAhead: both are decided faster than an API
// server takes their Bindings. Without the wait a second's worth of them queues up, and whoever comes then, however high its priority,
// is bound behind them. The next cycle begins with the pod that is first in the queue by then, and with the nodes as they are by then.
//
// It gives up after paceMost, and after paceStall without a Binding's end, and in that case does not wait again for those that
// were open: an API server, or a webhook, that does not answer must not keep pods from learning why they do not fit.
func (e *Engine) Pace(ctx context.Context, members int) {
	limit := ahead(members)
	if !e.pace.full(limit) {
		return
	}
	began := e.clock.Now()
	defer func() { metrics.PacedSeconds.Add(e.clock.Since(began).Seconds()) }()
	most := e.clock.NewTimer(paceMost)
	defer most.Stop()
	stall := e.clock.NewTimer(paceStall)
	defer stall.Stop()
	for e.pace.full(limit) {
		select {
		case <-e.pace.ended:
			stall.Stop()
			stall.Reset(paceStall)
		case <-stall.C():
			e.pace.giveUp(limit)
			return
		case <-most.C():
			return
		case <-ctx.Done():
			return
		}
	}
}
