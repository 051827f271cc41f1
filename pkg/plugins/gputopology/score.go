package gputopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Weights of the parts of a score, in percent. Bandwidth weighs more than the two others together, so that a node
// whose ring is far slower never wins by being fuller.
const (
	bandwidthWeight = 60
	packingWeight   = 25
	keepWeight      = 15
)

// unfit is the raw score of a node that has changed since Filter and would not serve any more. Its final score is 0.
const unfit grade = -1

// grade is the raw score of a node before NormalizeScore has seen the others. It is packed into one int64:
//
//	bits 21..  bottleneck of the best ring over the chosen cards, MB/s (0 for one card: there is no ring)
//	bit  20    1 if no card that nobody used is taken in part: a share joins shares
//	bits 10-19 packing, 0..1000: the part of the node's cards that would not be free any more (nodePacking Pack),
//	           or that would still be free (Spread); cards in MIG mode stand outside
//	bits 0-9   keep, 0..1000: of the cards still free, the part joined by the node's fastest links (1000 if at most one
//	           is left)
//
// The final score is
//
//	60 x bandwidth + 25 x packing/1000 + 15 x keep/1000
//
// where bandwidth is bottleneck / (largest bottleneck of all nodes); if no node has a ring, 1 for bit 20 and else 0.
// It is rounded down, so in [0, 100] and growing with bandwidth. Example: two cards asked, node a offers a ring of
// 300 GB/s and would have 4 of 8 cards taken, all others joined: 60 + 12.5 + 15 = 87; node b offers 30 GB/s and would be
// full: 6 + 25 + 15 = 46.
type grade int64

const (
	partBits  = 10
	partMax   = 1000
	unbroken  = 1 << (2 * partBits)
	ringShift = 2*partBits + 1
)

// newGrade grades a choice on a node with total cards that are not in MIG mode.
func newGrade(q allocate.Quality, total int, packing config.NodePacking) grade {
	free := min(q.FreeLeft, total)
	packed := int64(partMax)
	if total > 0 {
		packed = int64(partMax * (total - free) / total)
	}
	if packing == config.NodePackingSpread {
		packed = partMax - packed
	}
	keep := int64(partMax)
	if free > 1 {
		keep = int64(partMax * min(q.Remaining, free) / free)
	}
	g := int64(q.Bottleneck)<<ringShift | packed<<partBits | keep
	if q.Broken == 0 {
		g |= unbroken
	}
	return grade(g)
}

func (g grade) bottleneck() int64 { return int64(g) >> ringShift }
func (g grade) packing() int64    { return int64(g) >> partBits & (1<<partBits - 1) }
func (g grade) keep() int64       { return int64(g) & (1<<partBits - 1) }

// final returns the score in [0, 100]; widest is the largest bottleneck of all nodes.
func (g grade) final(widest int64) int64 {
	var bandwidth int64
	switch {
	case g < 0:
		return 0
	case widest > 0:
		bandwidth = bandwidthWeight * partMax * g.bottleneck() / widest
	case g&unbroken != 0:
		bandwidth = bandwidthWeight * partMax
	}
	return (bandwidth + packingWeight*g.packing() + keepWeight*g.keep()) / partMax
}

// PreScore skips pods without GPUs.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if requestOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score grades the best set of cards of the node. A node that has changed since Filter and does not fit any more gets 0.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s := requestOf(state)
	if s == nil || node.Node() == nil {
		return 0, nil
	}
	a := p.allocation(s, node)
	if a == nil || a.Topology == nil || a.Quarantined {
		return int64(unfit), nil
	}
	return p.grade(a, s)
}

func (p *Plugin) grade(a *ledger.NodeGPUAllocation, s *requestState) (int64, *fwk.Status) {
	_, quality, fits, err := p.engine.Chooser().AssessKnown(&a.View, s.request, len(s.reasons))
	switch {
	case err != nil:
		return 0, fwk.AsStatus(err)
	case !fits:
		return int64(unfit), nil
	}
	return int64(newGrade(quality, (a.Topology.All() &^ a.Topology.MIGCards()).Len(), p.args.NodePacking)), nil
}

// ScoreExtensions returns the plugin: scores are relative to the best bandwidth on offer.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns the grades of all nodes into scores in [0, 100].
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var widest int64
	for i := range scores {
		widest = max(widest, grade(scores[i].Score).bottleneck())
	}
	for i := range scores {
		scores[i].Score = grade(scores[i].Score).final(widest)
	}
	return nil
}
