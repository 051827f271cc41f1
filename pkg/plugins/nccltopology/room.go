package nccltopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Packing is in thousandths. A domain with room for all has at least packedEven, one without has less.
const (
	packedFull = 1000
	packedEven = 500
)

// room is how full the domains are that one cycle looks at. It is immutable.
type room struct {
	*placement.Occupancy
	// want is how many cards the pod and those that wait beside it need in one domain.
	want int
	// largest is the number of cards of the largest domain that the cycle looks at, at least 1.
	largest int
}

// newRoom returns how full the nodes' domains are, also by what is on nodes that are not among the given ones. It is nil where
// there is nothing to keep free.
func (p *Plugin) newRoom(f *topology.Fabric, nodes []fwk.NodeInfo, want int) *room {
	o := p.engine.Occupancy(f)
	if o == nil {
		return nil
	}
	r := &room{Occupancy: o, want: want, largest: 1}
	for _, info := range nodes {
		if info.Node() == nil {
			continue
		}
		if pos, ok := p.engine.PositionOf(info, f); ok {
			_, total := o.At(pos)
			r.largest = max(r.largest, total)
		}
	}
	return r
}

// packing says how well the domain of the node at a position suits those that want room, in thousandths, so that whole
// domains stay free:
//
//	free >= want   1000 - 500 x free/largest    the fuller the better
//	else           499 x free/largest           the most of them together, but never before one that holds all
//
// free is what is free in the domain, largest the number of cards of the largest domain looked at. Where nothing describes
// the network it is 1000 for every node. Example: racks of 32 cards with 24, 32 and 4 of them free: a single gets 625, 500
// and 938; the first of three pods that want 8 cards each gets 625, 500 and 62. A node without a position gets 0.
func (r *room) packing(position int) int {
	switch {
	case r == nil:
		return packedFull
	case position < 0:
		return 0
	}
	free, _ := r.At(position)
	free = min(free, r.largest)
	if free >= r.want {
		return packedFull - (packedFull-packedEven)*free/r.largest
	}
	return (packedEven - 1) * free / r.largest
}
