package placement_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestPlanNodes(t *testing.T) {
	type names = []ledger.NodeName
	tests := map[string]struct {
		free    []int
		members int
		cards   int
		near    map[ledger.NodeName]bool
		want    names
	}{
		"one node of several":                     {free: []int{8, 8, 8}, members: 2, cards: 4, want: names{"n0", "n0"}},
		"the fullest that holds the gang":         {free: []int{8, 6, 4}, members: 1, cards: 4, want: names{"n2"}},
		"fewest nodes before fullest":             {free: []int{4, 8, 4}, members: 2, cards: 4, want: names{"n1", "n1"}},
		"the rest goes where it fits best":        {free: []int{8, 8, 4}, members: 3, cards: 4, want: names{"n0", "n0", "n2"}},
		"no larger node than needed for the rest": {free: []int{8, 5, 4, 8, 8}, members: 9, cards: 1, want: append(repeat("n1", 5), repeat("n2", 4)...)},
		"larger nodes are kept while there is slack": {
			free: []int{8, 8, 8, 5, 5, 4}, members: 17, cards: 1,
			want: slices.Concat(repeat("n1", 8), repeat("n3", 5), repeat("n5", 4)),
		},
		"whole nodes in order of name":      {free: []int{8, 8, 8, 7}, members: 2, cards: 8, want: names{"n0", "n1"}},
		"ranks follow each other on a node": {free: []int{4, 8, 2}, members: 7, cards: 2, want: names{"n0", "n0", "n1", "n1", "n1", "n1", "n2"}},
		"near nodes first": {
			free: []int{8, 8, 2, 1}, members: 4, cards: 1, near: map[ledger.NodeName]bool{"n2": true, "n3": true},
			want: names{"n0", "n2", "n2", "n3"},
		},
		"the near node that holds all": {
			free: []int{4, 8, 8}, members: 1, cards: 4, near: map[ledger.NodeName]bool{"n2": true}, want: names{"n2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := fleet(t, gang(tt.members, whole(tt.cards)), tt.free...)
			p.Near = tt.near
			plan := mustPlan(t, p)
			if diff := cmp.Diff(tt.want, where(plan)); diff != "" {
				t.Errorf("nodes in rank order (-want +got):\n%s", diff)
			}
			distinct, fresh := map[ledger.NodeName]bool{}, 0
			for _, n := range tt.want {
				if !distinct[n] && !tt.near[n] {
					fresh++
				}
				distinct[n] = true
			}
			if plan.Nodes != len(distinct) || plan.New != fresh {
				t.Errorf("plan has %d nodes, %d new; want %d, %d", plan.Nodes, plan.New, len(distinct), fresh)
			}
		})
	}
}

func repeat(name ledger.NodeName, n int) []ledger.NodeName {
	out := make([]ledger.NodeName, n)
	for i := range out {
		out[i] = name
	}
	return out
}

// Among nodes that hold equally many, the one with the faster ring is taken, though a slower one is fuller.
func TestPlanFasterRing(t *testing.T) {
	p := gang(1, whole(4))
	p.Nodes = []placement.Node{
		{Name: "pairs", View: viewOf(machine(t, "p", n8p()), topology.FirstN(4)), Roles: 1},
		{Name: "switch", View: viewOf(machine(t, "s", n8s()), topology.FirstN(5)), Roles: 1},
	}
	if got := where(mustPlan(t, p)); got[0] != "switch" {
		t.Errorf("the member goes to %s", got[0])
	}
}

// Two members of one card each get the two cards of one NVLink pair, not one card of each of two broken pairs.
func TestPlanCardsOfOneNode(t *testing.T) {
	p := gang(2, whole(1))
	p.Nodes = []placement.Node{{Name: "pairs", View: viewOf(machine(t, "p", n8p()), topology.SetOf(0, 3, 4, 5)), Roles: 1}}
	plan := mustPlan(t, p)
	if got := plan.Assignments[0].Choice.Set() | plan.Assignments[1].Choice.Set(); got != topology.SetOf(4, 5) {
		t.Errorf("the members get %v", got)
	}
	if left := plan.Assignments[0].Choice.Quality.FreeLeft; left != 3 {
		t.Errorf("the first choice says that %d cards are left", left)
	}
}

func TestPlanRanks(t *testing.T) {
	p := fleet(t, gang(4, whole(4)), 8, 8)
	for i, rank := range []int{-1, 7, -1, 2} {
		p.Members[i].Rank = rank
	}
	plan := mustPlan(t, p)
	type row struct {
		Pod  ledger.PodUID
		Rank int
		Node ledger.NodeName
	}
	var got []row
	for _, a := range plan.Assignments {
		got = append(got, row{a.Pod, a.Rank, a.Node})
	}
	want := []row{{"a-3", 2, "n0"}, {"a-1", 7, "n0"}, {"a-0", -1, "n1"}, {"a-2", -1, "n1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
}

// Where more members than needed may be placed, the first ones are.
func TestPlanFirstMembers(t *testing.T) {
	p := fleet(t, gang(5, whole(8)), 8, 8, 8)
	p.Need = 2
	for i := range p.Members {
		p.Members[i].Rank = 9 - i
	}
	plan := mustPlan(t, p)
	if a := plan.Assignments; len(a) != 2 || a[0].Pod != "a-1" || a[1].Pod != "a-0" {
		t.Errorf("placed %+v", a)
	}
}

// Roles that ask for the same are one: the gang is placed exactly, each container under its own name.
func TestPlanAlikeRoles(t *testing.T) {
	p := fleet(t, gang(0, nil), 4, 8, 4)
	master, worker := whole(4), whole(4)
	master.Claims[0].Container = "pytorch-master"
	p.Roles = []placement.Role{{Name: "master", Request: master}, {Name: "worker", Request: worker}}
	p.Members = append(membersOf("m", 0, 1, 0), membersOf("w", 1, 3, 1)...)
	p.Need = 4
	plan := mustPlan(t, p)
	if diff := cmp.Diff([]ledger.NodeName{"n0", "n1", "n1", "n2"}, where(plan)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if name := plan.Assignments[0].Choice.Containers[0].Name; name != "pytorch-master" {
		t.Errorf("the master's container is called %q", name)
	}
}

// Roles that ask for the same but run on different nodes stay apart.
func TestPlanAlikeRolesApart(t *testing.T) {
	p := pair(t, 8, 4, 4)
	p.Nodes = append(p.Nodes, placement.Node{Name: "x", Roles: 2, View: viewOf(machine(t, "x", n8s()), topology.FirstN(8))})
	p.Nodes[0].Roles = 1
	if diff := cmp.Diff([]ledger.NodeName{"n0", "x"}, where(mustPlan(t, p))); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// Packed one after the other, the big member would go where it fits best and the small one to another node.
func TestPlanRolesFewestNodes(t *testing.T) {
	p := pair(t, 6, 5, 3)
	p.Nodes = append(p.Nodes, placement.Node{Name: "x", Roles: 3, View: viewOf(machine(t, "x", n8s()), topology.FirstN(8))})
	if diff := cmp.Diff([]ledger.NodeName{"x", "x"}, where(mustPlan(t, p))); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	p.Near = map[ledger.NodeName]bool{"n0": true}
	if plan := mustPlan(t, p); plan.New != 1 {
		t.Errorf("%d new nodes, want 1", plan.New)
	}
	p.Near["x"] = true
	if plan := mustPlan(t, p); plan.New != 0 {
		t.Errorf("%d new nodes, want 0", plan.New)
	}
}

// A share without a promise may not join a card whose compute is all promised: the plan can be taken in rank order.
func TestPlanSharesInRankOrder(t *testing.T) {
	mixed := whole(1)
	mixed.Claims = append(mixed.Claims, allocate.Claim{Container: "side", Kind: allocate.KindShare, Count: 1, VRAMBytes: gib})
	half := share(gib, 1)
	half.Claims[0].ComputeMilli = 500
	p := fleet(t, gang(0, nil), 3)
	p.Roles = []placement.Role{{Name: "half", Request: half}, {Name: "mixed", Request: mixed}}
	p.Members = append(membersOf("h", 0, 2, 0), membersOf("m", 1, 1, 2)...)
	p.Need = 3
	plan := mustPlan(t, p)
	v := *p.Nodes[0].View
	for _, a := range plan.Assignments {
		if err := v.CanHold(a.Choice.Cards); err != nil {
			t.Fatalf("member %s: %v", a.Pod, err)
		}
		for _, s := range a.Choice.Cards {
			allocate.Occupy(&v.Use[s.Index], s)
		}
	}
	p = &placement.Problem{Group: p.Group, Roles: p.Roles, Members: p.Members, Need: 3}
	if rej := mustReject(t, fleet(t, p, 2)); rej.Placeable != 2 || rej.Gap != placement.GapTogether {
		t.Errorf("rejection %+v", rej)
	}
}

// A launcher without GPUs goes beside the workers; a role that fits nowhere is left out where others are enough.
func TestPlanRoles(t *testing.T) {
	p := fleet(t, &placement.Problem{Group: "ns/mpi", Resources: []string{"cpu"}}, 8, 8, 4)
	for i := range p.Nodes {
		p.Nodes[i].Free[0] = 10
	}
	p.Roles = []placement.Role{
		{Name: "launcher", Needs: []int64{2}},
		{Name: "worker", Request: whole(8), Needs: []int64{4}},
		{Name: "giant", Request: whole(16), Needs: []int64{0}},
	}
	p.Members = append(append(membersOf("g", 2, 1, 9), membersOf("l", 0, 1, 0)...), membersOf("w", 1, 2, 1)...)
	p.Need = 3
	plan := mustPlan(t, p)
	if diff := cmp.Diff([]ledger.NodeName{"n0", "n0", "n1"}, where(plan)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if c := plan.Assignments[0].Choice.Cards; len(c) != 0 {
		t.Errorf("the launcher gets %v", c)
	}
}

func TestPlanInvalid(t *testing.T) {
	broken := func(t *testing.T) *allocate.View {
		v := viewOf(machine(t, "x", n8s()), topology.FirstN(4))
		v.Free = topology.FirstN(5)
		return v
	}
	tests := map[string]struct {
		change    func(t *testing.T, p *placement.Problem)
		wantField string
		wantValue string
	}{
		"need zero":       {func(_ *testing.T, p *placement.Problem) { p.Need = 0 }, "need", "0"},
		"need too large":  {func(_ *testing.T, p *placement.Problem) { p.Need = 3 }, "need", "3"},
		"no roles":        {func(_ *testing.T, p *placement.Problem) { p.Roles = nil }, "roles", "0"},
		"too many roles":  {func(_ *testing.T, p *placement.Problem) { p.Roles = make([]placement.Role, 65) }, "roles", "65"},
		"negative need":   {func(_ *testing.T, p *placement.Problem) { p.Roles[0].Needs[0] = -5 }, "roles[0].needs[0]", "-5"},
		"missing need":    {func(_ *testing.T, p *placement.Problem) { p.Roles[0].Needs = nil }, "roles[0].needs", "0"},
		"broken request":  {func(_ *testing.T, p *placement.Problem) { p.Roles[0].Request = whole(0) }, "roles[0].request.claims[0].count", "0"},
		"unknown role":    {func(_ *testing.T, p *placement.Problem) { p.Members[1].Role = 1 }, "members[1].role", "1"},
		"negative role":   {func(_ *testing.T, p *placement.Problem) { p.Members[1].Role = -1 }, "members[1].role", "-1"},
		"rank":            {func(_ *testing.T, p *placement.Problem) { p.Members[1].Rank = -2 }, "members[1].rank", "-2"},
		"member twice":    {func(_ *testing.T, p *placement.Problem) { p.Members[1].UID = "a-0" }, "members[1].uid", "a-0"},
		"member no UID":   {func(_ *testing.T, p *placement.Problem) { p.Members[0].UID = "" }, "members[0].uid", ""},
		"node no name":    {func(_ *testing.T, p *placement.Problem) { p.Nodes[1].Name = "" }, "nodes[1].name", ""},
		"node twice":      {func(_ *testing.T, p *placement.Problem) { p.Nodes[1].Name = "n0" }, "nodes.name", "n0"},
		"node free":       {func(_ *testing.T, p *placement.Problem) { p.Nodes[1].Free = nil }, "nodes[1] (n1).free", "0"},
		"node total":      {func(_ *testing.T, p *placement.Problem) { p.Nodes[1].Total = []int64{-1} }, "nodes[1] (n1).total", "-1"},
		"node bar":        {func(_ *testing.T, p *placement.Problem) { p.Nodes[1].Bars = []uint8{1} }, "nodes[1] (n1).bars", "1"},
		"node view":       {func(t *testing.T, p *placement.Problem) { p.Nodes[1].View = broken(t) }, "nodes[1] (n1).view.free", "{0,1,2,3,4}"},
		"node view usage": {func(_ *testing.T, p *placement.Problem) { p.Nodes[0].View.Use[2].VRAMBytes = -1 }, "nodes[0] (n0).view.use[2]", "{0 -1 0 0}"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := gang(2, whole(8))
			p.Resources, p.Roles[0].Needs = []string{"cpu"}, []int64{1}
			fleet(t, p, 8, 8)
			for i := range p.Nodes {
				p.Nodes[i].Free[0] = 8
			}
			mustPlan(t, p)
			tt.change(t, p)
			plan, rej, err := placement.NewPlanner(allocate.NewChooser()).Plan(p)
			var in *placement.InputError
			if !errors.As(err, &in) {
				t.Fatalf("got plan %v, rejection %v, error %v", plan, rej, err)
			}
			if in.Field != tt.wantField || in.Value != tt.wantValue || in.Reason == "" {
				t.Errorf("error %v, want field %s, value %q", in, tt.wantField, tt.wantValue)
			}
		})
	}
}

// Nodes share an answer only where it is the same for all of them.
func TestPlanAlikeNodes(t *testing.T) {
	gibs := func(n int64) topology.Spec {
		spec := topology.Spec{Cards: make([]topology.Card, 2)}
		for i := range spec.Cards {
			spec.Cards[i] = topology.Card{VRAMBytes: n * gib, NUMA: topology.NUMAUnknown, Healthy: true}
		}
		return spec
	}
	tests := map[string]struct {
		memory, used int64
		milli        int32
		closed       topology.GPUSet
		want         int
	}{
		"room for two":   {memory: 80, used: 10, want: 2},
		"room for one":   {memory: 80, used: 30, want: 1},
		"full":           {memory: 80, used: 60, want: 0},
		"smaller cards":  {memory: 40, used: 10, want: 1},
		"no compute":     {memory: 80, used: 10, milli: 1000, want: 0},
		"one closed":     {memory: 80, used: 10, closed: 1, want: 0},
		"another closed": {memory: 80, used: 10, closed: 2, want: 0},
	}
	p := gang(0, share(30*gib, 2))
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		tt := tests[name]
		v := viewOf(machine(t, name, gibs(tt.memory)), 3)
		for i := range v.Use {
			allocate.Occupy(&v.Use[i], allocate.CardShare{Index: i, SliceMask: 0xff, VRAMBytes: tt.used * gib, ComputeMilli: tt.milli})
		}
		v.Closed = tt.closed
		v.Free = allocate.FreeCards(v.Topology, v.Use, v.Closed)
		p.Nodes = append(p.Nodes, placement.Node{Name: ledger.NodeName(name), View: v, Roles: 1})
		p.Need += tt.want
	}
	p.Members = membersOf("a", 0, p.Need+1, 0)
	got := map[string]int{}
	for _, n := range where(mustPlan(t, p)) {
		got[string(n)]++
	}
	for name, tt := range tests {
		if got[name] != tt.want {
			t.Errorf("%s: %d members, want %d", name, got[name], tt.want)
		}
	}
	p.Need++
	if rej := mustReject(t, p); rej.Placeable != p.Need-1 {
		t.Errorf("%d of %d can be placed", rej.Placeable, p.Need)
	}
}

func TestCapacity(t *testing.T) {
	half := share(40960*mib, 1)
	promised := share(10240*mib, 1)
	promised.Claims[0].ComputeMilli = 400
	numa := whole(3)
	numa.NUMA = allocate.NUMARequire
	tests := map[string]struct {
		spec        topology.Spec
		free        topology.GPUSet
		role        placement.Role
		amounts     []int64
		total       []int64
		limit       int
		want, empty int
	}{
		"whole cards":              {spec: n8s(), free: topology.FirstN(7), role: placement.Role{Request: whole(2)}, limit: 99, want: 3, empty: 4},
		"limit":                    {spec: n8s(), free: topology.FirstN(7), role: placement.Role{Request: whole(1)}, limit: 5, want: 5, empty: 5},
		"one NUMA node":            {spec: n8s(), free: topology.FirstN(6), role: placement.Role{Request: numa}, limit: 99, want: 1, empty: 2},
		"shares":                   {spec: n8s(), free: topology.FirstN(3), role: placement.Role{Request: half}, limit: 99, want: 6, empty: 16},
		"shares with compute":      {spec: n8s(), free: topology.FirstN(3), role: placement.Role{Request: promised}, limit: 99, want: 6, empty: 16},
		"MIG":                      {spec: migs(), role: placement.Role{Request: mig(2)}, limit: 99, want: 7, empty: 7},
		"another resource":         {spec: n8s(), free: topology.FirstN(8), role: placement.Role{Request: whole(1), Needs: []int64{3}}, amounts: []int64{17}, total: []int64{21}, limit: 99, want: 5, empty: 7},
		"overcommitted":            {spec: n8s(), free: topology.FirstN(8), role: placement.Role{Request: whole(1), Needs: []int64{3}}, amounts: []int64{-1}, limit: 99, want: 0, empty: 8},
		"overcommitted, not asked": {spec: n8s(), free: topology.FirstN(8), role: placement.Role{Request: whole(1), Needs: []int64{0}}, amounts: []int64{-1}, limit: 99, want: 8, empty: 8},
		"no GPUs asked":            {spec: n8s(), role: placement.Role{Needs: []int64{3}}, amounts: []int64{17}, limit: 99, want: 5, empty: 99},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := machine(t, "x", tt.spec)
			node := &placement.Node{Name: "x", View: viewOf(n, tt.free|n.MIGCards()), Free: tt.amounts, Total: tt.total}
			c := allocate.NewChooser()
			if got := placement.Capacity(c, node, &tt.role, false, tt.limit); got != tt.want {
				t.Errorf("the node holds %d, want %d", got, tt.want)
			}
			if got := placement.Capacity(c, node, &tt.role, true, tt.limit); got != tt.empty {
				t.Errorf("the empty node holds %d, want %d", got, tt.empty)
			}
		})
	}
}
