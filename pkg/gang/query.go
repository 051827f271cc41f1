package gang

import "github.com/gputopology/gpu-topology-scheduler/pkg/ledger"

// Alone reports whether pending members are scheduled like pods of no gang now; see VerdictAlone.
func (s *State) Alone() bool { return s.alone() }

// Led reports whether the pending members wait for the first of them, which plans for all: no other need be tried before that, unless
// it is activated.
func (s *State) Led() bool {
	_, open := s.gate()
	return open && !s.alone()
}

// Follows reports whether the pod is a pending member that waits for another one to plan for it.
func (s *State) Follows(uid ledger.PodUID) bool {
	m := s.members[uid]
	return m != nil && m.stage == StagePending && m.slot != 0 && s.Led()
}

// Completes reports whether the pod is the last member that the plan waits for, so that its reservation lets them all go, and how
// many wait for it.
func (s *State) Completes(uid ledger.PodUID) (waiting int, yes bool) {
	m, p := s.members[uid], s.plan
	if m == nil || p == nil || p.trying() || m.stage != StagePlanned || s.count(StagePlanned) != 1 || s.need() > 0 {
		return 0, false
	}
	return s.count(StageReserved), true
}
