package placement

import (
	"fmt"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// FabricRates says how fast the edges of a ring are that leave a node.
//
//	inside a node                 the bottleneck of the best ring over the cards, by package allocate
//	to a node of the NVLink domain    NVLink
//	through a leaf switch or wider    NIC x (NICs of the node) / Oversubscription of the level
//
// all in MB/s, one way, from above 0 to 10 TB/s. The NICs of a node are those at PIX or PXB to one of its cards, at
// least one. A ring is as fast as its slowest part: the slowest node inside, and the slowest node at the widest level
// that the gang crosses.
//
// Example: two nodes of 8 H100 with 8 NICs of 400 Gb/s. Inside, NVSwitch gives 370.8 GB/s. Below one leaf switch the edge
// has 8 x 50 / 1 = 400 GB/s, and the ring runs at 370.8 GB/s; under two leaves of one spine it has 8 x 50 / 1.2 = 333.3
// GB/s, and so has the ring.
type FabricRates struct {
	// NVLink is what a node gets of its NVLink domain.
	NVLink topology.Bandwidth
	// NIC is one network adapter.
	NIC topology.Bandwidth
	// Oversubscription is the factor by which a node's NICs are slower on the way through a level, 1 to 1000, not falling
	// from narrow to wide levels. Only LevelLeaf to LevelCluster are read.
	Oversubscription [topology.LevelCluster + 1]float64
}

// DefaultFabricRates returns the built-in rates.
//
//   - NVLink: 18 links of 40.1 GB/s, the port of a GB200 in NCCL's model (NVIDIA/nccl src/graph/topo.h). Two such nodes
//     reach what one does (NVIDIA GB300: 599 and 556 GB/s of bus bandwidth, Nebius), so the level costs nothing.
//   - NIC: 400 Gb/s, as in DGX H100, H200 and B200.
//   - Leaf: 1. A DGX SuperPOD is built without oversubscription.
//   - Spine: 1.2. Collectives of gangs that are spread over spines lose up to 17 % (arXiv 2509.15940).
//   - Core 2, zone 4, region 8, cluster 16: no figure is published; the ratios at which such networks are usually studied.
func DefaultFabricRates() FabricRates {
	return FabricRates{NVLink: 721_800, NIC: 50_000, Oversubscription: [topology.LevelCluster + 1]float64{
		topology.LevelLeaf: 1, topology.LevelSpine: 1.2, topology.LevelCore: 2, topology.LevelZone: 4,
		topology.LevelRegion: 8, topology.LevelCluster: 16,
	}}
}

// maxFabricRate is 10 TB/s.
const maxFabricRate topology.Bandwidth = 10_000_000

// Validate returns an *InputError that names the field where a rate or a factor is out of range.
func (r *FabricRates) Validate() error {
	for _, f := range [...]struct {
		name string
		rate topology.Bandwidth
	}{{"NVLink", r.NVLink}, {"NIC", r.NIC}} {
		if f.rate <= 0 || f.rate > maxFabricRate {
			return &InputError{Field: "rates." + f.name, Value: strconv.FormatInt(int64(f.rate), 10), Reason: "must be above 0 and at most 10000000 MB/s"}
		}
	}
	least := 1.0
	for l := topology.LevelLeaf; l <= topology.LevelCluster; l++ {
		factor := r.Oversubscription[l]
		if !(factor >= least && factor <= 1000) {
			return &InputError{
				Field: "rates.oversubscription." + l.String(), Value: strconv.FormatFloat(factor, 'g', -1, 64),
				Reason: fmt.Sprintf("must be at least that of the next narrower level, %g, and at most 1000", least),
			}
		}
		least = factor
	}
	return nil
}

// Edge returns the rate at which a node with so many NICs reaches a node with which it shares a domain of the level, but
// none of a narrower one. Without known NICs it counts as having one. At LevelHost the answer is 0: there the cards tell.
func (r *FabricRates) Edge(l topology.Level, nics int) topology.Bandwidth {
	switch {
	case l == topology.LevelHost || l > topology.LevelCluster:
		return 0
	case l == topology.LevelNVLink:
		return r.NVLink
	}
	return topology.FromGBps(r.NIC.GBps() * float64(max(1, nics)) / r.Oversubscription[l])
}

// NICs returns the number of NICs of a node that are at PIX or PXB to one of its cards; 0 if none is known.
func NICs(n *topology.Node) int {
	if n == nil {
		return 0
	}
	count := 0
	for _, nic := range n.NICs() {
		for _, link := range nic.Links {
			if link >= topology.LinkPXB {
				count++
				break
			}
		}
	}
	return count
}
