package nccltopology

import (
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// survey is what GeneratePlacements read, kept for ScorePlacement. It is immutable.
type survey struct {
	stock *stock
	need  *need
}

// Clone returns the same state: it never changes.
func (s *survey) Clone() fwk.StateData { return s }

// standing is the raw score of a placement that was tried; more is better, and each part counts only where all before it
// are equal:
//
//	bits 51-62 pods that were placed, at most 4095
//	bits 48-50 7 - level, of the narrowest domain that holds all members with cards: 7 host, 6 nvlink, 5 leaf ... 0 cluster
//	bits 36-47 4095 - nodes with members
//	bits 24-35 4095 - nvlink domains with members
//	bits 14-23 1023 - leaves with members
//	bits 7-13  127 - spines with members
//	bits 0-6   fullness: the percentage of the narrowest domain's cards that would be taken, 0 to 100
//
// Counts above their largest value are the largest.
type standing int64

const (
	placedShift, placedMost = 51, 4095
	levelShift              = 48
	hostShift, hostMost     = 36, 4095
	nvlinkShift, nvlinkMost = 24, 4095
	leafShift, leafMost     = 14, 1023
	spineShift, spineMost   = 7, 127
)

// ScorePlacement says how good the placement is that the cycle found for the group, as a standing. The final score is
//
//	score = 100 - step x (number of better standings among the placements)        (ranked)
//
// Example: eight pods of 8 GPUs were placed in leaf a, with 64 of its 128 cards taken before and now all; in leaf b, which
// was empty; and over leaves c and d of one spine. They score 100, 50 and 0. A group without GPUs scores 100 everywhere.
func (p *Plugin) ScorePlacement(_ context.Context, state fwk.PlacementCycleState, _ fwk.PodGroupInfo, tried *fwk.PodGroupAssignments) (int64, *fwk.Status) {
	cycle := state.GetPodGroupSchedulingCycle()
	if cycle == nil {
		return 0, nil
	}
	s := engine.ReadState[*survey](cycle, surveyKey)
	if s == nil || len(s.stock.at) == 0 {
		return 0, nil
	}
	return int64(s.standing(tried.ProposedAssignments)), nil
}

func (s *survey) standing(proposed []fwk.ProposedAssignment) standing {
	st := s.stock
	positions, strays, taken := s.standingAt(proposed)
	level := topology.LevelCluster
	if strays == 0 {
		level = st.common(positions...)
	}
	count := func(l topology.Level, most int) int64 {
		n := strays
		for i, pos := range positions {
			if i == 0 || st.fabric.Index(l, pos) != st.fabric.Index(l, positions[i-1]) {
				n++
			}
		}
		return int64(most - min(n, most))
	}
	raw := int64(min(len(proposed), placedMost))<<placedShift | int64(topology.LevelCluster-level)<<levelShift |
		count(topology.LevelHost, hostMost)<<hostShift | count(topology.LevelNVLink, nvlinkMost)<<nvlinkShift |
		count(topology.LevelLeaf, leafMost)<<leafShift | count(topology.LevelSpine, spineMost)<<spineShift
	if len(positions) > 0 {
		raw |= st.fullness(st.fabric.Domain(level, positions[0]), taken)
	}
	return standing(raw)
}

// standingAt returns the positions of all members with cards, ascending, how many are on nodes outside the fabric, and the
// number of cards that the proposed ones take.
func (s *survey) standingAt(proposed []fwk.ProposedAssignment) (positions []int, strays, taken int) {
	positions, strays = slices.Clone(s.stock.members), s.stock.strays
	for _, a := range proposed {
		cards, asks := s.need.cards[a.GetPod().UID]
		if !asks {
			continue
		}
		taken += cards
		if pos, ok := s.stock.fabric.Position(a.GetNodeName()); ok {
			positions = append(positions, pos)
		} else {
			strays++
		}
	}
	slices.Sort(positions)
	return positions, strays, taken
}

// fullness is the percentage of the domain's cards that are taken once so many more are.
func (st *stock) fullness(d topology.Domain, taken int) int64 {
	first, _ := slices.BinarySearch(st.at, d.First)
	end, _ := slices.BinarySearch(st.at, d.End)
	free, total := 0, 0
	for i := first; i < end; i++ {
		free += st.free[i]
		total += st.total[i]
	}
	if total == 0 {
		return 0
	}
	return int64(100 - 100*min(max(0, free-taken), total)/total)
}

// PlacementScoreExtensions returns the plugin: which placement is better depends on the others.
func (p *Plugin) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return p }

// NormalizePlacementScore turns the standings of all placements into scores in [0, 100].
func (p *Plugin) NormalizePlacementScore(_ context.Context, _ fwk.PodGroupCycleState, _ fwk.PodGroupInfo, scores []fwk.PlacementScore) *fwk.Status {
	ranked(scores, func(s *fwk.PlacementScore) *int64 { return &s.Score })
	return nil
}
