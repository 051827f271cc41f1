package gang

import "time"

// evictEvery is how often Evict is repeated: the eviction API may refuse for as long as a disruption budget says.
const evictEvery = 10 * time.Second

// settleQuorum notes that the gang runs, does not any more, or lost members while it ran.
func (s *State) settleQuorum(before beforehand) {
	lost := s.strength() < before.strength
	if before.started > 0 && s.started() == 0 {
		s.ran, s.completeBy = false, time.Time{}
	}
	switch {
	case s.quorate():
		s.ran = true
		s.failures, s.reason, s.retryAt, s.completeBy = 0, "", time.Time{}, time.Time{}
	case s.gone: // nobody says any more what is to become of its members
	case s.ran && lost && s.spec.OnLoss == LossEvict:
		s.evict(s.sentence("%d of %d members are left; they are evicted (on-member-loss: %s)",
			s.strength(), s.spec.MinMember, s.spec.OnLoss), func(*member) bool { return true })
	case !s.ran && s.incompleteAt(s.step.now):
		s.evict(s.sentence("only %d of %d members could be bound within %s; they are evicted",
			s.strength(), s.spec.MinMember, s.timeout()), func(m *member) bool { return m.together })
	}
}

// incompleteAt is true if members were bound together, the others did not follow in time, and none is on its way.
func (s *State) incompleteAt(now time.Time) bool {
	return !s.completeBy.IsZero() && !now.Before(s.completeBy) && s.tally.held == 0
}

// evict decides that bound members have to go, also those whose bind is on its way. What comes then is a fresh gang.
func (s *State) evict(reason string, condition func(*member) bool) {
	s.dissolve(reason)
	for _, m := range s.members {
		if (m.stage == StageBound || m.stage == StageAdmitted) && condition(m) {
			s.change(m, func() { m.evicted = true })
		}
	}
	s.ran, s.completeBy = false, time.Time{}
	s.evictReason, s.evictAt = reason, s.step.now
}

// settleEvictions asks for the evictions that are due.
func (s *State) settleEvictions() {
	if s.tally.dueOut == 0 || s.step.now.Before(s.evictAt) {
		return
	}
	due := s.where(func(m *member) bool { return m.stage == StageBound && m.dueOut() })
	s.evictAt = s.step.now.Add(evictEvery)
	if len(due) > 0 {
		s.emit(Evict{uids(due), s.evictReason})
	}
}
