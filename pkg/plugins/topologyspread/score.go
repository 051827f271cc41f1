package topologyspread

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/spread"
)

// candidates are the nodes that passed Filter.
type candidates []fwk.NodeInfo

// Len implements spread.Candidates.
func (c candidates) Len() int { return len(c) }

// Name implements spread.Candidates.
func (c candidates) Name(i int) string { return c[i].Node().Name }

// PreScore gives every candidate its points by the pod's soft constraints (spread.Scores). It skips pods without any. Nodes
// that lack a key have no points, unless the constraints are Kubernetes' own defaults: those spread what can be spread.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("getting all nodes: %w", err))
	}
	if len(all) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	constraints, err := p.constraintsOf(pod, v1.ScheduleAnyway)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("calculating preScoreState: %w", err))
	}
	if len(constraints) > 0 { // few pods have any, and a gang is looked through for them alone
		constraints = p.gangOf(pod).leaveTogether(constraints)
	}
	if len(constraints) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	weights := make([]spread.Weight, len(constraints))
	for i := range constraints {
		weights[i] = spread.Weight{MaxSkew: constraints[i].maxSkew, PerNode: constraints[i].key == v1.LabelHostname}
	}
	v := p.viewOf(ctx, state, pod, constraints, len(pod.Spec.TopologySpreadConstraints) > 0 || !p.system, all)
	state.Write(scoreKey, &scoreState{p.cache.Scores(v.key(), v.spec, v, candidates(nodes), weights)})
	return nil
}

// Score returns the points of a node, 0 and up, fewer are better; 0 also for a node without points.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := stateOf[*scoreState](state, scoreKey)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	points, _ := s.scores.Of(info.Node().Name)
	return points, nil
}

// ScoreExtensions returns the plugin: points become a score once all are known.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns points into scores from 0 to 100: 100 x (most + fewest - points) / most, rounded down; 100 for all where
// nobody has points to lose, 0 for nodes without points. Worked example: points 4, 6 and 8 give 100, 75 and 50.
func (p *Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, list fwk.NodeScoreList) *fwk.Status {
	s, err := stateOf[*scoreState](state, scoreKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	fewest, most := int64(math.MaxInt64), int64(0)
	for i := range list {
		if _, ok := s.scores.Of(list[i].Name); ok {
			fewest, most = min(fewest, list[i].Score), max(most, list[i].Score)
		}
	}
	for i := range list {
		_, ok := s.scores.Of(list[i].Name)
		switch {
		case !ok:
			list[i].Score = 0
		case most == 0:
			list[i].Score = fwk.MaxScore
		default:
			list[i].Score = fwk.MaxScore * (most + fewest - list[i].Score) / most
		}
	}
	return nil
}
