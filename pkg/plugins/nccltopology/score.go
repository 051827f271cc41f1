package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// points is the raw score of a node for a pod without mates, or unfit:
//
//	bits 10..  seed, in thousandths of a point: what the node's own cards are worth
//	bits 0-9   packing, 0 to 1000: how full its rack is
//
// They stand apart since packing changes with what other nodes of the rack get.
type points int64

const (
	packingBits = 10
	packingMask = 1<<packingBits - 1

	// unfit is the raw score of a node that has changed since Filter and would not serve any more. Its final score is 0.
	unfit points = -1
)

// with returns the points in a rack that is as full as packing says.
func (p points) with(packing int) points {
	if p == unfit {
		return unfit
	}
	return p&^packingMask | points(packing)
}

// final returns the score in [0, 100], rounded down.
func (p points) final() int64 {
	if p == unfit {
		return fwk.MinScore
	}
	return min(int64(p>>packingBits)*int64(p&packingMask)/packedFull/1000, fwk.MaxScore)
}

// Score grades a node. For a pod without mates:
//
//	score = 100 x (pciWeight x PCIProximity + nvlinkWeight x NVLinkBandwidth) x packing/1000
//
//	PCIProximity     0.7 to 1.0, NVLinkBandwidth 0.85 to 1.0: of the node's annotation gputopology.io/nccl-hint, else
//	                 derived from the links of the cards that would be chosen (pciProximity, nvlinkBandwidth)
//	packing          500 to 1000 for a single: the fuller the node's rack, the better, so that whole racks stay free; less
//	                 than 500 where the rest of the pod's gang would not fit beside it (room.packing)
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
	position, packing := -1, packedFull
	if s.fabric != nil {
		if at, ok := p.engine.PositionOf(info, s.fabric); ok {
			position = at
		}
		packing = s.room.packing(position)
	}
	s.scored.Add(1)
	s.at.Store(int64(position) + 1)
	if s.mates != nil {
		return int64(s.mates.of(position, packing)), nil
	}
	return int64(p.points(s, info, packing)), nil
}

func (p *Plugin) points(s *scoring, info fwk.NodeInfo, packing int) points {
	a := p.engine.AllocationOf(info)
	if a == nil || a.Topology == nil || a.Quarantined {
		return unfit
	}
	set, quality, ok, err := p.engine.Chooser().AssessKnown(&a.View, s.request, s.plain)
	if err != nil || !ok {
		return unfit // of an error GPUTopology's Score tells
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
	return points(p.seed(pci, nvlink) << packingBits).with(packing)
}

// ScoreExtensions returns the plugin: what is near depends on the other nodes.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns the raw scores of all nodes into scores in [0, 100].
//
// Where pods are batched, all raw scores but one are of an earlier pod's cycle, since when the racks have changed: how full they are
// is read anew then. What a node's own cards are worth may be half a second old: no pod
// of the batch has taken any of them, and Filter decides whether they serve. A batch
// that has left its rack is refused, which has the scheduler look at all nodes again for the pod.
func (p *Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s := scoringOf(state)
	if s != nil && s.mates != nil {
		ranked(scores, func(n *fwk.NodeScore) *int64 { return &n.Score })
		return nil
	}
	batched := s != nil && s.scored.Load() < int64(len(scores))
	switch {
	case !batched:
		p.batch.begin()
	case s.room == nil:
		batched = false // nothing is known of racks: the raw scores hold
	case !p.batch.stays(s.rack()):
		return fwk.NewStatus(fwk.Unschedulable, "the batch has left the rack that it began in")
	}
	for i := range scores {
		raw := points(scores[i].Score)
		if batched {
			raw = raw.with(s.packingOf(scores[i].Name))
		}
		scores[i].Score = raw.final()
	}
	return nil
}

// rack is that of the last node that was scored, noRack for one outside of the fabric. There must be room.
func (s *scoring) rack() int {
	if at := int(s.at.Load()); at > 0 {
		return s.room.Home(at - 1)
	}
	return noRack
}

// packingOf is room.packing of a node by its name. There must be room.
func (s *scoring) packingOf(node string) int {
	position := -1
	if at, ok := s.fabric.Position(node); ok {
		position = at
	}
	return s.room.packing(position)
}
