package ledger

import (
	"cmp"
	"slices"
)

// Entry is a holding and its stage.
type Entry struct {
	Holding
	Stage Stage
}

// Holding returns what a pod holds and its stage; false if it holds nothing. The copy is the caller's.
func (l *Ledger) Holding(uid PodUID) (Holding, Stage, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[uid]
	if p == nil {
		return Holding{}, 0, false
	}
	return p.clone(), p.stage, true
}

// On returns the holdings on a node, known or not, in ascending order of UID. The copies are the caller's.
func (l *Ledger) On(name NodeName) []Entry {
	entries := l.on(name)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.UID, b.UID) })
	return entries
}

func (l *Ledger) on(name NodeName) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes.node(name)
	if n == nil {
		return nil
	}
	out := make([]Entry, len(n.pods))
	for i, p := range n.pods {
		out[i] = Entry{Holding: p.clone(), Stage: p.stage}
	}
	return out
}

// Pods returns the UIDs of all pods that hold something, in ascending order.
func (l *Ledger) Pods() []PodUID {
	uids := l.uids()
	slices.Sort(uids)
	return uids
}

func (l *Ledger) uids() []PodUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]PodUID, 0, len(l.pods))
	for uid := range l.pods {
		out = append(out, uid)
	}
	return out
}

// Stats counts what the ledger has.
type Stats struct {
	// Assumed, Unknown and Bound are the holdings by stage.
	Assumed, Unknown, Bound int
	// Tombstones are the released UIDs that are still remembered.
	Tombstones int
}

// Pods is the number of holdings.
func (s Stats) Pods() int { return s.Assumed + s.Unknown + s.Bound }

// Stats returns the counts of this moment.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{
		Assumed: l.staged[StageAssumed], Unknown: l.staged[StageUnknown], Bound: l.staged[StageBound],
		Tombstones: len(l.tombstones.set),
	}
}
