package gang

import (
	"fmt"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// alone is true if pending members are scheduled like pods of no gang: the quorum is bound, or the gang ran and its
// owner wants it to go on with less.
func (s *State) alone() bool {
	switch {
	case s.gone || s.tally.dueOut > 0:
		return false
	case s.quorate():
		return true
	default:
		return s.ran && s.tally.alive > 0 && s.spec.OnLoss == LossKeep
	}
}

// gate says whether pending members may enter the scheduling queue, or why not. It is the same for all of them.
func (s *State) gate() (reason string, open bool) {
	switch {
	case s.gone:
		return s.nonexistent(), false
	case s.alone():
		return "", true
	case s.tally.dueOut > 0:
		return s.evictReason, false
	case s.need() <= 0:
		return s.sentence("it is starting; members beyond its first %d follow once it runs", s.spec.MinMember), false
	case s.count(StagePending)+s.count(StageLeaving) < s.need():
		return s.missing(), false
	default:
		return "", true
	}
}

func (s *State) nonexistent() string { return fmt.Sprintf("PodGroup %s does not exist", s.name) }

// missing says how many members there are, and what is done about those that are lost.
func (s *State) missing() string {
	gated := s.count(StageGated)
	exist := s.strength() + s.tally.held + s.count(StagePending) + s.count(StageLeaving) + gated
	text := fmt.Sprintf("%d of %d members exist", exist, s.spec.MinMember)
	if gated > 0 {
		text += fmt.Sprintf(", %d of them gated", gated)
	}
	if s.ran && s.spec.OnLoss == LossReplace {
		text += fmt.Sprintf("; the missing ones are placed together, beside the others (on-member-loss: %s)", s.spec.OnLoss)
	}
	return s.sentence("%s", text)
}

// plannable is true if a plan may be made now, should one be needed.
func (s *State) plannable() bool { return s.hindrance(s.step.now) == "" }

// hindrance says why no plan may be made now, "" if one may.
func (s *State) hindrance(now time.Time) string {
	reason, open := s.gate()
	switch {
	case !open:
		return reason
	case s.count(StageLeaving) > 0 || s.backingOff(now):
		return s.lastFailure()
	case s.plan.trying():
		return s.sentence("its first member is being bound")
	case s.count(StagePending) < s.need():
		return s.missing()
	default:
		return ""
	}
}

func (s *State) lastFailure() string {
	if s.reason == "" {
		return s.sentence("its last plan was given up")
	}
	return s.reason
}

// settleGate activates members that may have a chance now.
func (s *State) settleGate() {
	_, open := s.gate()
	opened := open && !s.wasOpen
	s.wasOpen = open
	arrived := s.step.arrived
	if opened || arrived != nil {
		s.cure()
	}
	if !open {
		return
	}
	if s.alone() {
		if arrived != nil && !opened {
			s.wake(arrived)
		} else if s.cured {
			s.wake(s.in(StagePending)...)
		}
		s.cured, s.told = false, false
		return
	}
	if !s.cured || s.told || !s.plannable() {
		return
	}
	s.told = true
	s.wakeLead()
	if opened {
		s.wake(s.in(StagePending)...)
	} else if arrived != nil {
		s.wake(arrived)
	}
}

// Enqueue says whether a member may enter the scheduling queue, and if not, why.
func (s *State) Enqueue(uid ledger.PodUID) (reason string, ok bool) {
	m := s.members[uid]
	switch {
	case m == nil:
		return s.sentence("this pod is not known as a member yet"), false
	case m.stage == StagePending:
		return s.gate()
	case s.gone:
		return s.nonexistent(), false
	case m.stage == StageGated:
		return s.sentence("this member is gated"), false
	default:
		return "", true
	}
}

// Plannable reports whether Admit, asked for the member now, would have the gang planned. It changes nothing.
func (s *State) Plannable(uid ledger.PodUID, now time.Time) bool {
	m := s.members[uid]
	return m != nil && m.stage == StagePending && !s.alone() && s.hindrance(now) == ""
}

// Admit says what a member's PreFilter does. The verdict VerdictPlan obliges the caller to tell PlanMade or PlanFailed.
func (s *State) Admit(uid ledger.PodUID, now time.Time) Verdict {
	if s.Plannable(uid, now) {
		s.cured, s.told = false, false // what happens from here on may make the next plan succeed
		return Verdict{Kind: VerdictPlan, Candidates: uids(s.in(StagePending)), Need: s.need()}
	}
	m := s.members[uid]
	switch {
	case m != nil && m.stage == StagePlanned:
		return Verdict{Kind: VerdictPlanned, Node: m.node, PlanID: m.planID}
	case m == nil || m.stage == StageGated:
		reason, _ := s.Enqueue(uid)
		return Verdict{Reason: reason}
	case m.stage == StageLeaving:
		return Verdict{Reason: s.lastFailure()}
	case m.stage != StagePending:
		return Verdict{Reason: s.sentence("this member is %s", m.stage)}
	case s.alone():
		return Verdict{Kind: VerdictAlone}
	default:
		return Verdict{Reason: s.hindrance(now)}
	}
}
