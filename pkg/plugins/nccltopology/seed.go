package nccltopology

import (
	"math"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The ranges of the two qualities of a lone node. Nothing known is the lower end.
const (
	minPCI, maxPCI       = 0.7, 1.0
	minNVLink, maxNVLink = 0.85, 1.0
)

// fullRing is the ring bandwidth that counts as 1.0: 18 NVLinks of Blackwell through an NVSwitch, by NCCL's constant of
// 40.1 GB/s a link (NVIDIA/nccl src/graph/topo.h), 721.8 GB/s in one direction.
const fullRing topology.Bandwidth = 18 * 40_100

// closeness is how near two devices are over PCIe, 0 to 1, by link type. NVLink does not use PCIe at all.
var closeness = [...]float64{
	topology.LinkUnknown: 0, topology.LinkSYS: 0.2, topology.LinkNODE: 0.4, topology.LinkPHB: 0.6, topology.LinkPXB: 0.8,
	topology.LinkPIX: 1, topology.LinkNVLink: 1, topology.LinkSelf: 1,
}

// pciProximity derives PCIProximity of a set of cards: 0.7 + 0.3 x closeness of the farthest pair of them; for a single card,
// which talks to no other on its node, of the card and its nearest network adapter.
func pciProximity(n *topology.Node, set topology.GPUSet) float64 {
	if set.Len() == 1 {
		return scale(minPCI, closeness[n.Shape().NearestNIC(set.Lowest())])
	}
	farthest := topology.LinkSelf
	for rest := set; rest != 0; rest &= rest - 1 {
		i := rest.Lowest()
		for others := rest.Without(i); others != 0; others &= others - 1 {
			farthest = min(farthest, n.Link(i, others.Lowest()).Type)
		}
	}
	return scale(minPCI, closeness[farthest])
}

// nvlinkBandwidth derives NVLinkBandwidth of a set of cards: 0.85 + 0.15 x bottleneck of its best ring / fullRing, at most 1.
// A single card has no ring: 0.85.
func nvlinkBandwidth(bottleneck topology.Bandwidth) float64 {
	return scale(minNVLink, min(1, float64(max(0, bottleneck))/float64(fullRing)))
}

// scale maps 0 to 1 onto low to 1.
func scale(low, part float64) float64 { return low + (1-low)*part }

// seed is 100 x (pciWeight x PCIProximity + nvlinkWeight x NVLinkBandwidth), in thousandths of a point: 0 to 100000.
func (p *Plugin) seed(pci, nvlink float64) int64 {
	return int64(math.Round(100_000 * min(1, p.pciWeight*pci+p.nvlinkWeight*nvlink)))
}
