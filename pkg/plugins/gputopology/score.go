package gputopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

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
		return int64(allocate.Unfit), nil
	}
	return p.grade(a, s)
}

func (p *Plugin) grade(a *ledger.NodeGPUAllocation, s *requestState) (int64, *fwk.Status) {
	_, quality, fits, err := p.engine.Chooser().AssessKnown(&a.View, s.request, len(s.reasons))
	switch {
	case err != nil:
		return 0, fwk.AsStatus(err)
	case !fits:
		return int64(allocate.Unfit), nil
	}
	return int64(a.View.Grade(quality, p.args.NodePacking == config.NodePackingSpread)), nil
}

// ScoreExtensions returns the plugin: scores are relative to the best bandwidth on offer.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns the grades of all nodes into scores in [0, 100].
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var widest int64
	for i := range scores {
		widest = max(widest, allocate.Grade(scores[i].Score).Bottleneck())
	}
	for i := range scores {
		scores[i].Score = allocate.Grade(scores[i].Score).Final(widest)
	}
	return nil
}
