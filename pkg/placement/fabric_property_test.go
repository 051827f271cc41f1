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

// Labels of each level.
var levelLabels = []string{
	"network.topology.nvidia.com/accelerator", "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine",
	"network.topology.nvidia.com/core", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
}

// drawLabels draws the labels of so many nodes: a tree of which some levels and some labels are missing.
func drawLabels(t *rapid.T, nodes int) []map[string]string {
	present := rapid.SliceOfN(rapid.SampledFrom([]bool{true, true, false}), len(levelLabels), len(levelLabels)).Draw(t, "levels")
	out := make([]map[string]string, nodes)
	for i := range out {
		out[i] = map[string]string{}
		path := ""
		for l := len(levelLabels) - 1; l >= 0; l-- {
			most := 1
			if l < 3 {
				most = 2
			}
			path += fmt.Sprint(rapid.IntRange(0, most).Draw(t, "domain"))
			if present[l] && rapid.IntRange(0, 11).Draw(t, "label") > 0 {
				out[i][levelLabels[l]] = "d" + path
			}
		}
	}
	return out
}

// fabricOf builds a fabric and gives every node its position; some nodes are left out of the fabric.
func fabricOf(p *placement.Problem, labels []map[string]string, left func(i int) bool) {
	b := topology.NewFabricBuilder(topology.DefaultLevels())
	for i := range p.Nodes {
		if !left(i) {
			b.SetNode(string(p.Nodes[i].Name), labels[i])
		}
	}
	p.Fabric = b.Fabric()
	for i := range p.Nodes {
		p.Nodes[i].Position = -1
		if pos, ok := p.Fabric.Position(string(p.Nodes[i].Name)); ok {
			p.Nodes[i].Position = pos
		}
	}
}

// drawFabric puts the problem's nodes into a random fabric and draws limits.
func drawFabric(t *rapid.T, p *placement.Problem) {
	stray := rapid.IntRange(-8, len(p.Nodes)-1).Draw(t, "stray")
	fabricOf(p, drawLabels(t, len(p.Nodes)), func(i int) bool { return i == stray })
	level := rapid.Map(rapid.IntRange(0, int(topology.LevelCluster)), func(l int) topology.Level { return topology.Level(l) })
	if rapid.IntRange(0, 3).Draw(t, "has required") == 0 {
		p.Required, p.HasRequired = level.Draw(t, "required"), true
	}
	if rapid.IntRange(0, 3).Draw(t, "has ceiling") == 0 {
		p.Ceiling, p.HasCeiling = level.Draw(t, "ceiling"), true
	}
	if len(p.Roles) == 1 && rapid.IntRange(0, 5).Draw(t, "has role's") == 0 {
		p.Roles[0].Required, p.Roles[0].HasRequired = level.Draw(t, "role's"), true
	}
}

// drawPlaced turns near nodes into running members with ranks, and places some on nodes that are not among the nodes.
func drawPlaced(t *rapid.T, p *placement.Problem) {
	next := 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if p.Near[n.Name] {
			p.Placed = append(p.Placed, placement.Fixed{Node: n.Name, Position: n.Position, Rank: next})
			next += rapid.IntRange(1, 2).Draw(t, "step")
		}
	}
	p.Near = nil
	for i := range p.Members {
		p.Members[i].Rank = rapid.IntRange(0, next).Draw(t, "rank")
	}
}

// checkPlan2 checks what a plan says about domains.
func checkDomains(t *rapid.T, p *placement.Problem, plan *placement.Plan) {
	o := newFabricOracle(p)
	var nodes []int
	for _, a := range plan.Assignments {
		nodes = append(nodes, slices.IndexFunc(p.Nodes, func(n placement.Node) bool { return n.Name == a.Node }))
	}
	if got := o.span(nodes); plan.LCA.Level != got {
		t.Fatalf("the plan says that it spans one %v, it spans one %v", plan.LCA.Level, got)
	}
	all := append(slices.Clone(nodes), o.running...)
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		seen := map[string]bool{}
		for _, at := range all {
			seen[o.domain(l, at)] = true
		}
		want := len(seen)
		if !p.Fabric.Known(l) {
			want = 0
		}
		if plan.Domains[l] != want {
			t.Fatalf("the plan says %d domains of level %v, it uses %d", plan.Domains[l], l, want)
		}
		if len(p.Placed)+len(p.Near) == 0 && len(p.Roles) == 1 && plan.Ring.Crossings[l] != plan.Ring.OptimalCrossings[l] {
			t.Fatalf("%d crossings of level %v, %d are needed", plan.Ring.Crossings[l], l, plan.Ring.OptimalCrossings[l])
		}
	}
}

func TestFabricOneRole(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, 8, 1)
		p := drawGang(t, c)
		drawFabric(t, p)
		if rapid.Bool().Draw(t, "running") {
			drawPlaced(t, p)
			if rapid.Bool().Draw(t, "one") {
				p.Need = 1
			}
		}
		checkFabricGang(t, c, planner, p)
	})
}

func checkFabricGang(t *rapid.T, c *cluster, planner *placement.Planner, p *placement.Problem) {
	plan, rej, err := planner.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	o := newFabricOracle(p)
	best := o.best()
	if (rej == nil) != (best != nil) {
		t.Fatalf("rejection %v, the oracle's best is %v", rej, best)
	}
	checkOrder(t, planner, p, plan, rej)
	if rej != nil {
		if rej.Placeable >= p.Need || rej.Placeable < 0 || rej.String() == "" {
			t.Fatalf("rejection %+v", rej)
		}
		return
	}
	nearBefore := p.Near
	if len(p.Placed) > 0 {
		p.Near = map[ledger.NodeName]bool{}
		for _, m := range p.Placed {
			p.Near[m.Node] = true
		}
	}
	checkPlan(t, c, p, plan)
	p.Near = nearBefore
	checkDomains(t, p, plan)
	got := o.worthOf(plan)
	if diff := cmp.Diff(best, got); diff != "" {
		t.Fatalf("levels %v, the oracle's worth and the plan's:\n%s", o.levels, diff)
	}
}
