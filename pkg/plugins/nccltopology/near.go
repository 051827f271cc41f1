package nccltopology

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// mates counts the members of a gang that have a node by the domains that they are in.
type mates struct {
	fabric *topology.Fabric
	// inside is indexed by level: how many members each of Fabric.Domains holds, by its index.
	inside [topology.LevelCluster]map[int]int
}

// newMates returns nil if none of the nodes is in the fabric.
func newMates(f *topology.Fabric, nodes []ledger.NodeName) *mates {
	var m *mates
	for _, name := range nodes {
		pos, ok := f.Position(string(name))
		if !ok {
			continue
		}
		if m == nil {
			m = &mates{fabric: f}
			for l := range m.inside {
				m.inside[l] = map[int]int{}
			}
		}
		for l := range m.inside {
			m.inside[l][f.Index(topology.Level(l), pos)]++
		}
	}
	return m
}

// nearness is how near a node is to a gang, as the raw score of a member that comes by itself:
//
//	bits 40..  7 - level, where level is the narrowest at which the node shares a domain with a mate: 0 host, 1 nvlink,
//	           2 leaf, 3 spine, 4 core, 5 zone, 6 region, 7 none but the cluster
//	bits 16-39 the sum over all mates of 7 - (narrowest level shared with that mate): more mates in the domain count
//	           more, then how near the others are
//	bits 0-15  packing of the node's domain, 0 to 1000 (room.packing)
type nearness int64

const (
	sharedShift = 40
	sumShift    = 16
	maxSum      = 1<<(sharedShift-sumShift) - 1
)

// of returns the nearness of the node at a position, -1 for one outside of the fabric, whose packing is given.
func (m *mates) of(pos, packing int) nearness {
	if pos < 0 {
		return nearness(packing)
	}
	shared, sum := 0, 0
	for l := range m.inside {
		n := m.inside[l][m.fabric.Index(topology.Level(l), pos)]
		if n > 0 {
			shared++ // domains are nested: shared at this level, it is shared at every wider one
		}
		sum += n
	}
	return nearness(shared<<sharedShift | min(sum, maxSum)<<sumShift | packing)
}
