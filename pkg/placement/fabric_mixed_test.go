package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// bestMixed is the smallest list of level and numbers of domains for so many members of each role, by trying every set of
// nodes; nil if there is none.
func bestMixed(p *placement.Problem, want []int) []int64 {
	o := newFabricOracle(p)
	var best []int64
	for set := 1; set < 1<<len(p.Nodes); set++ {
		var nodes []int
		part := *p
		part.Nodes = nil
		for i := range p.Nodes {
			if set>>i&1 == 1 {
				nodes, part.Nodes = append(nodes, i), append(part.Nodes, p.Nodes[i])
			}
		}
		if !o.allowed(nodes) {
			continue
		}
		if w := o.domains(nodes); (best == nil || slices.Compare(w, best) < 0) && fewestMixed(&part, want) >= 0 {
			best = w
		}
	}
	return best
}

// domains is the level and the numbers of domains of a placement on these nodes, without those of the running part.
func (o *fabricOracle) domains(nodes []int) []int64 {
	span := o.span(nodes)
	w := []int64{int64(span)}
	for _, l := range o.levels {
		if l >= span {
			break
		}
		seen := map[string]bool{}
		for _, at := range o.running {
			seen[o.domain(l, at)] = true
		}
		near := len(seen)
		for _, i := range nodes {
			seen[o.domain(l, i)] = true
		}
		w = append(w, int64(len(seen)-near))
	}
	return w
}

func drawMixedFabric(t *rapid.T) (*cluster, *placement.Problem) {
	c := &cluster{ledger: ledger.New(), near: map[ledger.NodeName]bool{}}
	for i := range rapid.IntRange(2, 7).Draw(t, "nodes") {
		c.add(t, fmt.Sprintf("n%d", i), &draw{
			excluded: rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 1, 2}).Draw(t, "excluded"),
			free:     []int64{rapid.Int64Range(3, 12).Draw(t, "cpu"), 30}, kind: "n8s", cards: []int{3, 4, 5, 6, 7, 8, 9, 3},
			busy: rapid.SampledFrom([]int{0, 0, 4, 5, 6, 7}).Draw(t, "busy"), near: rapid.IntRange(0, 9).Draw(t, "near") == 9,
		})
	}
	p := drawMixed(t, c)
	p.Need = len(p.Members)
	drawFabric(t, p)
	return c, p
}

func TestFabricMixedRoles(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	plans, wider, hosts, optimum, others, optimal, refused := 0, 0, int64(0), int64(0), int64(0), int64(0), 0
	rapid.Check(t, func(t *rapid.T) {
		c, p := drawMixedFabric(t)
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]int, len(p.Roles))
		for _, m := range p.Members {
			want[m.Role]++
		}
		best := bestMixed(p, want)
		checkOrder(t, planner, p, plan, rej)
		if rej != nil {
			if best != nil {
				refused++
			}
			if rej.Placeable >= p.Need || rej.String() == "" {
				t.Fatalf("rejection %+v", rej)
			}
			return
		}
		checkPlan(t, c, p, plan)
		checkDomains(t, p, plan)
		o := newFabricOracle(p)
		if !o.allowed(o.nodesOf(plan)) {
			t.Fatalf("the plan is wider than allowed: %v", plan.LCA)
		}
		got := o.domains(o.nodesOf(plan))
		plans++
		if got[0] != best[0] {
			wider++
			return
		}
		for k := 1; k < len(got); k++ {
			if k == 1 {
				hosts, optimum = hosts+got[k], optimum+best[k]
			} else {
				others, optimal = others+got[k], optimal+best[k]
			}
		}
	})
	t.Logf("%d plans, %d wider than the best, %d gangs refused that fit; %d nodes, %d are the fewest; %d domains, the best have %d",
		plans, wider, refused, hosts, optimum, others, optimal)
	if wider*20 > plans || refused*20 > plans || float64(hosts) > 1.05*float64(optimum) || float64(others) > 1.05*float64(optimal) {
		t.Error("that is more than 5 % from the best")
	}
}

// Levels of roles and slices of several roles are kept, whatever the gang is.
func TestFabricMixedLimits(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	plans := 0
	rapid.Check(t, func(t *rapid.T) {
		c, p := drawMixedFabric(t)
		level := rapid.Map(rapid.IntRange(0, 6), func(l int) topology.Level { return topology.Level(l) })
		for r := range p.Roles {
			if rapid.Bool().Draw(t, "has level") {
				p.Roles[r].Required, p.Roles[r].HasRequired = level.Draw(t, "role's level"), true
			}
		}
		if rapid.Bool().Draw(t, "sliced") {
			p.Slice = placement.Slice{Size: 2, Level: level.Draw(t, "slice")}
		}
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, planner, p, plan, rej)
		if rej != nil {
			if rej.Placeable >= p.Need || rej.Placeable < 0 || rej.String() == "" {
				t.Fatalf("rejection %+v", rej)
			}
			return
		}
		plans++
		checkPlan(t, c, p, plan)
		checkDomains(t, p, plan)
		o := newFabricOracle(p)
		for r := range p.Roles {
			var own []int
			slice := map[int][]int{}
			for k, i := range o.nodesOf(plan) {
				if a := plan.Assignments[k]; a.Role == r {
					own = append(own, i)
					slice[a.Rank/2] = append(slice[a.Rank/2], i)
				}
			}
			role := *p
			role.HasRequired, role.HasCeiling, role.Near = false, false, nil
			role.Roles = p.Roles[r : r+1]
			if len(own) > 0 && !newFabricOracle(&role).allowed(own) {
				t.Fatalf("role %d uses more than one %v", r, p.Roles[r].Required)
			}
			if p.Slice.Size == 0 || p.Roles[r].Request == nil {
				continue
			}
			role.Required, role.HasRequired, role.Roles = p.Slice.Level, true, []placement.Role{{}}
			for id, nodes := range slice {
				if !newFabricOracle(&role).allowed(nodes) {
					t.Fatalf("slice %d of role %d uses more than one %v", id, r, p.Slice.Level)
				}
			}
		}
	})
	if plans == 0 {
		t.Error("no gang fits")
	}
}
