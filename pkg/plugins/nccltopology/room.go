package nccltopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
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

// packing is placement.Packing of the domain of the node at a position. Where nothing describes the network it is 1000 for every node.
// A node without a position gets 0.
func (r *room) packing(position int) int {
	switch {
	case r == nil:
		return placement.PackedFull
	case position < 0:
		return 0
	}
	free, _ := r.At(position)
	return placement.Packing(free, r.want, r.largest)
}
