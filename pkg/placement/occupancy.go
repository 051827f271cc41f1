package placement

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Occupancy is how many cards are free in each domain that is worth keeping whole for gangs: for each node the narrowest
// domain above the host, and up to the widest level that is packed, that a label names, else the node itself. It is immutable
// and safe for concurrent use. Which cards count says ledger.NodeGPUAllocation.WholeCards.
type Occupancy struct {
	fabric *topology.Fabric
	// domains has the number of each position's domain, and free and total what is in it, by that number.
	domains     []int32
	free, total []int32
}

// At returns how many cards are free in the domain of the node at a position of the fabric, and how many there are.
func (o *Occupancy) At(position int) (free, total int) {
	d := o.domains[position]
	return int(o.free[d]), int(o.total[d])
}

// Tally keeps an Occupancy in line with the states of the nodes: a change of one node costs the same whatever the size of the
// cluster. It is not safe for concurrent use.
type Tally struct {
	now *Occupancy
	// nodes is what was counted of each position.
	nodes []cardCount
	// shared says that now was given out and must not be written to.
	shared bool
}

// cardCount is how many cards of one node are free, and how many there are.
type cardCount struct{ free, total int32 }

// NewTally returns a tally in which no node has cards. It is nil where no label names a domain above the host and up to the
// widest level: there is nothing to keep whole then.
func NewTally(f *topology.Fabric, widest topology.Level) *Tally {
	var levels []topology.Level
	for l := topology.LevelNVLink; l <= widest; l++ {
		if f.Known(l) {
			levels = append(levels, l)
		}
	}
	if len(levels) == 0 {
		return nil
	}
	t := &Tally{now: &Occupancy{fabric: f, domains: make([]int32, f.Len())}, nodes: make([]cardCount, f.Len())}
	number, end := int32(-1), 0 // the last domain given out, and the position behind it
	for pos := range t.now.domains {
		if pos >= end {
			number, end = number+1, homeOf(f, levels, pos).End
		}
		t.now.domains[pos] = number
	}
	t.now.free, t.now.total = make([]int32, number+1), make([]int32, number+1)
	return t
}

// homeOf is the narrowest domain at one of the levels that a label names, else the node by itself.
func homeOf(f *topology.Fabric, levels []topology.Level, pos int) topology.Domain {
	for _, l := range levels {
		if d := f.Domain(l, pos); !d.Unknown {
			return d
		}
	}
	return f.Domain(topology.LevelHost, pos)
}

// Set replaces what is counted of a node by its state, nil for one that is not known. A node that the fabric does not hold
// changes nothing.
func (t *Tally) Set(name ledger.NodeName, a *ledger.NodeGPUAllocation) {
	pos, ok := t.now.fabric.Position(string(name))
	if !ok {
		return
	}
	free, total := a.WholeCards()
	now, was := cardCount{int32(free), int32(total)}, t.nodes[pos]
	if now == was {
		return
	}
	if t.shared {
		t.now = &Occupancy{fabric: t.now.fabric, domains: t.now.domains, free: slices.Clone(t.now.free), total: slices.Clone(t.now.total)}
		t.shared = false
	}
	d := t.now.domains[pos]
	t.now.free[d] += now.free - was.free
	t.now.total[d] += now.total - was.total
	t.nodes[pos] = now
}

// Occupancy returns the counts of this moment.
func (t *Tally) Occupancy() *Occupancy {
	t.shared = true
	return t.now
}
