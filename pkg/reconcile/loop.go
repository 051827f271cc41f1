package reconcile

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

const (
	// kickDelay is the time between a kick and its sweep: the other events of the same list arrive meanwhile.
	kickDelay = time.Second
	// maxComparisons is the number of records that one sweep reads: 50,000 at a time, after a restart, would take more
	// than half a second. Those that are put off come first in the next sweep. Whether a pod lives, and where, every
	// sweep looks at for all of them.
	maxComparisons = 1024
	// jitterPart is the part of the period by which a sweep may be late, so that replicas do not sweep in step.
	jitterPart = 10
	// MaxRepairs is the number of repairs that Summary keeps.
	MaxRepairs = 100
)

// Flight knows the pods between Reserve and the end of their bind.
type Flight interface {
	// InFlight reports whether the pod waits at Permit or its Binding is being sent.
	InFlight(uid ledger.PodUID) bool
	// ForgetIdle gives back an assumed reservation and reports whether it did: not while a Binding of the pod is being
	// sent, and none is sent afterwards.
	ForgetIdle(uid ledger.PodUID) bool
}

// Options are what a Loop works on.
type Options struct {
	Ledger   *ledger.Ledger
	Observer *observe.Observer
	Flight   Flight
	Report   observe.Reporter
	Logger   klog.Logger
	Clock    clock.WithTicker
	// Period is the time between two sweeps.
	Period time.Duration
	// Seed is the seed of the jitter.
	Seed uint64
	// Synced reports whether the ledger has heard of all that existed at the start; there is no sweep before.
	Synced func() bool
	// Freed is called after a sweep that made cards free. It must not block.
	Freed func()
}

// Done is a repair that was made.
type Done struct {
	At time.Time
	Repair
}

// Summary is what the sweeps of this process did. Pods to Suspected are of the last one.
type Summary struct {
	// Sweeps is the number of sweeps that ended.
	Sweeps int64
	// Started and Duration are when the last one began and how long it took.
	Started  time.Time
	Duration time.Duration
	// Pods and Nodes are the holdings and nodes that it compared, Suspected the suspicions that the next one may confirm.
	Pods, Nodes, Suspected int
	// Repairs counts all repairs by kind.
	Repairs map[Kind]int64
	// Last are the last repairs, the newest first, at most MaxRepairs.
	Last []Done
}

// Loop sweeps. Run it once, or call Sweep, one at a time; the other methods may be called at any time from any goroutine.
type Loop struct {
	Options
	kick chan struct{}

	// What follows belongs to the sweep under way.

	// before are the suspicions of the last sweep, quarantined the nodes that it found in quarantine.
	before      map[ledger.PodUID]Suspicion
	quarantined map[ledger.NodeName]bool
	memory      memory
	// comparisons is maxComparisons.
	comparisons int

	// mu guards summary. Nothing is locked while it is held.
	mu      sync.Mutex
	summary Summary
}

// New returns a Loop that has swept nothing.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, kick: make(chan struct{}, 1), comparisons: maxComparisons,
		summary: Summary{Repairs: map[Kind]int64{}},
	}
	for _, k := range Kinds() {
		l.summary.Repairs[k] = 0
	}
	return l
}

// Kick asks for a sweep soon: something may have been missed. It does not block; kicks before the sweep are one.
func (l *Loop) Kick() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Last returns what the sweeps did so far. The copy is the caller's.
func (l *Loop) Last() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.summary
	s.Repairs = maps.Clone(s.Repairs)
	s.Last = append([]Done(nil), s.Last...)
	return s
}

// Run sweeps until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	jitter := rand.New(rand.NewPCG(l.Seed, 0)) //nolint:gosec // jitter needs no secrecy
	wait := l.wait(jitter, 0)
	due := l.Clock.Now().Add(wait)
	timer := l.Clock.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
			if soon := l.Clock.Now().Add(kickDelay); soon.Before(due) {
				due = soon
				timer.Reset(kickDelay)
			}
			continue
		case <-timer.C():
		}
		suspected := 0
		if l.Synced() {
			suspected = l.Sweep()
		}
		wait = l.wait(jitter, suspected)
		due = l.Clock.Now().Add(wait)
		timer.Reset(wait)
	}
}

// wait is the time to the next sweep: the period and its jitter, or less where there is something to confirm.
func (l *Loop) wait(jitter *rand.Rand, suspected int) time.Duration {
	wait := l.Period + time.Duration(jitter.Int64N(int64(l.Period)/jitterPart+1))
	if suspected > 0 {
		return min(wait, confirmAfter)
	}
	return wait
}

// Sweep compares once, repairs, and returns the number of suspicions that the next sweep may confirm.
func (l *Loop) Sweep() int {
	s := newSweep(l)
	nodes := s.nodes()
	s.read()
	repairs, after := Plan(s.view)
	for i := range repairs {
		if s.mend(&repairs[i]) {
			s.done(repairs[i])
		}
	}
	s.contradictions(repairs)
	l.before = after
	l.memory.tidy()
	if s.freed && l.Freed != nil {
		l.Freed()
	}
	suspected := 0
	for _, suspicion := range after {
		if suspicion.Kind != Edited && suspicion.Kind != Expired {
			suspected++
		}
	}
	l.ended(s, nodes, suspected)
	return suspected
}

// ended writes the summary.
func (l *Loop) ended(s *sweep, nodes, suspected int) {
	took := l.Clock.Since(s.now)
	metrics.SweepSeconds.Observe(took.Seconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summary.Sweeps++
	l.summary.Started, l.summary.Duration = s.now, took
	l.summary.Pods, l.summary.Nodes, l.summary.Suspected = len(l.memory.at), nodes, suspected
	for _, r := range s.repairs {
		l.summary.Repairs[r.Kind]++
		l.summary.Last = append([]Done{r}, l.summary.Last[:min(len(l.summary.Last), MaxRepairs-1)]...)
	}
}
