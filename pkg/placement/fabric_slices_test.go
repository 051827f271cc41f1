package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// bestSliced is the smallest list of level, numbers of domains and rate, by trying every number of members on every node.
func (o *fabricOracle) bestSliced(y placement.Slice) []int64 {
	for y.Level > topology.LevelHost && !o.p.Fabric.Known(y.Level) {
		y.Level--
	}
	var best []int64
	on := make([]int, len(o.p.Nodes))
	var put func(i, left int)
	put = func(i, left int) {
		if i < len(on) {
			for on[i] = 0; on[i] <= min(left, o.held[i]); on[i]++ {
				put(i+1, left-on[i])
			}
			on[i] = 0
			return
		}
		if left > 0 {
			return
		}
		var nodes []int
		sums := map[string]int{}
		for i, m := range on {
			if m > 0 {
				nodes = append(nodes, i)
				sums[o.domain(y.Level, i)] += m
			}
		}
		for _, m := range sums {
			if m%y.Size != 0 {
				return
			}
		}
		if !o.allowed(nodes) {
			return
		}
		rate, span := int64(noLimit), o.span(nodes)
		for _, i := range nodes {
			rate = min(rate, o.rate(i, on[i], span))
		}
		if w := append(o.domains(nodes), -rate); best == nil || slices.Compare(w, best) < 0 {
			best = w
		}
	}
	put(0, o.p.Need)
	return best
}

// checkSlices checks that members that follow each other are in one domain.
func checkSlices(t *rapid.T, p *placement.Problem, plan *placement.Plan) {
	level := p.Slice.Level
	for level > topology.LevelHost && !p.Fabric.Known(level) {
		level--
	}
	o := newFabricOracle(p)
	at := map[int]string{}
	put := func(role, rank int, domain string) {
		id := rank/p.Slice.Size*len(p.Roles) + role
		if at[id] != "" && at[id] != domain {
			t.Fatalf("slice %d of role %d is in %s and %s", rank/p.Slice.Size, role, at[id], domain)
		}
		at[id] = domain
	}
	for i, m := range p.Placed {
		put(m.Role, m.Rank, o.domain(level, -1-i))
	}
	for k, i := range o.nodesOf(plan) {
		put(plan.Assignments[k].Role, plan.Assignments[k].Rank, o.domain(level, i))
	}
}

func TestFabricSlices(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c, p := drawFabricGang(t)
		c.near, p.Near = nil, nil
		p.Nodes = p.Nodes[:min(len(p.Nodes), 6)]
		drawFabric(t, p)
		p.Slice.Size = rapid.IntRange(2, 4).Draw(t, "slice")
		p.Slice.Level = topology.Level(rapid.IntRange(0, int(topology.LevelRegion)).Draw(t, "level"))
		if p.Roles[0].Request == nil {
			p.Roles[0].Request = whole(2)
		}
		whole := rapid.Bool().Draw(t, "whole slices")
		p.Need = rapid.IntRange(1, 12).Draw(t, "need")
		if whole {
			p.Need = (p.Need + p.Slice.Size - 1) / p.Slice.Size * p.Slice.Size
		}
		p.Members = membersOf("a", 0, p.Need, 0)
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		o := newFabricOracle(p)
		best := o.bestSliced(p.Slice)
		if whole && (rej == nil) != (best != nil) {
			t.Fatalf("rejection %v, the oracle's best is %v", rej, best)
		}
		checkOrder(t, planner, p, plan, rej)
		if rej != nil {
			if rej.Placeable >= p.Need || rej.String() == "" {
				t.Fatalf("rejection %+v", rej)
			}
			return
		}
		checkPlan(t, c, p, plan)
		checkDomains(t, p, plan)
		checkSlices(t, p, plan)
		if !whole {
			return
		}
		w := o.worthOf(plan)
		k := len(o.domains(o.nodesOf(plan)))
		if diff := cmp.Diff(best, w[:k+1]); diff != "" {
			t.Fatalf("levels %v, the oracle's worth and the plan's:\n%s", o.levels, diff)
		}
	})
}
