package gang

import (
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

const (
	// excludeFor is how long a node that refused a member is kept out of the gang's plans.
	excludeFor = time.Minute
	// nudgeAfter is how long nothing may happen before the members that a plan waits for are activated again.
	nudgeAfter = 250 * time.Millisecond
)

// exclusion keeps a node out of plans.
type exclusion struct {
	node  ledger.NodeName
	until time.Time
}

// exclude keeps a node out of plans for a while, from now.
func (s *State) exclude(node ledger.NodeName) {
	s.excluded = slices.DeleteFunc(s.excluded, func(e exclusion) bool { return e.node == node })
	s.excluded = append(s.excluded, exclusion{node, s.step.now.Add(excludeFor)})
}

// Excluded returns the nodes that refused a member of the gang in the last minute, sorted.
func (s *State) Excluded(now time.Time) []ledger.NodeName {
	var nodes []ledger.NodeName
	for _, e := range s.excluded {
		if now.Before(e.until) {
			nodes = append(nodes, e.node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// backOff notes a failure: no plan is made before min(initial * 2^(failures-1), max) has passed.
func (s *State) backOff(reason string) {
	s.failures++
	s.reason, s.retryAt = reason, time.Time{}
	if d := backoff(s.config, s.failures); d > 0 {
		s.retryAt = s.step.now.Add(d)
	}
}

// backoff is the wait after a number of failures in a row.
func backoff(c Config, failures int) time.Duration {
	d := min(c.BackoffInitial, c.BackoffMax)
	for range failures - 1 {
		if d <= 0 || d >= c.BackoffMax {
			break
		}
		d = min(d, c.BackoffMax-d) + d // twice d, at most the maximum, without overflow
	}
	return d
}

// backingOff is true before the end of the backoff.
func (s *State) backingOff(now time.Time) bool { return now.Before(s.retryAt) }

// tick does what is due at the time.
func (s *State) tick() {
	now := s.step.now
	if !s.backingOff(now) {
		s.retryAt = time.Time{}
	}
	n := len(s.excluded)
	s.excluded = slices.DeleteFunc(s.excluded, func(e exclusion) bool { return !now.Before(e.until) })
	if len(s.excluded) < n {
		s.cure()
	}
	if s.plan == nil {
		return
	}
	switch {
	case due(s.permitDeadline(), now):
		s.fail(s.sentence("not all members were bound within %s of the first that was ready", s.timeout()))
	case due(s.planDeadline(), now):
		s.fail(s.sentence("%d of %d planned members are ready, and none came for %s", s.count(StageReserved),
			s.count(StageReserved)+s.count(StagePlanned)+max(0, s.need()), s.config.PlanTTL))
	case due(s.nudgeTime(), now):
		s.plan.nudgedAt = now
		s.wake(s.in(StagePlanned)...)
		if s.need() > 0 {
			s.wakeLead()
		}
	}
}

func (s *State) wakeLead() {
	if len(s.pending) > 0 {
		s.wake(s.pending[0])
	}
}

// due is true from a deadline on; a zero one never comes.
func due(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// permitDeadline is when those that wait at Permit are rejected.
func (s *State) permitDeadline() time.Time {
	if s.plan == nil || s.count(StageReserved) == 0 || s.timeout() <= 0 {
		return time.Time{}
	}
	return s.plan.waitingSince.Add(s.timeout())
}

// planDeadline is when a plan whose members stopped arriving is given back.
func (s *State) planDeadline() time.Time {
	if !s.incomplete() || s.config.PlanTTL <= 0 {
		return time.Time{}
	}
	return s.plan.progressAt.Add(s.config.PlanTTL)
}

// nudgeTime is when the members that a plan waits for are activated again.
func (s *State) nudgeTime() time.Time {
	if !s.incomplete() || (s.count(StagePlanned) == 0 && len(s.pending) == 0) {
		return time.Time{}
	}
	last := s.plan.progressAt
	if s.plan.nudgedAt.After(last) {
		last = s.plan.nudgedAt
	}
	return last.Add(nudgeAfter)
}

// Next returns when a Tick is due, false if none is before the next event.
func (s *State) Next() (time.Time, bool) {
	var next time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	earlier(s.retryAt)
	for _, e := range s.excluded {
		earlier(e.until)
	}
	earlier(s.permitDeadline())
	earlier(s.planDeadline())
	earlier(s.nudgeTime())
	if s.tally.dueOut > 0 {
		earlier(s.evictAt)
	}
	if s.tally.held == 0 {
		earlier(s.completeBy)
	}
	return next, !next.IsZero()
}
