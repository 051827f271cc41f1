package ledger

import (
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Ledger records who holds which cards. Use New. All methods may be called at the same time from any goroutine; none
// blocks on anything but the ledger's one mutex, under which there is memory work only.
type Ledger struct {
	// nodes has an entry for every node that is known or has holdings. It is read without a lock and written under mu.
	nodes directory

	// mu guards everything below, the guarded fields of every node, and the order of publications. It is the last
	// lock to take: nothing else is locked, called back or formatted while it is held.
	mu sync.Mutex
	// pods has one entry a holding.
	pods map[PodUID]*pod
	// tombstones are the UIDs released last.
	tombstones tombstones
	// generation is the last generation given to a published state of any node. One counter for all of them makes
	// a node's generations grow across its removal without an entry for nodes that are gone.
	generation uint64
	// journal has the nodes published last; news has a token if any was since News was received from last.
	journal journal
	news    chan struct{}
	// revision is the last one given to a holding.
	revision uint64
	// staged counts the holdings by stage.
	staged [StageBound + 1]int
	// touched lists nodes with changes that are not published yet; empty between operations.
	touched []*node
	// scratch is derive's list of a node's holdings, kept for its memory.
	scratch []*Holding
	// spare are entries for reuse, so that taking and giving back cards needs no new memory.
	spare []*pod
}

// node is one node's entry.
type node struct {
	name NodeName
	// state is what readers see; nil while the node is not known.
	state atomic.Pointer[NodeGPUAllocation]

	// The rest is guarded by Ledger.mu.

	// known says that the cluster has the node; topology is its cards, nil while nothing is known of them.
	known    bool
	topology *topology.Node
	// pods are the holdings on the node, in no order; the first few stand in room.
	pods []*pod
	room [6]*pod
	// dirty says that the node is in Ledger.touched.
	dirty bool
}

// pod is one holding.
type pod struct {
	Holding
	stage    Stage
	revision uint64 // Entry.Revision
	node     *node
	// at is the entry's place in node.pods.
	at int
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		nodes: directory{seed: maphash.MakeSeed()}, pods: map[PodUID]*pod{}, tombstones: tombstones{limit: maxTombstones}, news: make(chan struct{}, 1),
	}
}

// News returns the channel that has something to receive once any node's state has changed since the last time that something
// was received from it: one reader may wait on it, and then read a Cursor.
func (l *Ledger) News() <-chan struct{} { return l.news }

// SetNode makes a node known and sets its cards; t is nil if nothing is known of them: then no pod can take any.
// Holdings stay and are matched to the cards anew, by UUID. The same t again changes nothing.
func (l *Ledger) SetNode(name NodeName, t *topology.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.entry(name)
	if n.known && n.topology == t {
		return
	}
	n.known, n.topology = true, t
	l.refresh(n)
}

// RemoveNode takes a node out of sight: Node returns nil and no pod can take its cards. Holdings stay until their
// pods go, and count again if the node returns. Nothing else of the node is kept.
func (l *Ledger) RemoveNode(name NodeName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes.node(name)
	if n == nil || !n.known {
		return
	}
	n.known, n.topology = false, nil
	l.refresh(n)
}

// Node returns a node's state, nil if the node is not known. It takes no lock; the state is immutable.
//
// States of different nodes are published one after the other. A pod that moves is charged on its new node before it
// leaves the old one, so a reader may see it twice for a moment, never nowhere.
func (l *Ledger) Node(name NodeName) *NodeGPUAllocation {
	n := l.nodes.node(name)
	if n == nil {
		return nil
	}
	return n.state.Load()
}

// Ref is a node's entry, for those who ask for one node often: a look at its state by Ref.Node costs no look at its name. The
// zero value is of no node.
type Ref struct{ entry *node }

// Ref returns the entry of a node, the zero value if there is none.
func (l *Ledger) Ref(name NodeName) Ref { return Ref{l.nodes.node(name)} }

// Node returns the state of the node as it is now, as Ledger.Node does. It is nil also where the ledger has dropped the entry and
// perhaps made another since: who gets nil must ask by name.
func (r Ref) Node() *NodeGPUAllocation {
	if r.entry == nil {
		return nil
	}
	return r.entry.state.Load()
}

// Nodes yields the state of every known node in ascending order of name. It takes no lock: each state is the node's
// when it is yielded, and nodes that come or go meanwhile may or may not be seen.
func (l *Ledger) Nodes() iter.Seq[*NodeGPUAllocation] {
	return func(yield func(*NodeGPUAllocation) bool) {
		for _, name := range l.nodes.names() {
			if a := l.Node(name); a != nil && !yield(a) {
				return
			}
		}
	}
}

// States yields the same as Nodes in no order, in a fraction of the time.
func (l *Ledger) States() iter.Seq[*NodeGPUAllocation] {
	return func(yield func(*NodeGPUAllocation) bool) {
		for n := range l.nodes.all() {
			if a := n.state.Load(); a != nil && !yield(a) {
				return
			}
		}
	}
}

// entry returns the node's entry, a new one where there is none.
func (l *Ledger) entry(name NodeName) *node {
	if n := l.nodes.node(name); n != nil {
		return n
	}
	n := &node{name: name}
	n.pods = n.room[:0]
	l.nodes.add(n)
	return n
}

// refresh publishes a node's state, derived from nothing but its cards and holdings, or drops the entry of a node
// that is neither known nor holds anything.
func (l *Ledger) refresh(n *node) {
	if !n.known {
		n.state.Store(nil)
		l.note(n)
		if len(n.pods) == 0 {
			l.nodes.remove(n.name)
		}
		return
	}
	l.publish(n, l.derived(n))
}

// derived is a node's state without a generation.
func (l *Ledger) derived(n *node) *NodeGPUAllocation {
	hs := l.scratch[:0]
	for _, p := range n.pods {
		hs = append(hs, &p.Holding)
	}
	a := derive(n.name, n.topology, nil, hs)
	a.Pods = int32(len(hs))
	if a.special != nil {
		a.special.extra = make([]Holding, len(hs))
		for i, h := range hs {
			a.special.extra[i] = h.clone()
		}
	}
	clear(hs)
	l.scratch = hs
	return a
}

// publish gives a state its generation and shows it to readers.
func (l *Ledger) publish(n *node, a *NodeGPUAllocation) {
	l.generation++
	a.Generation = l.generation
	n.state.Store(a)
	l.note(n)
}

// note writes down that a node was published.
func (l *Ledger) note(n *node) {
	l.journal.add(n)
	select {
	case l.news <- struct{}{}:
	default: // nobody has received the last one yet
	}
}

// touch marks a node as changed; flush publishes it.
func (l *Ledger) touch(n *node) {
	if !n.dirty {
		n.dirty = true
		l.touched = append(l.touched, n)
	}
}

// flush publishes the touched nodes once each, in the order in which they were touched first.
func (l *Ledger) flush() {
	for _, n := range l.touched {
		n.dirty = false
		l.refresh(n)
	}
	clear(l.touched)
	l.touched = l.touched[:0]
}

// insert records a holding that the ledger does not have. It publishes nothing.
func (l *Ledger) insert(n *node, h *Holding, stage Stage) {
	var p *pod
	if last := len(l.spare) - 1; last >= 0 {
		p, l.spare[last] = l.spare[last], nil
		l.spare = l.spare[:last]
	} else {
		p = &pod{Holding: Holding{Cards: make([]allocate.CardShare, 0, len(h.Cards))}}
	}
	p.Cards = append(p.Cards, h.Cards...)
	p.UnknownMIG = append(p.UnknownMIG, h.UnknownMIG...)
	cards, mig := p.Cards, p.UnknownMIG
	p.Holding = *h
	p.Node, p.Cards, p.UnknownMIG = n.name, cards, mig
	p.share(n.topology)
	l.revision++
	p.stage, p.revision, p.node, p.at = stage, l.revision, n, len(n.pods)
	n.pods = append(n.pods, p)
	l.pods[h.UID] = p
	l.staged[stage]++
}

// share has the cards of a holding named by the strings that its node has, where they are the same: those of a record were made when
// it was read, and would stay as long as the pod runs.
func (p *pod) share(t *topology.Node) {
	if t == nil {
		return
	}
	for i := range p.Cards {
		if c := &p.Cards[i]; c.Index >= 0 && c.Index < t.Len() && t.UUID(c.Index) == c.UUID {
			c.UUID = t.UUID(c.Index)
		}
	}
}

// drop removes a holding's record and returns its node. It publishes nothing.
func (l *Ledger) drop(p *pod) *node {
	n, last := p.node, len(p.node.pods)-1
	n.pods[p.at] = n.pods[last]
	n.pods[p.at].at = p.at
	n.pods[last] = nil
	n.pods = n.pods[:last]
	delete(l.pods, p.UID)
	l.staged[p.stage]--
	l.recycle(p)
	return n
}

// recycle keeps the memory of an entry that is no longer used, without what it held.
func (l *Ledger) recycle(p *pod) {
	const most, mostCards = 256, 16
	if len(l.spare) >= most || cap(p.Cards) > mostCards || cap(p.UnknownMIG) > mostCards {
		return
	}
	clear(p.Cards)
	clear(p.UnknownMIG)
	*p = pod{Holding: Holding{Cards: p.Cards[:0], UnknownMIG: p.UnknownMIG[:0]}}
	l.spare = append(l.spare, p)
}

// setStage moves a holding to another stage.
func (l *Ledger) setStage(p *pod, stage Stage) {
	l.staged[p.stage]--
	l.staged[stage]++
	p.stage = stage
}
