package gang

import (
	"cmp"
	"container/heap"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// member is what is known of one pod of the group.
type member struct {
	seen  Sighting
	stage Stage
	// node and planID are where it is planned, or node is where it is bound.
	node   ledger.NodeName
	planID string
	// together is true if it was last admitted by a plan, not alone.
	together bool
	// evicted is true once its eviction was decided.
	evicted bool
	// slot is its index in the queue of pending members, -1 if it is not there.
	slot int
}

// order is the order of members: known ranks first, then name, then UID.
func order(a, b *member) int {
	if (a.seen.Rank < 0) != (b.seen.Rank < 0) {
		if a.seen.Rank < 0 {
			return 1
		}
		return -1
	}
	rank := 0
	if a.seen.Rank >= 0 {
		rank = cmp.Compare(a.seen.Rank, b.seen.Rank)
	}
	return cmp.Or(rank, cmp.Compare(a.seen.Name, b.seen.Name), cmp.Compare(a.seen.UID, b.seen.UID))
}

func (m *member) terminal() bool { return m.stage == StageSucceeded || m.stage == StageFailed }

// alive is what counts towards the quorum of the bound.
func (m *member) alive() bool {
	return m.stage == StageBound && !m.seen.Terminating && !m.seen.NodeLost && !m.evicted
}

// running is true while containers of m run, as far as anybody knows. A member that is being evicted still runs.
func (m *member) running() bool {
	return m.stage == StageBound && m.seen.Running && !m.seen.Terminating && !m.seen.NodeLost
}

// held is what counts towards the quorum of those on their way.
func (m *member) held() bool {
	switch m.stage {
	case StagePlanned, StageReserved:
		return true
	case StageAdmitted:
		return !m.seen.Terminating && !m.evicted
	default:
		return false
	}
}

// dueOut is a member that has to be evicted: it was decided, and the member is bound or about to be.
func (m *member) dueOut() bool {
	return m.evicted && !m.seen.Terminating && (m.stage == StageBound || m.stage == StageAdmitted)
}

// tally counts the members that exist.
type tally struct {
	stages  [stageCount]int
	alive   int
	running int
	held    int
	dueOut  int
	binding int // admitted by a plan
}

func (t *tally) add(m *member, d int) {
	t.stages[m.stage] += d
	if m.alive() {
		t.alive += d
	}
	if m.running() {
		t.running += d
	}
	if m.held() {
		t.held += d
	}
	if m.dueOut() {
		t.dueOut += d
	}
	if m.stage == StageAdmitted && m.together {
		t.binding += d
	}
}

// pendingQueue is a heap of the pending members, the first in order at its root.
type pendingQueue []*member

func (q pendingQueue) Len() int           { return len(q) }
func (q pendingQueue) Less(i, j int) bool { return order(q[i], q[j]) < 0 }
func (q pendingQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i, j
}

// Push is for container/heap.
func (q *pendingQueue) Push(x any) {
	if m, ok := x.(*member); ok {
		m.slot = len(*q)
		*q = append(*q, m)
	}
}

// Pop is for container/heap.
func (q *pendingQueue) Pop() any {
	last := len(*q) - 1
	m := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	m.slot = -1
	return m
}

// change applies edit to a member that exists and keeps what is derived from it.
func (s *State) change(m *member, edit func()) {
	s.tally.add(m, -1)
	edit()
	s.tally.add(m, +1)
	switch pending := m.stage == StagePending; {
	case pending && m.slot < 0:
		heap.Push(&s.pending, m)
	case pending:
		heap.Fix(&s.pending, m.slot)
	case m.slot >= 0:
		heap.Remove(&s.pending, m.slot)
	}
}

// move puts a member into another stage.
func (s *State) move(m *member, to Stage) {
	s.change(m, func() { m.stage = to })
}

// idle puts a member back to where it waits for a plan.
func (s *State) idle(m *member) {
	s.change(m, func() {
		m.stage, m.node, m.planID, m.together = StagePending, "", "", false
		if m.seen.Gated {
			m.stage = StageGated
		}
	})
}

// add enters a new member, gated until its sighting says otherwise.
func (s *State) add(seen Sighting) *member {
	m := &member{seen: seen, stage: StageGated, slot: -1, together: seen.Together}
	s.members[seen.UID] = m
	s.tally.add(m, +1)
	return m
}

// drop removes a member.
func (s *State) drop(m *member) {
	s.tally.add(m, -1)
	if m.slot >= 0 {
		heap.Remove(&s.pending, m.slot)
	}
	delete(s.members, m.seen.UID)
}
