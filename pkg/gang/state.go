package gang

import (
	"maps"
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// State is one gang. It starts nothing, locks nothing and reads no clock: one caller at a time, who brings the time.
type State struct {
	name   string
	config Config
	spec   Spec

	members map[ledger.PodUID]*member
	pending pendingQueue
	tally   tally
	// ended is how many members were seen to succeed, also those deleted since; recorded is how many more did before
	// this State was made.
	ended, recorded int

	// ran is true from when the quorum was bound until nothing is bound any more, or its eviction is decided.
	ran bool
	// gone is true once the PodGroup was deleted.
	gone bool

	plan *plan
	// failures in a row, the last one's reason, and when the next plan may be made: zero if now.
	failures int
	reason   string
	retryAt  time.Time
	excluded []exclusion
	// cured is true if something happened since the last plan was asked for that may make the next one succeed; told
	// is true if the lead was activated on its account.
	cured, told bool
	// wasOpen is what gate answered after the last event.
	wasOpen bool

	// completeBy is when a gang that began to bind and never ran must have its quorum; zero if that is no matter.
	completeBy  time.Time
	evictAt     time.Time
	evictReason string

	step step
}

// step is what one Decide gathers.
type step struct {
	now     time.Time
	actions []Action
	// arrived became pending; reserved is the one that asks at Permit.
	arrived, reserved *member
	wake              []*member
}

// New returns the state of a gang without members. Name is the group's "namespace/name", for sentences.
func New(name string, c Config, s Spec) *State {
	return &State{name: name, config: c, spec: s, members: map[ledger.PodUID]*member{}}
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := *s
	c.members = make(map[ledger.PodUID]*member, len(s.members))
	for uid, m := range s.members {
		copied := *m
		c.members[uid] = &copied
	}
	c.pending = make(pendingQueue, len(s.pending))
	for i, m := range s.pending {
		c.pending[i] = c.members[m.seen.UID]
	}
	if s.plan != nil {
		copied := *s.plan
		c.plan = &copied
	}
	c.excluded = slices.Clone(s.excluded)
	c.step = step{}
	return &c
}

// Recorded brings what the PodGroup's status says: how many members had succeeded and whether the gang had run, when it
// was written, perhaps by another process. It may be told again at any time: what was written of members that are
// counted already is not counted twice.
func (s *State) Recorded(succeeded int, ran bool) {
	s.recorded = max(s.recorded, succeeded-s.ended)
	s.ran = s.ran || ran
}

// succeeded is the number of members that ever succeeded.
func (s *State) succeeded() int { return s.ended + s.recorded }

// started is how many members are bound or about to be.
func (s *State) started() int { return s.count(StageBound) + s.count(StageAdmitted) }

// strength is how many members count towards the quorum of the bound.
func (s *State) strength() int { return s.tally.alive + s.succeeded() }

// quorate is true while enough members are started.
func (s *State) quorate() bool { return s.strength() >= s.spec.MinMember }

// need is how many members have to be planned.
func (s *State) need() int { return s.spec.MinMember - s.strength() - s.tally.held }

func (s *State) count(stage Stage) int { return s.tally.stages[stage] }

func (s *State) timeout() time.Duration {
	if s.spec.Timeout > 0 {
		return s.spec.Timeout
	}
	return s.config.PermitTimeout
}

// in returns the members in a stage, in order.
func (s *State) in(stage Stage) []*member {
	if stage == StagePending {
		return inOrder(slices.Clone(s.pending))
	}
	if s.count(stage) == 0 {
		return nil
	}
	return s.where(func(m *member) bool { return m.stage == stage })
}

// where returns the members that satisfy a condition, in order.
func (s *State) where(condition func(*member) bool) []*member {
	var found []*member
	for _, m := range s.members {
		if condition(m) {
			found = append(found, m)
		}
	}
	return inOrder(found)
}

func inOrder(ms []*member) []*member {
	slices.SortFunc(ms, order)
	return ms
}

func uids(ms []*member) []ledger.PodUID {
	pods := make([]ledger.PodUID, len(ms))
	for i, m := range ms {
		pods[i] = m.seen.UID
	}
	return pods
}

// Lead returns the first pending member in order: the one that events of the cluster wake.
func (s *State) Lead() (ledger.PodUID, bool) {
	if len(s.pending) == 0 {
		return "", false
	}
	return s.pending[0].seen.UID, true
}

// Failures returns how often the gang failed in a row. It is 0 again once the quorum is bound.
func (s *State) Failures() int { return s.failures }

// Cured reports whether something happened since the last plan was asked for that may make the next one succeed.
func (s *State) Cured() bool { return s.cured }

// Woken reports whether the lead was activated on that account and has not been tried yet.
func (s *State) Woken() bool { return s.told }

// RetryAt returns the end of the backoff, zero if the gang is not backing off.
func (s *State) RetryAt() time.Time { return s.retryAt }

// Counts returns how many members are where.
func (s *State) Counts() Counts {
	return Counts{
		Members: len(s.members), Gated: s.count(StageGated), Pending: s.count(StagePending), Planned: s.count(StagePlanned),
		Reserved: s.count(StageReserved), Admitted: s.count(StageAdmitted), Leaving: s.count(StageLeaving),
		Bound: s.count(StageBound), Running: s.tally.running, Succeeded: s.succeeded(), Failed: s.count(StageFailed),
		Alive: s.tally.alive,
	}
}

// Stage returns where a member stands, false if it is not known.
func (s *State) Stage(uid ledger.PodUID) (Stage, bool) {
	m := s.members[uid]
	if m == nil {
		return 0, false
	}
	return m.stage, true
}

// Nodes returns the nodes of the alive members, each once, sorted.
func (s *State) Nodes() []ledger.NodeName {
	nodes := map[ledger.NodeName]bool{}
	for _, m := range s.members {
		if m.alive() {
			nodes[m.node] = true
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}
