package gang

import (
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// maxReplans is how many refusals of single members one plan survives.
const maxReplans = 3

// plan is a set of members held for their bind: the planned, the reserved, and the canary while it binds.
type plan struct {
	// canary is the member that binds first, "" before it is chosen; bound says that it is done.
	canary ledger.PodUID
	bound  bool
	// replans is how many members were refused by their node.
	replans int
	// progressAt is when the last member arrived at Permit, or was planned.
	progressAt time.Time
	// nudgedAt is when those that did not arrive were last activated.
	nudgedAt time.Time
	// waitingSince is when the first member arrived at Permit, zero if none did.
	waitingSince time.Time
}

// binds is true while m is the canary of p and its bind is on its way.
func (p *plan) binds(m *member) bool { return p.trying() && p.canary == m.seen.UID }

// trying is true while the canary's bind is on its way.
func (p *plan) trying() bool { return p != nil && p.canary != "" && !p.bound }

// incomplete is true while members have to arrive before the next bind.
func (s *State) incomplete() bool {
	return s.plan != nil && !s.plan.trying() && (s.count(StagePlanned) > 0 || s.need() > 0)
}

// planMade holds the members of a plan, or gives it back if the gang has moved on since it was asked for.
func (s *State) planMade(e PlanMade) {
	ms, fresh := s.placed(e.Members)
	if !fresh || len(ms) < s.need() || s.need() <= 0 || !s.plannable() {
		s.giveBack(e.Members)
		s.cure()
		return
	}
	if s.plan == nil {
		s.plan = &plan{}
	}
	s.plan.progressAt, s.retryAt = s.step.now, time.Time{}
	for i, m := range ms {
		s.change(m, func() { m.stage, m.node, m.planID = StagePlanned, e.Members[i].Node, e.ID })
	}
	s.wake(ms...)
}

// placed returns the members of a plan; false if one is not pending or stands there twice.
func (s *State) placed(placed []Placed) ([]*member, bool) {
	ms := make([]*member, len(placed))
	seen := make(map[*member]bool, len(placed))
	for i, p := range placed {
		m := s.members[p.Pod]
		if m == nil || m.stage != StagePending || seen[m] {
			return nil, false
		}
		ms[i], seen[m] = m, true
	}
	return ms, true
}

// giveBack releases what was taken for a plan that came too late. What its pods hold on another account stays.
func (s *State) giveBack(placed []Placed) {
	var pods []ledger.PodUID
	seen := map[ledger.PodUID]bool{}
	for _, p := range placed {
		if m := s.members[p.Pod]; (m == nil || m.stage == StagePending || m.stage == StageGated) && !seen[p.Pod] {
			pods, seen[p.Pod] = append(pods, p.Pod), true
		}
	}
	if len(pods) > 0 {
		s.emit(Release{pods})
	}
}

// planFailed fails the gang, unless it has moved on since the plan was asked for.
func (s *State) planFailed(e PlanFailed) {
	if s.need() <= 0 || !s.plannable() {
		return
	}
	cured := s.cured // since the plan was asked for
	s.fail(e.Reason)
	s.cured = cured
}

// memberReserved answers a member at Permit.
func (s *State) memberReserved(e MemberReserved) {
	m := s.members[e.Pod]
	if m == nil {
		s.reject(e.Pod, "%s is not a member", e.Pod)
		return
	}
	switch {
	case m.stage == StagePlanned && m.node == e.Node:
		s.move(m, StageReserved)
		s.plan.progressAt = s.step.now
		if s.plan.waitingSince.IsZero() {
			s.plan.waitingSince = s.step.now
		}
		s.step.reserved = m
	case m.stage == StagePlanned:
		s.move(m, StageReserved)
		s.fail(s.sentence("%s reserved node %q, but is planned on %q", m.display(), e.Node, m.node))
	case m.stage == StageReserved: // waits
	case m.stage == StageAdmitted:
		s.allow(m)
	case m.stage == StagePending && s.alone():
		m.node = e.Node
		s.admit(m, false)
		s.allow(m)
	case m.stage == StagePending, m.stage == StageGated:
		s.move(m, StageLeaving)
		s.reject(e.Pod, "what %s was planned for is over", m.display())
	default:
		s.reject(e.Pod, "%s is %s", m.display(), m.stage)
	}
}

func (s *State) admit(m *member, together bool) {
	s.change(m, func() { m.stage, m.together = StageAdmitted, together })
}

func (s *State) allow(ms ...*member) {
	if len(ms) > 0 {
		s.emit(Allow{uids(ms)})
	}
}

// advance admits what may be admitted: the canary when the last member has arrived, the others when it is bound.
func (s *State) advance() {
	p := s.plan
	if p == nil || p.trying() || s.count(StagePlanned) > 0 || s.need() > 0 {
		return
	}
	waiting := s.in(StageReserved)
	if len(waiting) == 0 || p.bound {
		s.plan = nil
		for _, m := range waiting {
			s.admit(m, true)
		}
		s.allow(waiting...)
		return
	}
	canary := waiting[0]
	if m := s.step.reserved; m != nil && m.stage == StageReserved {
		canary = m // it is at Permit now: no other need be woken
	}
	p.canary = canary.seen.UID
	s.admit(canary, true)
	s.allow(canary)
}

// memberRefused has a planned member planned anew on another node, if that may help.
func (s *State) memberRefused(e MemberRefused) {
	m := s.members[e.Pod]
	if m == nil || m.stage != StagePlanned || (e.Node != "" && e.Node != m.node) {
		return
	}
	if e.Node == "" {
		s.fail(s.sentence("%s was refused: %s", m.display(), e.Reason))
		return
	}
	s.exclude(e.Node)
	s.plan.replans++
	if s.plan.replans > maxReplans {
		s.fail(s.sentence("%s was refused by node %s: %s", m.display(), e.Node, e.Reason))
		return
	}
	s.emit(Release{[]ledger.PodUID{e.Pod}})
	s.idle(m)
	s.wake(m)
	_, s.wasOpen = s.gate() // others need not be woken for it
}

// memberUnreserved takes a member back that did not get through.
func (s *State) memberUnreserved(e MemberUnreserved) {
	m := s.members[e.Pod]
	if m == nil {
		return
	}
	reason := s.sentence("%s did not get through: %s", m.display(), e.Reason)
	together := m.together
	switch {
	case m.stage == StageLeaving:
		s.idle(m)
	case m.stage == StagePlanned:
		s.fail(reason)
	case m.stage == StageReserved, s.plan.binds(m):
		s.idle(m)
		s.fail(reason)
	case m.stage == StageAdmitted:
		s.idle(m)
		if together && !s.gone && s.need() > 0 {
			s.missed(reason)
		}
	default:
		return
	}
	if m.seen.Terminating && m.seen.Node == "" {
		s.drop(m)
	}
}

// missed has a member planned anew that did not get through after its siblings were admitted.
func (s *State) missed(reason string) {
	if s.plan == nil {
		s.backOff(reason)
	}
	s.cure()
	_, s.wasOpen = s.gate()
}

// nodeGone fails the plan if a part of it stands on the node.
func (s *State) nodeGone(node ledger.NodeName) {
	if s.plan == nil {
		return
	}
	for _, m := range s.members {
		if m.node == node && (m.stage == StagePlanned || m.stage == StageReserved || s.plan.binds(m)) {
			s.fail(s.sentence("node %s is gone", node))
			return
		}
	}
}

// fail gives the plan up and backs off. The next attempt waits for the backoff alone.
func (s *State) fail(reason string) {
	s.dissolve(reason)
	s.backOff(reason)
	s.cure()
	_, s.wasOpen = s.gate()
}

// dissolve ends the plan: who waits is rejected, who is planned is released. A canary on its way cannot be called back.
func (s *State) dissolve(reason string) {
	reserved, planned := s.in(StageReserved), s.in(StagePlanned)
	for _, m := range reserved {
		s.move(m, StageLeaving)
	}
	for _, m := range planned {
		s.idle(m)
	}
	s.plan = nil
	if len(reserved) > 0 {
		s.emit(Reject{uids(reserved), reason})
	}
	if len(planned) > 0 {
		s.emit(Release{uids(planned)})
	}
}
