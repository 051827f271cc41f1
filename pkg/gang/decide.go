package gang

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Decide takes an event and returns what follows from it. It changes s and returns it; the same states, events and
// times give the same actions. Times are those of one clock and should not go back.
func Decide(s *State, e Event, now time.Time) (*State, []Action) {
	s.step = step{now: now}
	before := beforehand{strength: s.strength(), started: s.started()}
	switch e := e.(type) {
	case SpecChanged:
		if s.spec != e.Spec {
			s.spec = e.Spec
			s.cure()
		}
	case MemberSeen:
		s.see(e.Sighting)
	case MemberGone:
		s.remove(e.Pod, "was deleted")
	case PlanMade:
		s.planMade(e)
	case PlanFailed:
		s.planFailed(e)
	case MemberReserved:
		s.memberReserved(e)
	case MemberRefused:
		s.memberRefused(e)
	case MemberUnreserved:
		s.memberUnreserved(e)
	case MemberBound:
		if m := s.members[e.Pod]; m != nil && !m.terminal() {
			s.bind(m, e.Node)
		}
	case NodeGone:
		s.nodeGone(e.Node)
	case GroupGone:
		s.gone, s.completeBy = true, time.Time{}
		s.dissolve(s.nonexistent())
	case Cured:
		s.cure()
	case Urgent:
		s.retryAt = time.Time{}
	case Tick:
		s.tick()
	}
	s.settle(before)
	actions := s.step.actions
	s.step = step{}
	return s, actions
}

// beforehand is what the state was before an event.
type beforehand struct{ strength, started int }

// settle draws the conclusions that every event may allow.
func (s *State) settle(before beforehand) {
	s.settleQuorum(before)
	s.advance()
	s.settleEvictions()
	s.settleGate()
	if len(s.step.wake) > 0 {
		s.emit(Activate{uids(slices.Compact(inOrder(s.step.wake)))})
	}
}

func (s *State) emit(a Action) { s.step.actions = append(s.step.actions, a) }

func (s *State) wake(ms ...*member) { s.step.wake = append(s.step.wake, ms...) }

// cure notes that a plan may succeed now.
func (s *State) cure() { s.cured, s.told = true, false }

// reject ends the wait of one pod at Permit.
func (s *State) reject(uid ledger.PodUID, format string, args ...any) {
	s.emit(Reject{[]ledger.PodUID{uid}, s.sentence(format, args...)})
}

// sentence is one about this gang.
func (s *State) sentence(format string, args ...any) string {
	return "gang " + s.name + ": " + fmt.Sprintf(format, args...)
}

// see takes in what the API shows of a member.
func (s *State) see(seen Sighting) {
	ends := seen.Succeeded || seen.Failed
	m := s.members[seen.UID]
	first := m == nil
	switch {
	case first && seen.Terminating && seen.Node == "" && !ends:
		return
	case first:
		m = s.add(seen)
	case m.terminal(), m.stage == StageBound && seen.Node == "" && !ends:
		return
	default:
		seen.Gated = seen.Gated && m.seen.Gated // a gate that was taken away never comes back
		s.change(m, func() { m.seen = seen })
	}
	if seen.Node != "" {
		s.bind(m, seen.Node)
	}
	switch {
	case ends:
		s.end(m, first)
	case seen.Node != "":
	case seen.Terminating && m.stage != StageAdmitted:
		s.remove(seen.UID, "is being deleted")
	case seen.Terminating:
		s.abandon(m, "is being deleted")
	case m.stage == StageGated && !seen.Gated:
		s.move(m, StagePending)
		s.step.arrived = m
	}
}

// bind notes that the API shows a member on a node.
func (s *State) bind(m *member, node ledger.NodeName) {
	if m.stage == StageReserved {
		s.reject(m.seen.UID, "%s is bound to a node already", m.seen.UID)
	}
	canary := s.plan.binds(m)
	if m.stage != StageBound && m.evicted {
		s.evictAt = s.step.now
	}
	s.change(m, func() { m.stage, m.node = StageBound, node })
	if canary {
		s.plan.bound, s.plan.progressAt = true, s.step.now
	}
	if m.together && !s.ran && !s.gone && s.completeBy.IsZero() && s.timeout() > 0 {
		s.completeBy = s.step.now.Add(s.timeout())
	}
}

// end notes that a member is terminal.
func (s *State) end(m *member, first bool) {
	s.abandon(m, "has ended")
	if !m.seen.Succeeded {
		s.move(m, StageFailed)
		return
	}
	s.move(m, StageSucceeded)
	s.ended++
	if first && s.recorded > 0 {
		s.recorded-- // what succeeded before this State was made is in the record
	}
}

// remove takes a member out for good.
func (s *State) remove(uid ledger.PodUID, what string) {
	if m := s.members[uid]; m != nil {
		s.abandon(m, what)
		s.drop(m)
	}
}

// abandon fails the plan if it cannot do without m.
func (s *State) abandon(m *member, what string) {
	if m.stage == StagePlanned || m.stage == StageReserved || s.plan.binds(m) {
		s.fail(s.sentence("%s %s before the gang was bound", m.display(), what))
	}
}

// display is the name of a member in sentences.
func (m *member) display() string {
	if m.seen.Name != "" {
		return m.seen.Name
	}
	return string(m.seen.UID)
}
