package gang

import "math"

// Phase returns where the gang stands. It follows from the members, so that it is right after any order of events.
func (s *State) Phase() Phase {
	switch {
	case s.finished():
		return PhaseFinished
	case s.tally.dueOut > 0:
		return PhaseBroken
	case s.plan != nil && s.plan.canary == "":
		return PhasePlanned
	case s.plan != nil, !s.quorate() && (s.tally.binding > 0 || !s.completeBy.IsZero()):
		return PhaseAdmitting
	case s.quorate():
		return PhaseRunning
	case s.ran:
		return PhaseBroken
	default:
		return PhaseForming
	}
}

func (s *State) finished() bool {
	return s.spec.MinMember > 0 && s.succeeded() >= s.spec.MinMember && s.count(StageBound) == 0 && s.tally.held == 0
}

// Reason says in one sentence why the gang waits, "" while it does not.
func (s *State) Reason() string {
	reason, open := s.gate()
	switch {
	case s.gone, s.tally.dueOut > 0:
		return reason
	case s.alone(), s.plan != nil, s.tally.binding > 0 && s.need() <= 0:
		return ""
	case !open:
		return reason
	case s.count(StageLeaving) > 0:
		return s.lastFailure()
	default:
		return s.reason
	}
}

// Status returns what the PodGroup's status shows. The first of these that is true:
//
//	Finished       minMember have succeeded, none is bound or on its way
//	Failed         some failed, and those that are left are fewer than minMember
//	Running        those that run or succeeded are minMember, and are not being evicted
//	Scheduled      those that are bound or succeeded are minMember
//	Scheduling     some are bound or on their way
//	PreScheduling  minMember exist and are not gated
//	Pending        minMember do not exist; also when there are none any more
func (s *State) Status() Status {
	c := s.Counts()
	left := c.Pending + c.Planned + c.Reserved + c.Admitted + c.Leaving + c.Alive + c.Succeeded
	phase := StatusPending
	switch {
	case s.finished():
		phase = StatusFinished
	case c.Failed > 0 && left+c.Gated < s.spec.MinMember:
		phase = StatusFailed
	case s.quorate() && c.Running+c.Succeeded >= s.spec.MinMember:
		phase = StatusRunning
	case s.quorate():
		phase = StatusScheduled
	case s.tally.held > 0 || c.Bound > 0:
		phase = StatusScheduling
	case left >= s.spec.MinMember:
		phase = StatusPreScheduling
	}
	return Status{Phase: phase, Running: int32Of(c.Running), Succeeded: int32Of(c.Succeeded), Failed: int32Of(c.Failed)}
}

// int32Of is n as a field of the API holds it.
func int32Of(n int) int32 {
	return int32(min(n, math.MaxInt32))
}
