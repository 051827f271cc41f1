package ledger

import (
	"cmp"
	"iter"
	"slices"
)

// Entry is a holding and its stage.
type Entry struct {
	Holding
	Stage Stage
	// Revision names the holding: two entries of one UID with the same revision hold the same. It grows with every change
	// of what a pod holds, also across a release, and not with a change of the stage alone.
	Revision uint64
}

// Entry returns the pod's entry; false if it holds nothing. The copy is the caller's.
func (l *Ledger) Entry(uid PodUID) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[uid]
	if p == nil {
		return Entry{}, false
	}
	return p.entry(), true
}

// Mark is an entry without what it holds.
type Mark struct {
	UID PodUID
	// Pod and Node are Holding's.
	Pod  string
	Node NodeName
	// Stage and Revision are Entry's.
	Stage    Stage
	Revision uint64
}

// Marks yields a mark for every holding, node by node in no order. The mutex is held for one node at a time, and not while
// the caller has a mark: each node's marks are those of one moment, and a pod that moves meanwhile may be seen twice or not
// at all.
func (l *Ledger) Marks() iter.Seq[Mark] {
	return func(yield func(Mark) bool) {
		var marks []Mark
		for n := range l.nodes.all() {
			marks = l.marksOn(n, marks[:0])
			for _, m := range marks {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// marksOn appends the marks of a node's holdings; a node whose entry was dropped has none.
func (l *Ledger) marksOn(n *node, out []Mark) []Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range n.pods {
		out = append(out, Mark{UID: p.UID, Pod: p.Pod, Node: p.Node, Stage: p.stage, Revision: p.revision})
	}
	return out
}

// Released reports whether the pod is remembered as gone: Assume and Adopt refuse it.
func (l *Ledger) Released(uid PodUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tombstones.has(uid)
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
		out[i] = p.entry()
	}
	return out
}

func (p *pod) entry() Entry { return Entry{Holding: p.clone(), Stage: p.stage, Revision: p.revision} }

// NodeNames returns the names of all nodes that are known or have holdings, in ascending order. It takes no lock.
func (l *Ledger) NodeNames() []NodeName { return l.nodes.names() }

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
		Tombstones: l.tombstones.count,
	}
}
