package ledger

import "iter"

// journalLength is the number of publications that the ledger remembers: a gang on a thousand nodes, or what 1024 pods took.
// A reader that is further behind reads all nodes.
const journalLength = 1024

// journal lists the nodes whose states were published last. Ledger.mu guards it.
type journal struct {
	// count is the number of publications since the ledger began. The one with number i is at i modulo the length.
	count uint64
	nodes [journalLength]*node
}

func (j *journal) add(n *node) {
	j.nodes[j.count%journalLength] = n
	j.count++
}

// after appends the nodes that were published after the first n publications to out, the oldest first; false if the journal
// does not remember all of them.
func (j *journal) after(n uint64, out []*node) ([]*node, bool) {
	if j.count-n > journalLength {
		return out, false
	}
	from, to := n%journalLength, j.count%journalLength
	if n == j.count || from < to {
		return append(out, j.nodes[from:to]...), true
	}
	return append(append(out, j.nodes[from:]...), j.nodes[:to]...), true
}

// Cursor reads what has changed of a ledger's nodes since it was read last, for those who keep sums over many nodes. Use
// Ledger.Follow. It is not safe for concurrent use; the ledger may change meanwhile.
type Cursor struct {
	ledger *Ledger
	// read is the number of publications that were read, begun says that there was a first time.
	read  uint64
	begun bool
	// whole and nodes are what Read found.
	whole bool
	nodes []*node
}

// Follow returns a cursor that has read nothing yet.
func (l *Ledger) Follow() *Cursor { return &Cursor{ledger: l} }

// Read finds the nodes that changed since the last call, for Changed. It returns true if these are all known nodes: at the
// first call, and where more changed than the ledger remembers. What the caller knew of any node is void then.
//
// The ledger's mutex is held to copy pointers.
func (c *Cursor) Read() (whole bool) {
	clear(c.nodes) // a node that is gone is not kept
	c.nodes, c.whole = c.nodes[:0], true
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	if c.begun {
		var all bool
		c.nodes, all = c.ledger.journal.after(c.read, c.nodes)
		c.whole = !all
	}
	c.read, c.begun = c.ledger.journal.count, true
	return c.whole
}

// Changed yields the nodes that Read found with their states as they are now, nil for one that is not known any more. A node may
// be yielded more than once, and one that changes after Read is found by the next one too. What was yielded of a node last holds
// until a Read finds it again. It takes no lock.
func (c *Cursor) Changed() iter.Seq2[NodeName, *NodeGPUAllocation] {
	return func(yield func(NodeName, *NodeGPUAllocation) bool) {
		for _, n := range c.nodes {
			if !yield(n.name, n.state.Load()) {
				return
			}
		}
		if !c.whole {
			return
		}
		for a := range c.ledger.States() {
			if !yield(a.Name, a) {
				return
			}
		}
	}
}
