package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// points is the raw score of a node for a pod without mates, in thousandths of a point, or unfit.
type points int64

// unfit is the raw score of a node that has changed since Filter and would not serve any more. Its final score is 0.
const unfit points = -1

// final returns the score in [0, 100], rounded down.
func (p points) final() int64 {
	return min(max(fwk.MinScore, int64(p)/1000), fwk.MaxScore)
}

// Score grades a node. For a pod without mates:
//
//	score = 100 x (pciWeight x PCIProximity + nvlinkWeight x NVLinkBandwidth) x packing/1000
//
//	PCIProximity     0.7 to 1.0, NVLinkBandwidth 0.85 to 1.0: of the node's annotation gputopology.io/nccl-hint, else
//	                 derived from the links of the cards that would be chosen (pciProximity, nvlinkBandwidth)
//	packing          500 to 1000 for a single: the fuller the node's rack, the better, so that whole racks stay free; less
//	                 than 500 where the rest of the pod's gang would not fit beside it (placement.Packing)
//
// Example, weights 0.4 and 0.6, two cards joined by NV18 on H100 (370.8 GB/s): PCIProximity 1.0, NVLinkBandwidth
// 0.85 + 0.15 x 370.8/721.8 = 0.927, together 95.6. In a rack with 8 of 32 cards free packing is 875, the score 83; in an
// empty rack of the same size 500 and 47; where no label describes the network 1000 and 95.
//
// For a member of a gang of which others have a node, only the order of nearness counts:
//
//	score = 100 - step x (number of better values of nearness among the nodes)        (ranked)
//
// Example: mates on one node of leaf a. The other node of leaf a, two of leaf b under the same spine and one of another
// spine score 100, 50, 50 and 0.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, node := scoringOf(state), info.Node()
	if s == nil || node == nil {
		return 0, nil
	}
	position, packing := -1, placement.PackedFull
	if s.fabric != nil {
		if at, ok := p.engine.PositionOf(info, s.fabric); ok {
			position = at
		}
		packing = s.room.packing(position)
	}
	if s.mates != nil {
		return int64(s.mates.of(position, packing)), nil
	}
	return int64(p.points(s, info, packing)), nil
}

func (p *Plugin) points(s *scoring, info fwk.NodeInfo, packing int) points {
	a := p.engine.AllocationOf(info)
	set, quality, ok := p.assess(a, s.request, s.plain)
	if !ok {
		return unfit
	}
	var known hint
	if s.hinted {
		known = p.hintOf(info.Node())
	}
	pci, nvlink := known.pci, known.nvlink
	if pci == 0 {
		pci = pciProximity(a.Topology, set)
	}
	if nvlink == 0 {
		nvlink = nvlinkBandwidth(quality.Bottleneck)
	}
	return points(p.seed(pci, nvlink) * int64(packing) / placement.PackedFull)
}

// assess returns the best set of a node's free cards for a request and what it is worth, false where there is none. plain is what Plain
// says of the request, 0 if nothing.
func (p *Plugin) assess(a *ledger.NodeGPUAllocation, asked *allocate.Request, plain int) (topology.GPUSet, allocate.Quality, bool) {
	if a == nil || a.Topology == nil || a.Quarantined {
		return 0, allocate.Quality{}, false
	}
	set, quality, ok, err := p.engine.Chooser().AssessKnown(&a.View, asked, plain)
	return set, quality, ok && err == nil // of an error GPUTopology's Score tells
}

// ScoreExtensions returns the plugin: what is near depends on the other nodes.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns the raw scores of all nodes into scores in [0, 100].
func (p *Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if s := scoringOf(state); s != nil && s.mates != nil {
		ranked(scores, func(n *fwk.NodeScore) *int64 { return &n.Score })
		return nil
	}
	for i := range scores {
		scores[i].Score = points(scores[i].Score).final()
	}
	return nil
}
