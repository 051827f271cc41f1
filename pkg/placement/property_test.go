package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// cluster is a random small cluster in a ledger, so that every view is one that the ledger made.
type cluster struct {
	ledger *ledger.Ledger
	nodes  []placement.Node
	near   map[ledger.NodeName]bool
}

// drawCluster draws up to most nodes for so many roles and two resources. Half of the nodes are like another one.
func drawCluster(t *rapid.T, most, roles int) *cluster {
	c := &cluster{ledger: ledger.New(), near: map[ledger.NodeName]bool{}}
	var drawn []draw
	for i := range rapid.IntRange(0, most).Draw(t, "nodes") {
		if i > 0 && rapid.Bool().Draw(t, "like another") {
			drawn = append(drawn, drawn[rapid.IntRange(0, i-1).Draw(t, "other")])
		} else {
			drawn = append(drawn, drawNode(t, roles))
		}
		c.add(t, fmt.Sprintf("n%d", i), &drawn[i])
	}
	return c
}

// draw is what one node is made of.
type draw struct {
	excluded uint64
	free     []int64
	kind     string
	// cards is the state of each card: see machine. Those below busy are in use.
	cards   []int
	busy    int
	foreign bool
	near    bool
}

func drawNode(t *rapid.T, roles int) draw {
	return draw{
		excluded: rapid.SampledFrom([]uint64{0, 0, 0, 1, 2, 1<<roles - 1}).Draw(t, "excluded"),
		free:     []int64{rapid.Int64Range(-1, 12).Draw(t, "cpu"), rapid.Int64Range(0, 30).Draw(t, "memory")},
		kind:     rapid.SampledFrom([]string{"n8s", "n8s", "n8p", "n8p", "n2", "migs", "no facts", "no GPUs"}).Draw(t, "kind"),
		cards:    rapid.SliceOfN(rapid.IntRange(0, 9), 8, 8).Draw(t, "cards"),
		busy:     rapid.IntRange(0, 8).Draw(t, "busy"),
		foreign:  rapid.IntRange(0, 9).Draw(t, "foreign") == 0,
		near:     rapid.IntRange(0, 4).Draw(t, "near") == 0,
	}
}

func (c *cluster) add(t *rapid.T, name string, d *draw) {
	node := placement.Node{Name: ledger.NodeName(name), Roles: ^d.excluded, Free: d.free}
	switch d.kind {
	case "no GPUs":
	case "no facts":
		c.ledger.SetNode(node.Name, nil)
		node.View = &c.ledger.Node(node.Name).View
	default:
		c.machine(t, &node, map[string]func() topology.Spec{"n8s": n8s, "n8p": n8p, "n2": n2, "migs": migs, "a100": a100, "nics": nics}[d.kind](), d)
	}
	if d.near {
		c.near[node.Name] = true
	}
	c.nodes = append(c.nodes, node)
}

// machine enters a node with cards of which pods hold some: 0 to 2 is a quarter of the memory with no, a part or all of
// the compute, 3 to 8 the whole card; 9 is a sick card.
func (c *cluster) machine(t *rapid.T, node *placement.Node, spec topology.Spec, d *draw) {
	for i := range spec.Cards {
		spec.Cards[i].Healthy = d.cards[i] != 9
	}
	topo := machine(t, string(node.Name), spec)
	c.ledger.SetNode(node.Name, topo)
	for i := range topo.Len() {
		state := d.cards[i]
		if state >= d.busy {
			continue
		}
		card := topo.Card(i)
		s := allocate.CardShare{Index: i, UUID: card.UUID}
		switch {
		case card.MIGEnabled:
			m := card.MIG[state%len(card.MIG)]
			s.SliceMask, s.VRAMBytes, s.MIGProfile = m.SliceMask(), m.VRAMBytes, m.Profile
		case state < 3:
			s.SliceMask, s.VRAMBytes, s.ComputeMilli = 0xffff, card.VRAMBytes/4, []int32{0, 300, 1000}[state]
		default:
			s.SliceMask, s.VRAMBytes, s.ComputeMilli = allocate.WholeCard, card.VRAMBytes, allocate.MilliPerCard
		}
		h := ledger.Holding{UID: ledger.PodUID(fmt.Sprintf("old-%s-%d", node.Name, i)), Node: node.Name, Cards: []allocate.CardShare{s}}
		if d.foreign && !card.MIGEnabled {
			h.Cards, h.UnknownCards = nil, 1
		}
		if err := c.ledger.Adopt(h); err != nil {
			t.Fatal(err)
		}
	}
	node.View = &c.ledger.Node(node.Name).View
}

func drawNeeds(t *rapid.T) []int64 {
	return []int64{rapid.Int64Range(0, 4).Draw(t, "needs cpu"), rapid.Int64Range(0, 4).Draw(t, "needs memory")}
}

// drawRequest draws a request for which the numbers of members are exact.
func drawRequest(t *rapid.T) *allocate.Request {
	var r *allocate.Request
	switch rapid.SampledFrom([]string{"none", "whole", "whole", "share", "compute", "mig"}).Draw(t, "request") {
	case "none":
		return nil
	case "share":
		r = share(rapid.SampledFrom([]int64{gib, 10 * gib, 20 * gib, 33 * gib, 80 * gib, 81 * gib}).Draw(t, "bytes"), 1)
	case "compute":
		r = share(5*gib, 1)
		r.Claims[0].ComputeMilli = rapid.SampledFrom([]int32{100, 333, 500, 1000}).Draw(t, "milli")
	case "mig":
		return mig(rapid.IntRange(1, 8).Draw(t, "instances"))
	default:
		r = whole(rapid.SampledFrom([]int{1, 1, 2, 3, 4, 8, 9}).Draw(t, "cards"))
		r.NUMA = rapid.SampledFrom([]allocate.NUMAPolicy{allocate.NUMAPrefer, allocate.NUMANone, allocate.NUMARequire}).Draw(t, "numa")
	}
	if r.Claims[0].Kind == allocate.KindWhole && rapid.IntRange(0, 3).Draw(t, "nic") == 0 {
		r.NIC = allocate.NICRequire
	}
	return r
}

// drawGang draws a gang of one role.
func drawGang(t *rapid.T, c *cluster) *placement.Problem {
	p := &placement.Problem{
		Group: "ns/a", Resources: []string{"cpu", "memory"}, Nodes: c.nodes, Near: c.near,
		Roles:   []placement.Role{{Name: "worker", Request: drawRequest(t), Needs: drawNeeds(t)}},
		Members: membersOf("a", 0, rapid.IntRange(1, 12).Draw(t, "members"), 0),
	}
	p.Need = rapid.IntRange(1, len(p.Members)).Draw(t, "need")
	return p
}

// drawMixed draws a gang of two or three roles of plain cards or none.
func drawMixed(t *rapid.T, c *cluster) *placement.Problem {
	p := &placement.Problem{Group: "ns/a", Resources: []string{"cpu", "memory"}, Nodes: c.nodes, Near: c.near}
	for r := range rapid.IntRange(2, 3).Draw(t, "roles") {
		role := placement.Role{Name: fmt.Sprintf("role%d", r), Needs: drawNeeds(t)}
		if n := rapid.IntRange(0, 8).Draw(t, "cards"); n > 0 {
			role.Request = whole(n)
		}
		p.Roles = append(p.Roles, role)
		p.Members = append(p.Members, membersOf(role.Name, r, rapid.IntRange(1, 4).Draw(t, "members"), 0)...)
	}
	p.Need = rapid.IntRange(1, len(p.Members)).Draw(t, "need")
	return p
}

// checkPlan checks all that a plan promises whatever the gang is.
func checkPlan(t *rapid.T, c *cluster, p *placement.Problem, plan *placement.Plan) {
	if len(plan.Assignments) != p.Need {
		t.Fatalf("%d of %d members are placed", len(plan.Assignments), p.Need)
	}
	nodes := map[ledger.NodeName]*placement.Node{}
	used := map[ledger.NodeName][]int64{}
	for i := range p.Nodes {
		nodes[p.Nodes[i].Name] = &p.Nodes[i]
	}
	members := map[ledger.PodUID]placement.Member{}
	for _, m := range p.Members {
		members[m.UID] = m
	}
	var hs []ledger.Holding
	fresh := 0
	for k, a := range plan.Assignments {
		m, ok := members[a.Pod]
		n := nodes[a.Node]
		if !ok || n == nil || m.Role != a.Role || m.Rank != a.Rank || n.Roles>>a.Role&1 == 0 {
			t.Fatalf("assignment %+v is of no member, or of a node that does not admit it", a)
		}
		delete(members, a.Pod)
		if k > 0 && plan.Assignments[k-1].Rank > a.Rank {
			t.Fatalf("rank %d follows %d", a.Rank, plan.Assignments[k-1].Rank)
		}
		if used[a.Node] == nil {
			used[a.Node] = make([]int64, len(p.Resources))
			if !p.Near[a.Node] {
				fresh++
			}
		}
		for r, need := range p.Roles[a.Role].Needs {
			used[a.Node][r] += need
			if used[a.Node][r] > max(0, n.Free[r]) {
				t.Fatalf("node %s has %d of %s, members take %d", a.Node, n.Free[r], p.Resources[r], used[a.Node][r])
			}
		}
		if len(a.Choice.Cards) > 0 {
			hs = append(hs, ledger.Holding{UID: a.Pod, Node: a.Node, Cards: a.Choice.Cards})
		}
		if asks := p.Roles[a.Role].Request != nil; asks != (len(a.Choice.Cards) > 0) || asks && a.Topology != n.View.Topology {
			t.Fatalf("member %s of %+v gets %+v", a.Pod, p.Roles[a.Role].Request, a.Choice)
		}
	}
	if plan.Nodes != len(used) || plan.New != fresh {
		t.Fatalf("the plan says %d nodes, %d new; it has %d, %d", plan.Nodes, plan.New, len(used), fresh)
	}
	if err := c.ledger.AssumeAll(hs); err != nil {
		t.Fatalf("the ledger refuses the plan: %v", err)
	}
	for _, h := range hs {
		c.ledger.Forget(h.UID)
	}
}

var whatPlansShow = cmpopts.IgnoreFields(placement.Assignment{}, "Topology")

// checkOrder checks that the answer does not depend on the order of nodes nor on what the planner planned before.
func checkOrder(t *rapid.T, planner *placement.Planner, p *placement.Problem, plan *placement.Plan, rej *placement.Rejection) {
	shuffled := *p
	shuffled.Nodes = append([]placement.Node(nil), p.Nodes...)
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	rnd.Shuffle(len(shuffled.Nodes), func(i, j int) {
		shuffled.Nodes[i], shuffled.Nodes[j] = shuffled.Nodes[j], shuffled.Nodes[i]
	})
	for _, pl := range []*placement.Planner{planner, placement.NewPlanner(allocate.NewChooser())} {
		plan2, rej2, err := pl.Plan(&shuffled)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan, plan2, whatPlansShow); diff != "" {
			t.Fatalf("another order of nodes, another plan:\n%s", diff)
		}
		if diff := cmp.Diff(rej, rej2); diff != "" {
			t.Fatalf("another order of nodes, another rejection:\n%s", diff)
		}
	}
}

func TestOneRole(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, 6, 1)
		p := drawGang(t, c)
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		fewest := fewestNew(p, p.Need)
		if (rej == nil) != (fewest >= 0) {
			t.Fatalf("rejection %v, the oracle needs %d nodes", rej, fewest)
		}
		checkOrder(t, planner, p, plan, rej)
		if rej == nil {
			checkPlan(t, c, p, plan)
			if plan.New != fewest {
				t.Fatalf("the plan takes %d new nodes, %d do", plan.New, fewest)
			}
			return
		}
		checkRejection(t, p, rej)
	})
}

// checkRejection counts anew what a rejection of a gang of one role says.
func checkRejection(t *rapid.T, p *placement.Problem, rej *placement.Rejection) {
	if rej.Need != p.Need || rej.Want != p.Need || rej.Placeable != mostPlaced(p, p.Need) || rej.Nodes != len(p.Nodes) {
		t.Fatalf("rejection %+v, the most that can be placed are %d", rej, mostPlaced(p, p.Need))
	}
	excluded, cardNodes, places := 0, 0, 0
	cardsOnly := placement.Role{Request: p.Roles[0].Request}
	var free, largest int64
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Roles&1 == 0 {
			excluded++
			continue
		}
		if n.View != nil {
			free += int64(n.View.Free.Len())
			largest = max(largest, int64(n.View.Free.Len()))
		}
		switch h := held(n, 0, &cardsOnly, p.Need); {
		case p.Roles[0].Request == nil:
			places += held(n, 0, &p.Roles[0], p.Need)
		case h > 0:
			cardNodes++
			places += h
		}
	}
	if rej.Excluded != excluded || rej.CardNodes != cardNodes || rej.Places != places {
		t.Fatalf("rejection %+v; %d nodes are excluded, %d have places for %d members", rej, excluded, cardNodes, places)
	}
	if rej.GPUs.Kind == allocate.KindWhole && (rej.GPUs.Free != free || rej.GPUs.Largest != largest) {
		t.Fatalf("rejection %+v; %d GPUs are free, %d on one node", rej, free, largest)
	}
	switch rej.Gap {
	case placement.GapNodes:
		if excluded != len(p.Nodes) {
			t.Fatalf("%v, but a node admits them", rej)
		}
	case placement.GapTotal:
		if rej.GPUs.Free >= rej.GPUs.Needed {
			t.Fatalf("%v, but enough is free", rej)
		}
	case placement.GapFragments:
		if rej.GPUs.Free < rej.GPUs.Needed || places >= p.Need {
			t.Fatalf("%v, but it is not that", rej)
		}
	case placement.GapResource:
		if p.Roles[0].Request != nil && places < p.Need || rej.Resource == "" || rej.ResourceNodes == 0 {
			t.Fatalf("%v, but no resource is short", rej)
		}
	case placement.GapTogether, placement.GapApart, placement.GapSlices, placement.GapSlice:
		t.Fatalf("%v, but there is one role", rej)
	}
	if s := rej.String(); s == "" || len(s) > 400 {
		t.Fatalf("sentence %q", s)
	}
}

func TestMixedRoles(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, 4, 2)
		p := drawMixed(t, c)
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		if (rej == nil) != fitsMixed(p) {
			t.Fatalf("rejection %v, the oracle says that it fits: %v", rej, fitsMixed(p))
		}
		checkOrder(t, planner, p, plan, rej)
		if rej != nil {
			if rej.Placeable >= p.Need || rej.Placeable < 0 || rej.String() == "" {
				t.Fatalf("rejection %+v", rej)
			}
			return
		}
		checkPlan(t, c, p, plan)
		placed := make([]int, len(p.Roles))
		for _, a := range plan.Assignments {
			placed[a.Role]++
		}
		if fewest := fewestMixed(p, placed); plan.New != fewest {
			t.Fatalf("the plan takes %d new nodes, %d do", plan.New, fewest)
		}
	})
}

// Gangs that leave little or nothing free: members are made by cutting up what the nodes have, so that most gangs fit,
// but only if every member is where it belongs.
func TestTightRoles(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{ledger: ledger.New(), near: map[ledger.NodeName]bool{}}
		p := &placement.Problem{Group: "ns/a", Resources: []string{"cpu"}, Near: c.near}
		count := map[[2]int]int{}
		for i := range rapid.IntRange(2, 4).Draw(t, "nodes") {
			free := rapid.IntRange(3, 8).Draw(t, "free")
			cpu := 0
			for left := free; left > 0; {
				cut := [2]int{rapid.IntRange(min(2, left), min(5, left)).Draw(t, "cards"), rapid.IntRange(1, 2).Draw(t, "cpu")}
				left -= cut[0]
				if len(count) < 3 || count[cut] > 0 {
					count[cut]++
					cpu += cut[1]
				}
			}
			name := ledger.NodeName(fmt.Sprintf("n%d", i))
			c.ledger.SetNode(name, machine(t, string(name), topology.Spec{Cards: cards(free, 80*gib)}))
			c.near[name] = rapid.IntRange(0, 3).Draw(t, "near") == 0
			p.Nodes = append(p.Nodes, placement.Node{Name: name, View: &c.ledger.Node(name).View, Free: []int64{int64(cpu)}, Roles: ^uint64(0)})
		}
		for cut := range count {
			p.Roles = append(p.Roles, placement.Role{Name: fmt.Sprint(cut), Request: whole(cut[0]), Needs: []int64{int64(cut[1])}})
		}
		slices.SortFunc(p.Roles, func(a, b placement.Role) int { return strings.Compare(a.Name, b.Name) })
		for r := range p.Roles {
			n := count[[2]int{p.Roles[r].Request.Claims[0].Count, int(p.Roles[r].Needs[0])}]
			p.Members = append(p.Members, membersOf(p.Roles[r].Name, r, n, 0)...)
		}
		p.Need = len(p.Members) - rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "spare")%len(p.Members)
		plan, rej, err := planner.Plan(p)
		if err != nil || rej != nil {
			t.Fatalf("rejection %v, error %v, but it fits", rej, err)
		}
		checkPlan(t, c, p, plan)
		placed := make([]int, len(p.Roles))
		for _, a := range plan.Assignments {
			placed[a.Role]++
		}
		if fewest := fewestMixed(p, placed); plan.New != fewest {
			t.Fatalf("the plan takes %d new nodes, %d do", plan.New, fewest)
		}
	})
}

// Any mix of requests: what is planned can be held.
func TestAnyRoles(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, 5, 2)
		p := drawMixed(t, c)
		for r := range p.Roles {
			p.Roles[r].Request = drawRequest(t)
			if rapid.IntRange(0, 3).Draw(t, "several cards") == 0 {
				p.Roles[r].Request = share(rapid.Int64Range(1, 40).Draw(t, "GiB")*gib, rapid.IntRange(2, 4).Draw(t, "cards"))
			}
			if p.Roles[r].Request != nil && rapid.IntRange(0, 3).Draw(t, "two claims") == 0 {
				p.Roles[r].Request.Claims = append(p.Roles[r].Request.Claims, allocate.Claim{
					Container: "other", Kind: allocate.KindShare, Count: rapid.IntRange(1, 2).Draw(t, "count"), VRAMBytes: 7 * gib,
				})
			}
		}
		plan, rej, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, planner, p, plan, rej)
		if rej == nil {
			checkPlan(t, c, p, plan)
		} else if rej.Placeable >= p.Need || rej.String() == "" {
			t.Fatalf("rejection %+v", rej)
		}
	})
}

// A node more never makes a gang that fits not fit, nor takes more nodes.
func TestNodeMore(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t, 5, 2)
		draw := drawGang
		if rapid.Bool().Draw(t, "mixed") {
			draw = drawMixed
		}
		p := draw(t, c)
		before, rejBefore, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		more := drawNode(t, 2)
		more.near = false
		c.add(t, "a-first", &more)
		p.Nodes = c.nodes
		after, rejAfter, err := planner.Plan(p)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case rejBefore != nil && rejAfter != nil && len(p.Roles) == 1 && rejAfter.Placeable < rejBefore.Placeable:
			t.Fatalf("%d can be placed, before the node came %d", rejAfter.Placeable, rejBefore.Placeable)
		case rejBefore == nil && rejAfter != nil:
			t.Fatalf("with a node more the gang does not fit: %v", rejAfter)
		case rejBefore == nil && len(p.Roles) == 1 && after.New > before.New:
			t.Fatalf("with a node more the gang takes %d nodes, before %d", after.New, before.New)
		}
	})
}
