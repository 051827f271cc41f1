package placement

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// maxKinds is how many kinds are kept whatever the number of nodes. Thousands of nodes are of few kinds: a shape of 8 cards has
// 256 sets of free ones.
const maxKinds = 4096

// kind is cards in one state, as far as speed depends on it: nodes of one kind have the same rates for every request.
type kind struct {
	shape [32]byte
	free  topology.GPUSet
	nics  int
}

// fact is what follows from a node's view alone.
type fact struct {
	view *allocate.View
	// free is the number of cards that are free whole, kind an index into facts.kinds.
	free, kind int32
}

// facts are what a planner keeps of the last problem's nodes, by their index. A view that a planner was given does not change
// (Node.View), so one that was looked at is not looked at again while its node comes with it: of 10,000 nodes, that would be
// as many cache misses a plan for each of the view, the topology and the shape.
type facts struct {
	nodes []fact
	kinds []kind
	known map[kind]int32
}

// sound reports whether the view was found to be sound as that of node i.
func (f *facts) sound(i int, v *allocate.View) bool { return i < len(f.nodes) && f.nodes[i].view == v }

// keep learns what is new about the nodes of a problem that was checked.
func (f *facts) keep(p *Problem) {
	if f.known == nil || len(f.kinds) > max(maxKinds, 2*len(p.Nodes)) {
		*f = facts{nodes: f.nodes[:0], known: map[kind]int32{}}
		f.kindOf(nil) // the kind of a new entry
	}
	clear(f.nodes[min(len(f.nodes), len(p.Nodes)):]) // the views of nodes that are gone are not kept
	had := len(f.nodes)
	f.nodes = slices.Grow(f.nodes, max(0, len(p.Nodes)-had))[:len(p.Nodes)]
	if had < len(p.Nodes) {
		clear(f.nodes[had:])
	}
	for i := range p.Nodes {
		if v := p.Nodes[i].View; f.nodes[i].view != v {
			f.nodes[i] = fact{view: v, kind: f.kindOf(v)}
			if v != nil && v.Topology != nil {
				f.nodes[i].free = int32(v.Free.Len())
			}
		}
	}
}

// kindOf returns the kind of a view; all without a topology are of the first.
func (f *facts) kindOf(v *allocate.View) int32 {
	var key kind
	if v != nil && v.Topology != nil {
		key = kind{shape: v.Topology.Shape().Fingerprint(), free: v.Free, nics: max(1, NICs(v.Topology))}
	}
	at, ok := f.known[key]
	if !ok {
		at = int32(len(f.kinds))
		f.kinds, f.known[key] = append(f.kinds, key), at
	}
	return at
}
