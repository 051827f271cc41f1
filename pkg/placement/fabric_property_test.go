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
	in := make([]int, nodes) // the domain of each node at the level before
	for i := range in {
		out[i], in[i] = map[string]string{}, i
	}
	for l, most := range []int{5, 3, 2, 1, 1, 1} {
		parent := rapid.SliceOfN(rapid.IntRange(0, most), max(nodes, 6), max(nodes, 6)).Draw(t, "parents")
		for i := range in {
			in[i] = parent[in[i]]
			if present[l] && rapid.IntRange(0, 15).Draw(t, "label") > 0 {
				out[i][levelLabels[l]] = fmt.Sprintf("d%d", in[i])
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

// checkDomains checks what a plan says about domains.
func checkDomains(t *rapid.T, p *placement.Problem, plan *placement.Plan) {
	o := newFabricOracle(p)
	nodes := o.nodesOf(plan)
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

// drawFabricGang draws nodes of which most have room, and a gang of one role that takes a good part of it.
func drawFabricGang(t *rapid.T) (*cluster, *placement.Problem) {
	c := &cluster{ledger: ledger.New(), near: map[ledger.NodeName]bool{}}
	for i := range rapid.IntRange(2, 9).Draw(t, "nodes") {
		c.add(t, fmt.Sprintf("n%d", i), &draw{
			excluded: rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 1}).Draw(t, "excluded"),
			free:     []int64{rapid.Int64Range(3, 12).Draw(t, "cpu"), 30},
			kind:     rapid.SampledFrom([]string{"n8s", "n8s", "n8s", "n8p", "a100", "nics"}).Draw(t, "kind"),
			cards:    []int{3, 4, 5, 6, 7, 8, 9, 3},
			busy:     rapid.SampledFrom([]int{0, 0, 4, 5, 6, 7, 8, 9}).Draw(t, "busy"),
			near:     rapid.IntRange(0, 9).Draw(t, "near") == 9,
		})
	}
	p := drawGang(t, c)
	if r := p.Roles[0].Request; r != nil && r.Claims[0].Kind == allocate.KindMIG {
		p.Roles[0].Request = whole(1)
	}
	room := 0
	for i := range p.Nodes {
		room += held(&p.Nodes[i], 0, &p.Roles[0], 20)
	}
	p.Need = rapid.IntRange(1, max(1, room)).Draw(t, "need")
	p.Members = membersOf("a", 0, p.Need+rapid.IntRange(0, 1).Draw(t, "more"), 0)
	return c, p
}

func TestFabricOneRole(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c, p := drawFabricGang(t)
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
	best := o.best(-1)
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
	// What is free on the nodes is compared inside the domains that the plan uses.
	best[len(best)-1] = o.best(o.around(plan))[len(best)-1]
	if p.Roles[0].HasRequired && len(o.running) > 0 {
		got, best = got[:len(got)-1], best[:len(best)-1]
	}
	if len(p.Placed) > 0 && p.Need > 1 {
		// Crossings of several members to a running gang are not exact, and what is free comes after them.
		exact := 2 + slices.IndexFunc(o.levels, func(l topology.Level) bool { return l >= plan.LCA.Level })
		if plan.LCA.Level == topology.LevelCluster {
			exact = 2 + len(o.levels)
		}
		got, best = got[:exact], best[:exact]
	}
	if diff := cmp.Diff(best, got); diff != "" {
		t.Fatalf("levels %v, the oracle's worth and the plan's:\n%s", o.levels, diff)
	}
}

// quality is what a plan is worth but for what it leaves free.
func quality(p *placement.Problem, plan *placement.Plan) []int64 {
	out := []int64{int64(plan.LCA.Level)}
	for l := topology.LevelHost; l < plan.LCA.Level; l++ {
		if l == topology.LevelHost || p.Fabric.Known(l) {
			out = append(out, int64(plan.Domains[l]))
		}
	}
	if plan.Ring.Bottleneck == 0 {
		return append(out, -noLimit)
	}
	return append(out, -int64(plan.Ring.Bottleneck))
}

// A node more, in the place of any other, never makes a plan worse.
func TestFabricNodeMore(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c, p := drawFabricGang(t)
		labels := drawLabels(t, len(p.Nodes))
		fabricOf(p, labels, func(int) bool { return false })
		if rapid.Bool().Draw(t, "running") {
			drawPlaced(t, p)
		}
		before, rejBefore, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		more := drawNode(t, 1)
		more.near = false
		c.add(t, "a-first", &more)
		p.Nodes = append(p.Nodes, c.nodes[len(c.nodes)-1])
		labels = append(labels, labels[rapid.IntRange(0, len(labels)-1).Draw(t, "labels of")])
		fabricOf(p, labels, func(int) bool { return false })
		for i := range p.Placed {
			p.Placed[i].Position, _ = p.Fabric.Position(string(p.Placed[i].Node))
		}
		after, rejAfter, err := planner.Plan(p)
		switch {
		case err != nil:
			t.Fatal(err)
		case rejBefore != nil && rejAfter != nil && rejAfter.Placeable < rejBefore.Placeable:
			t.Fatalf("%d can be placed, before the node came %d", rejAfter.Placeable, rejBefore.Placeable)
		case rejBefore == nil && rejAfter != nil:
			t.Fatalf("with a node more the gang does not fit: %v", rejAfter)
		case rejBefore != nil:
			return
		}
		if slices.Compare(quality(p, after), quality(p, before)) > 0 {
			t.Fatalf("with a node more the plan is worth %v, before %v", quality(p, after), quality(p, before))
		}
	})
}

// Other names of nodes and domains change what is chosen among equals, but not how good it is.
func TestFabricOtherNames(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		_, p := drawFabricGang(t)
		labels := drawLabels(t, len(p.Nodes))
		fabricOf(p, labels, func(int) bool { return false })
		var plans []*placement.Plan
		var worth [][]int64
		names := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}).Draw(t, "names")
		for range 2 {
			plan, rej, err := planner.Plan(p)
			if err != nil {
				t.Fatal(err)
			}
			if plans = append(plans, plan); rej == nil {
				w := newFabricOracle(p).worthOf(plan)
				worth = append(worth, w[:len(w)-1]) // what is free on the nodes depends on the domains that are chosen
			}
			other := *p
			other.Nodes, other.Near = nil, map[ledger.NodeName]bool{}
			renamed := make([]map[string]string, len(labels))
			for i, n := range p.Nodes {
				name := ledger.NodeName(fmt.Sprint("m", names[i]))
				other.Near[name] = p.Near[n.Name]
				n.Name = name
				other.Nodes = append(other.Nodes, n)
				renamed[i] = map[string]string{}
				for key, value := range labels[i] {
					renamed[i][key] = fmt.Sprint("e", names[value[1]-'0'])
				}
			}
			p = &other
			fabricOf(p, renamed, func(int) bool { return false })
		}
		if (plans[0] == nil) != (plans[1] == nil) {
			t.Fatalf("one plan is %v, the other %v", plans[0], plans[1])
		}
		if plans[0] == nil {
			return
		}
		if diff := cmp.Diff(worth[0], worth[1]); diff != "" {
			t.Fatalf("another worth:\n%s", diff)
		}
	})
}

// Members that come to a running gang get the place of their rank: slices that run in part are completed where they run.
func TestFabricSlicesCompleted(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c, p := drawFabricGang(t)
		c.near, p.Near = nil, nil
		if p.Roles[0].Request == nil {
			p.Roles[0].Request = whole(2)
		}
		drawFabric(t, p)
		p.Slice = placement.Slice{Size: rapid.IntRange(2, 4).Draw(t, "slice"), Level: topology.Level(rapid.IntRange(0, 4).Draw(t, "level"))}
		p.Need = rapid.IntRange(1, 12).Draw(t, "need")
		p.Members = membersOf("a", 0, p.Need, 0)
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		if rej != nil {
			return
		}
		// Some members run where they were planned, their cards and amounts are still free: the others must find places.
		p.Members, p.Need = nil, 0
		for _, a := range plan.Assignments {
			if rapid.Bool().Draw(t, "runs") {
				pos, ok := p.Fabric.Position(string(a.Node))
				if !ok {
					pos = -1
				}
				p.Placed = append(p.Placed, placement.Fixed{Node: a.Node, Position: pos, Rank: a.Rank})
			} else {
				p.Members = append(p.Members, placement.Member{UID: a.Pod, Rank: a.Rank})
			}
		}
		if p.Need = len(p.Members); p.Need == 0 {
			return
		}
		plan, rej, err = planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, planner, p, plan, rej)
		if rej != nil {
			if rej.Gap != placement.GapSlices && rej.Gap != placement.GapSlice {
				t.Fatalf("what was planned is refused: %v", rej)
			}
			return
		}
		checkSlices(t, p, plan)
	})
}
