package fabric

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// rack is some nodes below one leaf switch. A spine of "" is no label.
type rack struct {
	spine, name string
	nodes       int
}

// cluster is racks of nodes n0, n1, ... of one machine, whose cards the ledger keeps.
type cluster struct {
	t       *testing.T
	planner *placement.Planner
	ledger  *ledger.Ledger
	fabric  *topology.Fabric
	nodes   []ledger.NodeName
	rack    map[ledger.NodeName]string
	// pods counts the pods of others so far, gone those of them that have ended.
	pods, gone int
}

// newCluster builds the racks; key is the label that names a rack.
func newCluster(t *testing.T, machine *topology.Node, key string, racks ...rack) *cluster {
	t.Helper()
	c := &cluster{
		t: t, planner: placement.NewPlanner(allocate.NewChooser()), ledger: ledger.New(), rack: map[ledger.NodeName]string{},
	}
	builder := topology.NewFabricBuilder(topology.DefaultLevels())
	for _, r := range racks {
		for range r.nodes {
			name := ledger.NodeName(fmt.Sprintf("n%d", len(c.nodes)))
			c.nodes = append(c.nodes, name)
			c.rack[name] = r.name
			c.ledger.SetNode(name, machine)
			builder.SetNode(string(name), map[string]string{key: r.name, "network.topology.nvidia.com/spine": r.spine})
		}
	}
	c.fabric = builder.Fabric()
	return c
}

const (
	leafKey   = "network.topology.nvidia.com/leaf"
	nvlinkKey = "nvidia.com/gpu.clique"
)

func gpus(n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindWhole, Count: n}}}
}

func (c *cluster) position(name ledger.NodeName) int {
	at, ok := c.fabric.Position(string(name))
	if !ok {
		c.t.Fatalf("the fabric lacks %s", name)
	}
	return at
}

// gang is n members with ranks 0 to n-1 that ask for so many GPUs each.
func (c *cluster) gang(name string, n, each int) *placement.Problem {
	p := &placement.Problem{Group: "ns/" + name, Roles: []placement.Role{{Request: gpus(each)}}, Need: n, Fabric: c.fabric}
	for rank := range n {
		p.Members = append(p.Members, placement.Member{UID: ledger.PodUID(fmt.Sprintf("%s-%d", name, rank)), Rank: rank})
	}
	return p
}

// plan plans on the cluster as it is.
func (c *cluster) plan(p *placement.Problem) (*placement.Plan, *placement.Rejection) {
	c.t.Helper()
	p.Nodes = nil
	for _, name := range c.nodes {
		n := placement.Node{Name: name, View: &c.ledger.Node(name).View, Roles: ^uint64(0), Position: c.position(name)}
		n.Free = slices.Repeat([]int64{110}, len(p.Resources))
		p.Nodes = append(p.Nodes, n)
	}
	plan, rejection, err := c.planner.Plan(p)
	if err != nil {
		c.t.Fatal(err)
	}
	return plan, rejection
}

// place plans, takes the cards, and returns the nodes in rank order.
func (c *cluster) place(p *placement.Problem) []ledger.NodeName {
	c.t.Helper()
	plan, rejection := c.plan(p)
	if rejection != nil {
		c.t.Fatalf("%s", rejection)
	}
	var holdings []ledger.Holding
	var nodes []ledger.NodeName
	for _, a := range plan.Assignments {
		nodes = append(nodes, a.Node)
		holdings = append(holdings, ledger.Holding{UID: a.Pod, Pod: "ns/" + string(a.Pod), Node: a.Node, Cards: a.Choice.Cards})
	}
	if err := c.ledger.AssumeAll(holdings); err != nil {
		c.t.Fatal(err)
	}
	return nodes
}

// refused plans, and returns the sentence of the rejection.
func (c *cluster) refused(p *placement.Problem) string {
	c.t.Helper()
	plan, rejection := c.plan(p)
	if rejection == nil {
		c.t.Fatalf("got a plan in %s %s, want a rejection", plan.LCA.Level, plan.LCA.Name)
	}
	return rejection.String()
}

// racks counts the nodes by rack.
func (c *cluster) racks(nodes []ledger.NodeName) map[string]int {
	out := map[string]int{}
	for _, n := range nodes {
		out[c.rack[n]]++
	}
	return out
}

// use gives all cards of nodes, named by their numbers, to somebody else.
func (c *cluster) use(nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		c.foreign(c.nodes[i], c.ledger.Node(c.nodes[i]).Topology.Len())
	}
}

// foreign adds a pod of another scheduler with so many GPUs, whatever the node has.
func (c *cluster) foreign(name ledger.NodeName, cards int) {
	c.t.Helper()
	c.pods++
	pod := fmt.Sprintf("foreign-%d", c.pods)
	if err := c.ledger.Adopt(ledger.Holding{UID: ledger.PodUID(pod), Pod: "other/" + pod, Node: name, UnknownCards: cards}); err != nil {
		c.t.Fatal(err)
	}
}

// running are members with ranks 0, 1, ... on the nodes.
func (c *cluster) running(nodes []ledger.NodeName) []placement.Fixed {
	var out []placement.Fixed
	for rank, n := range nodes {
		out = append(out, placement.Fixed{Node: n, Position: c.position(n), Rank: rank})
	}
	return out
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestCaseB124RackWithMembersBeatsAFreshOne: a gang that does not fit in one rack uses two of one spine, also where its
// members come one by one; wherever the first one is, a third rack is never used.
func TestCaseB124RackWithMembersBeatsAFreshOne(t *testing.T) {
	racks := []rack{{"spine-a", "s0", 2}, {"spine-a", "s1", 2}, {"spine-b", "s2", 2}}
	t.Run("together", func(t *testing.T) {
		c := newCluster(t, host(t), leafKey, racks...)
		equal(t, "members by rack", map[string]int{"s0": 2, "s1": 2}, c.racks(c.place(c.gang("a", 4, 8))))
	})
	tests := map[string]struct {
		first int
		want  map[string]int
	}{
		"first in s0": {first: 0, want: map[string]int{"s0": 2, "s1": 2}},
		"first in s1": {first: 3, want: map[string]int{"s0": 2, "s1": 2}},
		// The other spine is as far as can be, so the two that come last share the rack that one of them opens.
		"first in s2": {first: 4, want: map[string]int{"s2": 2, "s0": 2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, host(t), leafKey, racks...)
			c.use(tc.first)
			nodes := []ledger.NodeName{c.nodes[tc.first]}
			for rank := 1; rank < 4; rank++ {
				p := c.gang("a", 4, 8)
				p.Members, p.Need, p.Placed = p.Members[rank:rank+1], 1, c.running(nodes)
				nodes = append(nodes, c.place(p)...)
			}
			equal(t, "members by rack", tc.want, c.racks(nodes))
		})
	}
}

// TestCaseB126ReplacementReturnsToItsRack: a member that is created anew goes where the others run, whether the planner has
// seen them start or not; where their rack is full it waits if it must, or takes the nearest rack.
func TestCaseB126ReplacementReturnsToItsRack(t *testing.T) {
	tests := map[string]struct {
		hard, full bool
		want       string
		refused    string
	}{
		"hard":            {hard: true, want: "r1"},
		"soft":            {want: "r1"},
		"hard, rack full": {hard: true, full: true, refused: "gang ns/a: 0 of 1 pod can be placed; the best leaf, r1, has 0 of the 8 free GPUs that are needed"},
		"soft, rack full": {full: true, want: "r2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			// r0 is under another spine, and first by name.
			c := newCluster(t, host(t), leafKey, rack{"spine-a", "r0", 4}, rack{"spine-b", "r1", 4}, rack{"spine-b", "r2", 4})
			nodes := c.nodes[4:7]
			c.use(4, 5, 6)
			if tc.full {
				c.use(7)
			}
			for _, restarted := range []bool{false, true} {
				if restarted {
					c.planner = placement.NewPlanner(allocate.NewChooser())
				}
				p := c.gang("a", 4, 8)
				p.Members, p.Need, p.Placed = p.Members[3:], 1, c.running(nodes)
				p.Required, p.HasRequired = topology.LevelLeaf, tc.hard
				if tc.refused != "" {
					equal(t, "rejection", tc.refused, firstPart(c.refused(p)))
					continue
				}
				plan, rejection := c.plan(p)
				if rejection != nil {
					t.Fatalf("restarted %v: %s", restarted, rejection)
				}
				equal(t, "rack", tc.want, c.rack[plan.Assignments[0].Node])
				equal(t, "rank", 3, plan.Assignments[0].Rank)
			}
		})
	}
}

// TestCaseB127TotalsFollow: what a plan takes is gone for the next one, so that no gang is planned onto a full rack, and what
// is given back is there again.
func TestCaseB127TotalsFollow(t *testing.T) {
	const racks = 100
	var all []rack
	for i := range racks {
		all = append(all, rack{"spine", fmt.Sprintf("r%02d", i), 1})
	}
	c := newCluster(t, host(t), leafKey, all...)
	used := map[ledger.NodeName]bool{}
	for i := range racks {
		// AssumeAll fails on a node that is in use.
		nodes := c.place(c.gang(fmt.Sprintf("g%d", i), 1, 8))
		used[nodes[0]] = true
	}
	equal(t, "racks in use", racks, len(used))
	late := c.gang("late", 1, 8)
	equal(t, "rejection", "gang ns/late: 0 of 1 pod can be placed; too few free GPUs: 0 of 800 are free, 8 are needed", firstPart(c.refused(late)))
	holding, _, ok := c.ledger.Holding("g42-0")
	if !ok || !c.ledger.Release("g42-0") {
		t.Fatal("the ledger does not hold g42-0")
	}
	equal(t, "node of the late gang", []ledger.NodeName{holding.Node}, c.place(late))
}

// firstPart is a rejection up to what it says about blocks.
func firstPart(s string) string {
	head, _, _ := strings.Cut(s, ", the largest")
	return head
}

// TestCaseB129RequiredLevels: the planner looks for the narrowest domain whatever is preferred, so that a preferred level
// can neither be lost nor widen what is required. The rows are the case's pairs of required and preferred level.
func TestCaseB129RequiredLevels(t *testing.T) {
	spines := [2]string{"s", "s"}
	tests := map[string]struct {
		spines   [2]string
		required topology.Level
		none     bool
		each     int
		busy     []int
		want     topology.Level // of the narrowest domain that holds the gang
		refused  bool
	}{
		"rack, rack":                               {spines: spines, required: topology.LevelLeaf, each: 8, want: topology.LevelLeaf},
		"rack, rack: each has room for one":        {spines: spines, required: topology.LevelLeaf, each: 8, busy: []int{0, 2}, refused: true},
		"rack, spine":                              {spines: spines, required: topology.LevelLeaf, each: 8, busy: []int{0}, want: topology.LevelLeaf},
		"rack, spine: each has room for one":       {spines: spines, required: topology.LevelLeaf, each: 8, busy: []int{1, 3}, refused: true},
		"spine, rack: a rack has room":             {spines: spines, required: topology.LevelSpine, each: 8, busy: []int{1}, want: topology.LevelLeaf},
		"spine, rack: each has room for one":       {spines: spines, required: topology.LevelSpine, each: 8, busy: []int{0, 2}, want: topology.LevelSpine},
		"spine, rack: each, under spines apart":    {spines: [2]string{"s", "u"}, required: topology.LevelSpine, each: 8, busy: []int{0, 2}, refused: true},
		"none, root: a rack has room":              {spines: spines, none: true, each: 8, busy: []int{0}, want: topology.LevelLeaf},
		"none, root: each, under spines apart":     {spines: [2]string{"s", "u"}, none: true, each: 8, busy: []int{0, 2}, want: topology.LevelCluster},
		"root, root: each, under spines apart":     {spines: [2]string{"s", "u"}, required: topology.LevelCluster, each: 8, busy: []int{0, 2}, want: topology.LevelCluster},
		"host, host: both on one node":             {spines: spines, required: topology.LevelHost, each: 4, want: topology.LevelHost},
		"host, host: a node has room for one only": {spines: spines, required: topology.LevelHost, each: 8, refused: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, host(t), leafKey, rack{tc.spines[0], "r0", 2}, rack{tc.spines[1], "r1", 2})
			c.use(tc.busy...)
			p := c.gang("a", 2, tc.each)
			p.Required, p.HasRequired = tc.required, !tc.none
			plan, rejection := c.plan(p)
			switch {
			case (rejection != nil) != tc.refused:
				t.Errorf("rejection %v, want one: %v", rejection, tc.refused)
			case plan != nil:
				equal(t, "level of the narrowest domain", tc.want, plan.LCA.Level)
			}
		})
	}
}

// TestCaseB130DomainThatHoldsAll: an NVLink domain is chosen by whether the whole gang fits, before how full it is.
func TestCaseB130DomainThatHoldsAll(t *testing.T) {
	tests := map[string]struct {
		members int
		hard    bool
		want    map[string]int
		refused string
	}{
		"fits in d2":             {members: 3, want: map[string]int{"d2": 3}},
		"fits in d2, hard":       {members: 3, hard: true, want: map[string]int{"d2": 3}},
		"the fullest, if it can": {members: 1, hard: true, want: map[string]int{"d1": 1}},
		"fits in none":           {members: 6, want: map[string]int{"d2": 4, "d3": 2}},
		"fits in none, hard": {
			members: 6, hard: true,
			refused: "gang ns/a: 4 of 6 pods can be placed; the best NVLink domain, d2, has 32 of the 48 free GPUs that are needed",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, host(t), nvlinkKey, rack{"", "d1", 4}, rack{"", "d2", 4}, rack{"", "d3", 4})
			c.use(0, 1, 2, 8, 9)
			p := c.gang("a", tc.members, 8)
			p.Required, p.HasRequired = topology.LevelNVLink, tc.hard
			if tc.refused != "" {
				equal(t, "rejection", tc.refused, c.refused(p))
				return
			}
			equal(t, "members by domain", tc.want, c.racks(c.place(p)))
		})
	}
}

// fourCards is a node of four H100 joined by NVSwitch.
func fourCards(t *testing.T) *topology.Node {
	t.Helper()
	spec := topology.Spec{NVSwitch: true}
	for i := range 4 {
		spec.Cards = append(spec.Cards, topology.Card{UUID: fmt.Sprintf("GPU-%d", i), Product: "NVIDIA H100 80GB HBM3", VRAMBytes: 80 << 30, Healthy: true})
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCaseB132TwoRolesAndOvercommittedNodes: a launcher without GPUs and 208 workers of four, on racks with random use by
// others, also of more than there is. The gang is placed whole if and only if 208 nodes are free, and the numbers add up.
func TestCaseB132TwoRolesAndOvercommittedNodes(t *testing.T) {
	const racks, perRack, workers, rounds = 33, 18, 208, 1000
	var all []rack
	for i := range racks {
		all = append(all, rack{"spine", fmt.Sprintf("r%02d", i), perRack})
	}
	machine := fourCards(t)
	c := newCluster(t, machine, leafKey, all...)
	rng := rand.New(rand.NewPCG(132, 0))
	placed := 0
	for round := range rounds {
		// Few or no nodes stay free in some rounds, and about as many as are needed in most.
		idle := (float64(workers)/(racks*perRack))*0.9 + 0.2*rng.Float64()
		whole, left := c.crowd(rng, idle)
		p := c.job(workers)
		plan, rejection := c.plan(p)
		switch fits := whole >= workers; {
		case fits != (plan != nil):
			t.Fatalf("round %d: %d nodes are free, rejection %v", round, whole, rejection)
		case fits:
			placed++
			checkParts(t, c, plan, workers)
		default:
			equal(t, "free GPUs", int64(left), rejection.GPUs.Free)
			if want := min(whole, workers) + 1; rejection.Placeable > want || rejection.Placeable < 0 {
				t.Fatalf("round %d: %d members could be placed, there is room for %d", round, rejection.Placeable, want)
			}
		}
		if round%20 == 0 {
			p.Required, p.HasRequired = topology.LevelLeaf, true
			_, rejection := c.plan(p)
			if rejection == nil {
				t.Fatalf("round %d: %d workers are planned onto the %d nodes of one rack", round, workers, perRack)
			}
			equal(t, "free GPUs of "+rejection.Domain, c.freeIn(rejection.Domain), rejection.GPUs.Free)
		}
		c.clear()
	}
	if placed < rounds/10 || placed > rounds*9/10 {
		t.Errorf("%d of %d gangs fit, so one of the answers is hardly tested", placed, rounds)
	}
}

// job is a gang of workers of four GPUs and one launcher.
func (c *cluster) job(workers int) *placement.Problem {
	p := c.gang("job", workers, 4)
	p.Resources = []string{"pods"}
	p.Roles = []placement.Role{{Name: "worker", Request: gpus(4), Needs: []int64{1}}, {Name: "launcher", Needs: []int64{1}}}
	p.Members = append(p.Members, placement.Member{UID: "job-launcher", Role: 1, Rank: workers})
	p.Need++
	return p
}

// freeIn is the number of free GPUs of the nodes of a rack.
func (c *cluster) freeIn(name string) int64 {
	sum := 0
	for node, r := range c.rack {
		if r == name {
			sum += c.ledger.Node(node).Free.Len()
		}
	}
	return int64(sum)
}

// crowd gives others random numbers of cards of each node, none with the chance idle; also more than there are, which
// closes a node. It returns how many nodes stay free and how many cards, each node's no fewer than 0.
func (c *cluster) crowd(rng *rand.Rand, idle float64) (whole, left int) {
	c.t.Helper()
	for _, name := range c.nodes {
		if rng.Float64() < idle {
			whole, left = whole+1, left+4
			continue
		}
		used := 1 + rng.IntN(6)
		c.foreign(name, used)
		left += max(0, 4-used)
	}
	return whole, left
}

// clear ends all pods of others.
func (c *cluster) clear() {
	c.t.Helper()
	for c.gone < c.pods {
		c.gone++
		if !c.ledger.Release(ledger.PodUID(fmt.Sprintf("foreign-%d", c.gone))) {
			c.t.Fatalf("the ledger does not hold foreign-%d", c.gone)
		}
	}
}

// checkParts holds the parts of a plan against its members: every leaf, node and rank range has some, and they add up.
func checkParts(t *testing.T, c *cluster, plan *placement.Plan, workers int) {
	t.Helper()
	roles, onNode, inRack := [2]int{}, map[ledger.NodeName]int{}, map[string]int{}
	for _, a := range plan.Assignments {
		roles[a.Role]++
		inRack[c.rack[a.Node]]++
		if cards := len(a.Choice.Cards); cards > 0 {
			onNode[a.Node] += cards
		}
	}
	equal(t, "members by role", [2]int{workers, 1}, roles)
	for name, n := range onNode {
		if free := c.ledger.Node(name).Free.Len(); n > free {
			t.Errorf("%s gives %d cards, %d are free", name, n, free)
		}
	}
	equal(t, "racks", len(inRack), plan.Domains[topology.LevelLeaf])
	sum := 0
	for _, r := range plan.Layout {
		if r.LastRank < r.FirstRank {
			t.Errorf("%s %s has ranks %d to %d", r.Level, r.Name, r.FirstRank, r.LastRank)
		}
		if r.Level == topology.LevelLeaf {
			sum += r.LastRank - r.FirstRank + 1
		}
	}
	equal(t, "ranks of all leaves", workers+1, sum)
}

// TestCaseB133SmallPodsLeaveWholeRacks: pods of one GPU fill the node, and then the rack, that is in use already.
func TestCaseB133SmallPodsLeaveWholeRacks(t *testing.T) {
	var all []rack
	for i := range 4 {
		all = append(all, rack{"spine", fmt.Sprintf("r%d", i), 4})
	}
	c := newCluster(t, host(t), leafKey, all...)
	var solos []ledger.NodeName
	for i := range 16 {
		solos = append(solos, c.place(c.gang(fmt.Sprintf("solo%d", i), 1, 1))...)
	}
	used := map[ledger.NodeName]int{}
	for _, n := range solos {
		used[n]++
	}
	equal(t, "pods by node", map[ledger.NodeName]int{"n0": 8, "n1": 8}, used)
	equal(t, "pods by rack", map[string]int{"r0": 16}, c.racks(solos))
	big := c.gang("big", 4, 8)
	big.Required, big.HasRequired = topology.LevelLeaf, true
	equal(t, "members by rack", map[string]int{"r1": 4}, c.racks(c.place(big)))
}
