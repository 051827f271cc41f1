package gputopology

import (
	"sync/atomic"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// generations remembers the latest of the generations that were added: numbers of NodeInfos, which grow and of which no two nodes
// have one in common, and with which the scheduler's cache marks every change of a node. The zero value is empty; it is safe for
// concurrent use.
type generations struct {
	// slots has each generation at its place modulo the length, until another takes the place.
	slots [1 << 14]atomic.Int64
}

func (g *generations) slot(n int64) *atomic.Int64 { return &g.slots[uint64(n)%uint64(len(g.slots))] }

// has reports whether a generation was added and is not forgotten yet. 0 is no generation.
func (g *generations) has(n int64) bool { return n != 0 && g.slot(n).Load() == n }

func (g *generations) add(n int64) { g.slot(n).Store(n) }

// catchUp is observe.Observer.CatchUp, which looks at a state of a node once. In a full cluster nearly every node is refused for
// every pod, and to ask by the node's name whether it was looked at takes longer than all else in Filter. Nodes that DRA
// describes are looked at each time: its slices are no part of the state. a is the node, nil for one without GPUs.
func (p *Plugin) catchUp(a *ledger.NodeGPUAllocation, node string, generation int64) bool {
	if a != nil && a.Topology != nil && a.Topology.Source() == inventory.SourceDRA {
		return p.engine.Observer().CatchUp(node, generation)
	}
	if p.caughtUp.has(generation) {
		return false
	}
	changed := p.engine.Observer().CatchUp(node, generation)
	p.caughtUp.add(generation)
	return changed
}
