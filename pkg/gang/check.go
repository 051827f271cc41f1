package gang

import (
	"errors"
	"fmt"
)

// Check returns an error that names each invariant that does not hold:
//
//   - every number equals one counted from nothing, and none is negative;
//   - the pending members are in a heap, each in its slot, and no other member is;
//   - members are planned or reserved only under a plan, none while the gang backs off or is gone;
//   - the canary is admitted until it is bound, and no sibling of its plan is before that.
func (s *State) Check() error {
	return errors.Join(s.checkTally(), s.checkPending(), s.checkPlan())
}

func (s *State) checkTally() error {
	var counted tally
	for uid, m := range s.members {
		if m.seen.UID != uid {
			return fmt.Errorf("member %s is filed as %s", m.seen.UID, uid)
		}
		counted.add(m, +1)
	}
	if counted != s.tally {
		return fmt.Errorf("counts are %+v, the members add up to %+v", s.tally, counted)
	}
	if s.ended < s.count(StageSucceeded) || s.recorded < 0 || s.failures < 0 {
		return fmt.Errorf("%d ended, %d of them present, %d recorded, %d failures", s.ended, s.count(StageSucceeded),
			s.recorded, s.failures)
	}
	return nil
}

func (s *State) checkPending() error {
	for i, m := range s.pending {
		switch {
		case m.slot != i || m.stage != StagePending || s.members[m.seen.UID] != m:
			return fmt.Errorf("%s in slot %d is %s, its slot %d", m.seen.UID, i, m.stage, m.slot)
		case i > 0 && s.pending.Less(i, (i-1)/2):
			return fmt.Errorf("%s in slot %d comes before its parent", m.seen.UID, i)
		}
	}
	if len(s.pending) != s.count(StagePending) {
		return fmt.Errorf("%d members are pending, %d of them queued", s.count(StagePending), len(s.pending))
	}
	return nil
}

func (s *State) checkPlan() error {
	held := s.count(StagePlanned) + s.count(StageReserved)
	switch {
	case held > 0 && s.plan == nil:
		return fmt.Errorf("%d members are held without a plan", held)
	case held > 0 && !s.retryAt.IsZero():
		return fmt.Errorf("%d members are held while the gang backs off until %s", held, s.retryAt)
	case s.plan != nil && s.gone:
		return errors.New("a plan outlived its group")
	case !s.plan.trying():
		return nil
	}
	if m := s.members[s.plan.canary]; m == nil || m.stage != StageAdmitted {
		return fmt.Errorf("canary %s is not admitted", s.plan.canary)
	}
	if s.count(StagePlanned) > 0 {
		return fmt.Errorf("the canary binds while %d members are still to come", s.count(StagePlanned))
	}
	return nil
}
