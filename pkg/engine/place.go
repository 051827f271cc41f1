package engine

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// places remembers where nodes stand, by the generation of their NodeInfo: a number that the scheduler's cache gives every state
// of any node, and no two states the same. A cycle looks at hundreds of nodes several times, and in a large cluster to find one
// by its name takes longer than what is then done with it. The zero value is empty; it is safe for concurrent use.
type places struct {
	// slots has each place at its generation modulo the length, until another takes the slot.
	slots [1 << 14]atomic.Pointer[place]
}

// place is where a node stands in the ledger and in a fabric. It is immutable.
type place struct {
	generation int64
	node       ledger.Ref
	fabric     *topology.Fabric
	// position is -1 for a node that the fabric does not hold.
	position int
}

// placeOf returns the node's place, in fabric f if that is not nil.
func (e *Engine) placeOf(info fwk.NodeInfo, f *topology.Fabric) *place {
	generation := info.GetGeneration()
	slot := &e.places.slots[uint64(generation)%uint64(len(e.places.slots))]
	if p := slot.Load(); p != nil && p.generation == generation && p.fabric == f {
		return p
	}
	name := info.Node().Name
	p := &place{generation: generation, node: e.ledger.Ref(ledger.NodeName(name)), fabric: f, position: -1}
	if f != nil {
		if pos, ok := f.Position(name); ok {
			p.position = pos
		}
	}
	if generation != 0 { // of a NodeInfo that nothing has set
		slot.Store(p)
	}
	return p
}

// AllocationOf is the ledger's Node for a node of the scheduler's snapshot, which must have a Node.
func (e *Engine) AllocationOf(info fwk.NodeInfo) *ledger.NodeGPUAllocation {
	if a := e.placeOf(info, e.Fabric()).node.Node(); a != nil {
		return a
	}
	return e.ledger.Node(ledger.NodeName(info.Node().Name))
}

// PositionOf is the fabric's Position for a node of the scheduler's snapshot, which must have a Node.
func (e *Engine) PositionOf(info fwk.NodeInfo, f *topology.Fabric) (int, bool) {
	position := e.placeOf(info, f).position
	return position, position >= 0
}
