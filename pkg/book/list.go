package book

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Words for groups that are no gang, beside the names of the phases.
const (
	// PhaseAbsent is a group that only pods name.
	PhaseAbsent = "absent"
	// PhaseInvalid is a PodGroup that cannot be read.
	PhaseInvalid = "invalid"
	// PhaseSingles is a PodGroup whose members are scheduled one by one.
	PhaseSingles = "singles"
)

// Listed is a group as it was at one moment. The copy is the caller's.
type Listed struct {
	Key GroupKey
	// UID is "" where there is no PodGroup of the name.
	UID gang.GroupUID
	// Phase is that of the gang, or one of the words for groups that are none.
	Phase     string
	MinMember int
	// Members exist. Held are those with a node: planned, on their way, or bound; Bound are among them.
	Members, Held, Bound int
	// Reason says why the group waits, "" if it does not.
	Reason string
	// PlanID is the name of the plan that was made last of those in force, "" if none is.
	PlanID string
	// Planned are the members that a plan in force has a place for, in ascending order of name.
	Planned []ListedMember
}

// ListedMember is one member's part of a plan; Rank is -1 if it has none.
type ListedMember struct {
	Pod  string
	Node ledger.NodeName
	Rank int
}

// keys returns the names of all groups, in no order.
func (b *Book) keys() []GroupKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]GroupKey, 0, len(b.groups))
	for key := range b.groups {
		out = append(out, key)
	}
	return out
}

// Gangs returns the groups that come after a key, in ascending order of key, and whether there are more. It ends after limit
// groups, or with the one that makes the planned members reach most. Groups are read one by one, so that the lock is held
// for no longer than one of them takes: those that come or go meanwhile are among them or not.
func (b *Book) Gangs(after GroupKey, limit, most int) (gangs []Listed, more bool) {
	keys := b.keys()
	slices.SortFunc(keys, GroupKey.compare)
	at, found := slices.BinarySearchFunc(keys, after, GroupKey.compare)
	if found {
		at++
	}
	planned := 0
	for i, key := range keys[at:] {
		if len(gangs) == limit || planned >= most {
			return gangs, len(keys[at+i:]) > 0
		}
		if g, ok := b.listed(key); ok {
			planned += len(g.Planned)
			slices.SortFunc(g.Planned, func(x, y ListedMember) int { return cmp.Compare(x.Pod, y.Pod) })
			gangs = append(gangs, g)
		}
	}
	return gangs, false
}

// listed copies one group. What takes longer is left to the caller.
func (b *Book) listed(key GroupKey) (Listed, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil {
		return Listed{}, false
	}
	l := Listed{Key: key, UID: g.facts.UID, Phase: g.phase(), MinMember: g.facts.Spec.MinMember, Members: len(g.members), Reason: g.reason}
	for _, m := range g.members {
		if m.sighting.Node != "" && !m.ended() {
			l.Bound++
		}
		if m.node != "" {
			l.Held++
		}
		if m.plan == nil {
			continue
		}
		l.Planned = append(l.Planned, ListedMember{Pod: m.pod.Name, Node: m.plan.Node, Rank: m.plan.Rank})
		if later(m.plan.ID, l.PlanID) {
			l.PlanID = m.plan.ID
		}
	}
	return l, true
}

// later reports whether a plan of a group was made after another one: their names differ by a number at the end.
func later(a, b string) bool { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) > 0 }

// phase is where the group stands, in one word.
func (g *group) phase() string {
	switch {
	case !g.known:
		return PhaseAbsent
	case g.facts.Invalid != "":
		return PhaseInvalid
	case g.state == nil:
		return PhaseSingles
	}
	return g.state.Phase().String()
}

// Phases counts the groups by phase; those without any are 0.
func (b *Book) Phases() map[string]int {
	counts := map[string]int{PhaseAbsent: 0, PhaseInvalid: 0, PhaseSingles: 0}
	for p := gang.PhaseForming; p <= gang.PhaseFinished; p++ {
		counts[p.String()] = 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		counts[g.phase()]++
	}
	return counts
}
