package engine

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// places remembers where nodes stand, by the generation of their NodeInfo: a number that no two nodes have in common, though
// several states of one node may. A cycle looks at hundreds of nodes several times, and in a large cluster to find one by its
// name takes longer than what is then done with it. The zero value is empty; it is safe for concurrent use.
type places struct {
	// slots has each place at its generation modulo the length, until another takes the slot. The generations of a cluster that runs
	// for a while are as good as random: of 10 000 nodes one in fourteen shares its slot with another, and each then puts the other
	// out.
	slots [1 << 17]atomic.Pointer[place]
}

// place is where a node stands. It is immutable, and holds nothing that is larger than a node's entry: it stays until its slot
// is wanted.
type place struct {
	generation int64
	node       ledger.Ref
	// version is that of the fabric that position is in, 0 for none; position is -1 for a node that it does not hold.
	version  uint64
	position int
}

// at returns the place that has the generation, nil if there is none.
func (p *places) at(generation int64) *place {
	if known := p.slot(generation).Load(); known != nil && known.generation == generation {
		return known
	}
	return nil
}

func (p *places) slot(generation int64) *atomic.Pointer[place] {
	return &p.slots[uint64(generation)%uint64(len(p.slots))]
}

func (p *places) put(known *place) {
	if known.generation != 0 { // of a NodeInfo that nothing has set
		p.slot(known.generation).Store(known)
	}
}

// AllocationOf is the ledger's Node for a node of the scheduler's snapshot, which must have a Node.
func (e *Engine) AllocationOf(info fwk.NodeInfo) *ledger.NodeGPUAllocation {
	generation := info.GetGeneration()
	known := e.places.at(generation)
	if known == nil {
		known = &place{generation: generation, node: e.ledger.Ref(ledger.NodeName(info.Node().Name))}
		e.places.put(known)
	}
	if a := known.node.Node(); a != nil {
		return a
	}
	return e.ledger.Node(ledger.NodeName(info.Node().Name)) // the ledger may have made another entry since
}

// PositionOf is the fabric's Position for a node of the scheduler's snapshot, which must have a Node. f is what Fabric has returned
// at some time, and not nil.
func (e *Engine) PositionOf(info fwk.NodeInfo, f *topology.Fabric) (int, bool) {
	generation := info.GetGeneration()
	known := e.places.at(generation)
	if known == nil || known.version != f.Version() {
		name := info.Node().Name
		next := &place{generation: generation, version: f.Version(), position: -1}
		if known != nil {
			next.node = known.node
		} else {
			next.node = e.ledger.Ref(ledger.NodeName(name))
		}
		if at, ok := f.Position(name); ok {
			next.position = at
		}
		e.places.put(next)
		known = next
	}
	return known.position, known.position >= 0
}
