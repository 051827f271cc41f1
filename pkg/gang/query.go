package gang

import "github.com/gputopology/gpu-topology-scheduler/pkg/ledger"

// Alone reports whether pending members are scheduled like pods of no gang now; see VerdictAlone.
func (s *State) Alone() bool { return s.alone() }

// Completes reports whether the pod is the last member that the plan waits for, so that its reservation lets them all go, and how
// many wait for it.
func (s *State) Completes(uid ledger.PodUID) (waiting int, yes bool) {
	m, p := s.members[uid], s.plan
	if m == nil || p == nil || p.trying() || m.stage != StagePlanned || s.count(StagePlanned) != 1 || s.need() > 0 {
		return 0, false
	}
	return s.count(StageReserved), true
}
