package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// nextProblem changes what a cluster may change between two plans: cards, amounts, admission, labels, nodes, what runs, and what
// is asked for. Most of it stays.
func nextProblem(t *rapid.T, p *placement.Problem, step int) {
	at := rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node")
	n := &p.Nodes[at]
	switch rapid.IntRange(0, 12).Draw(t, "change") {
	case 0, 1, 2:
		c := &cluster{ledger: ledger.New(), near: map[ledger.NodeName]bool{}}
		d := drawNode(t, len(p.Roles))
		c.add(t, string(n.Name), &d)
		n.View, n.Roles, n.Free = c.nodes[0].View, c.nodes[0].Roles, c.nodes[0].Free
	case 3:
		n.View = nil
	case 4:
		n.Free = []int64{rapid.Int64Range(-1, 12).Draw(t, "cpu"), 30}
	case 5:
		p.Placed = nil
		drawFabric(t, p)
	case 6:
		p.Near = map[ledger.NodeName]bool{n.Name: true}
	case 7:
		p.Near, p.Placed = nil, []placement.Fixed{{Node: n.Name, Position: n.Position, Rank: -1}}
	case 8:
		p.Near, p.Placed = nil, nil
	case 9:
		if len(p.Nodes) > 2 {
			p.Nodes = slices.Delete(slices.Clone(p.Nodes), at, at+1)
		}
		p.Near, p.Placed = nil, nil
	case 10:
		other := rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "other")
		p.Nodes = slices.Clone(p.Nodes)
		p.Nodes[at], p.Nodes[other] = p.Nodes[other], p.Nodes[at]
	case 11:
		size := rapid.IntRange(0, 3).Draw(t, "slice")
		p.Slice = placement.Slice{Size: size, Level: topology.Level(rapid.IntRange(0, int(topology.LevelCluster)).Draw(t, "of level"))}
	default:
		p.Need = rapid.IntRange(1, len(p.Members)).Draw(t, "need")
	}
	p.Group = fmt.Sprintf("ns/%d", step)
}

// TestPlannerRemembersNothingElse: a planner that planned for the cluster as it was before plans as one that never planned does,
// and gangs of one role and of several, with and without a fabric, may take turns.
func TestPlannerRemembersNothingElse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		old := placement.NewPlanner(allocate.NewChooser())
		c, p := drawFabricGang(rt)
		drawFabric(rt, p)
		mixed := drawMixed(rt, c)
		for step := range 12 {
			nextProblem(rt, p, step)
			problem := *p
			if rapid.IntRange(0, 4).Draw(rt, "mixed") == 0 {
				problem.Roles, problem.Members, problem.Need = mixed.Roles, mixed.Members, mixed.Need
			}
			if rapid.IntRange(0, 5).Draw(rt, "flat") == 0 {
				problem.Fabric = nil
			}
			got, gotRejection, err := old.Plan(&problem)
			if err != nil {
				rt.Fatal(err)
			}
			if got != nil && problem.Fabric != nil && len(problem.Roles) == 1 {
				if breach := old.FloorBreach(problem.Need); breach != "" {
					rt.Fatalf("step %d: %s", step, breach)
				}
			}
			want, wantRejection, err := placement.NewPlanner(allocate.NewChooser()).Plan(&problem)
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(want, got, whatPlansShow); diff != "" {
				rt.Fatalf("step %d: plans (-new planner +old one):\n%s", step, diff)
			}
			if diff := cmp.Diff(wantRejection, gotRejection); diff != "" {
				rt.Fatalf("step %d: rejections (-new planner +old one):\n%s", step, diff)
			}
		}
	})
}
