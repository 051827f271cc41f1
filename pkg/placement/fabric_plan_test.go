package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// spot is a node of a test fabric.
type spot struct {
	name, leaf, spine, zone string
	free                    int
}

// fabricGang is a gang of whole-card members on a fabric of N8s nodes.
func fabricGang(t testing.TB, members, cards int, spots ...spot) *placement.Problem {
	t.Helper()
	p := gang(members, whole(cards))
	p.Group = "train/llama"
	var labels []map[string]string
	for _, s := range spots {
		p.Nodes = append(p.Nodes, placement.Node{Name: ledger.NodeName(s.name), View: viewOf(machine(t, s.name, n8s()), topology.FirstN(s.free)), Roles: ^uint64(0)})
		l := map[string]string{}
		for key, value := range map[string]string{levelLabels[1]: s.leaf, levelLabels[2]: s.spine, levelLabels[4]: s.zone} {
			if value != "" {
				l[key] = value
			}
		}
		labels = append(labels, l)
	}
	fabricOf(p, labels, func(int) bool { return false })
	return p
}

// runs says that members with ranks from 0 on run on the nodes.
func runs(p *placement.Problem, nodes ...string) {
	for rank, name := range nodes {
		pos, _ := p.Fabric.Position(name)
		p.Placed = append(p.Placed, placement.Fixed{Node: ledger.NodeName(name), Position: pos, Rank: rank})
	}
}

// racks are leaves r0, r1, ... of so many nodes each, by the free cards of the nodes.
func racks(spine string, free ...[]int) []spot {
	var out []spot
	for r, nodes := range free {
		for n, cards := range nodes {
			leaf := fmt.Sprintf("%s-r%d", spine, r)
			out = append(out, spot{name: fmt.Sprintf("%s-n%d", leaf, n), leaf: leaf, spine: spine, free: cards})
		}
	}
	return out
}

func TestCaseB124NeverThreeRacks(t *testing.T) {
	spots := append(racks("a", []int{8, 8}, []int{8, 8}), racks("b", []int{8, 8})...)
	plan := mustPlan(t, fabricGang(t, 4, 8, spots...))
	want := []ledger.NodeName{"a-r0-n0", "a-r0-n1", "a-r1-n0", "a-r1-n1"}
	if diff := cmp.Diff(want, where(plan)); diff != "" || plan.LCA.Name != "a" || plan.LCA.Level != topology.LevelSpine {
		t.Errorf("in %v %s (-want +got):\n%s", plan.LCA.Level, plan.LCA.Name, diff)
	}
	wantLayout := []placement.LayoutRange{
		{Level: topology.LevelSpine, Name: "a", LastRank: 3},
		{Level: topology.LevelLeaf, Name: "a-r0", LastRank: 1}, {Level: topology.LevelLeaf, Name: "a-r1", FirstRank: 2, LastRank: 3},
		{Level: topology.LevelHost, Name: "a-r0-n0"}, {Level: topology.LevelHost, Name: "a-r0-n1", FirstRank: 1, LastRank: 1},
		{Level: topology.LevelHost, Name: "a-r1-n0", FirstRank: 2, LastRank: 2}, {Level: topology.LevelHost, Name: "a-r1-n1", FirstRank: 3, LastRank: 3},
	}
	if diff := cmp.Diff(wantLayout, plan.Layout); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	wantDomains := placement.Levels{topology.LevelHost: 4, topology.LevelLeaf: 2, topology.LevelSpine: 1}
	wantRing := placement.Ring{
		Bottleneck: topology.FromGBps(50 / 1.2), Crossings: placement.Levels{topology.LevelHost: 4, topology.LevelLeaf: 2},
		OptimalCrossings: placement.Levels{topology.LevelHost: 4, topology.LevelLeaf: 2},
	}
	if diff := cmp.Diff(wantDomains, plan.Domains) + cmp.Diff(wantRing, plan.Ring); diff != "" {
		t.Errorf("domains, ring (-want +got):\n%s", diff)
	}
}

// The members that run are in rack r1, so their new mate goes there; if there is no room, to the nearest rack or nowhere.
func TestCaseB126ReplacementNearItsGang(t *testing.T) {
	tests := map[string]struct {
		slot int
		hard bool
		want ledger.NodeName
		gap  string
	}{
		"a place in the rack":          {slot: 8, want: "a-r1-n3"},
		"a place in the rack, hard":    {slot: 8, hard: true, want: "a-r1-n3"},
		"no place in the rack":         {slot: 0, want: "a-r2-n0"},
		"no place in the rack, a must": {slot: 0, hard: true, gap: "gang train/llama: 0 of 1 pod can be placed; the best leaf, a-r1, has 0 of the 8 free GPUs that are needed, the largest free block on a node is 0 of the 8 free GPUs that each pod needs"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spots := append(racks("b", []int{8, 8}), racks("a", nil, []int{0, 0, 0, tt.slot}, []int{8, 8})...)
			p := fabricGang(t, 1, 8, spots...)
			p.Members[0].Rank = 3
			runs(p, "a-r1-n0", "a-r1-n1", "a-r1-n2")
			p.Required, p.HasRequired = topology.LevelLeaf, tt.hard
			if tt.gap != "" {
				if got := mustReject(t, p).String(); got != tt.gap {
					t.Errorf("got\n%s\nwant\n%s", got, tt.gap)
				}
				return
			}
			if got := where(mustPlan(t, p))[0]; got != tt.want {
				t.Errorf("on %s, want %s", got, tt.want)
			}
		})
	}
}

// The narrowest domain is taken whatever is preferred; what is required is a limit.
func TestCaseB129Required(t *testing.T) {
	tests := map[string]struct {
		level   topology.Level
		members int
		want    topology.Level
		refused bool
	}{
		"a rack, one fits":          {level: topology.LevelLeaf, members: 2, want: topology.LevelLeaf},
		"a rack, none fits":         {level: topology.LevelLeaf, members: 3, refused: true},
		"a spine, a rack fits":      {level: topology.LevelSpine, members: 2, want: topology.LevelLeaf},
		"a spine, no rack fits":     {level: topology.LevelSpine, members: 3, want: topology.LevelSpine},
		"the cluster":               {level: topology.LevelCluster, members: 4, want: topology.LevelSpine},
		"a host, none fits":         {level: topology.LevelHost, members: 2, refused: true},
		"an unknown level, as rack": {level: topology.LevelNVLink, members: 2, refused: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := fabricGang(t, tt.members, 8, racks("a", []int{8, 8}, []int{8, 8})...)
			p.Required, p.HasRequired = tt.level, true
			if tt.refused {
				mustReject(t, p)
				return
			}
			if plan := mustPlan(t, p); plan.LCA.Level != tt.want {
				t.Errorf("one %v, want one %v", plan.LCA.Level, tt.want)
			}
		})
	}
}

func TestCaseB130DomainThatHoldsTheRest(t *testing.T) {
	plan := mustPlan(t, fabricGang(t, 3, 8, racks("a", []int{0, 0, 0, 8}, []int{8, 8, 8, 8})...))
	if diff := cmp.Diff([]ledger.NodeName{"a-r1-n0", "a-r1-n1", "a-r1-n2"}, where(plan)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestCaseB132TwoRoles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(132, 0))
	four := machine(t, "x", topology.Spec{Cards: cards(4, 80*gib), NVSwitch: true})
	planner := placement.NewPlanner(allocate.NewChooser())
	for range 100 {
		p := gang(0, nil)
		p.Resources = []string{"cpu"}
		p.Roles = []placement.Role{{Name: "launcher", Needs: []int64{1}}, {Name: "worker", Request: whole(4), Needs: []int64{4}}}
		p.Members = append(membersOf("l", 0, 1, 0), membersOf("w", 1, 208, 1)...)
		p.Need = 209
		var labels []map[string]string
		use, room := rnd.IntN(200), 0
		for i := range 33 * 18 {
			free, cpu := 4, int64(8)
			if rnd.IntN(300) < use {
				free, cpu = rnd.IntN(5), int64(rnd.IntN(9)-4)
			}
			if free == 4 && cpu >= 4 {
				room++
			}
			p.Nodes = append(p.Nodes, placement.Node{Name: ledger.NodeName(fmt.Sprint("n", i)), View: viewOf(four, topology.FirstN(free)), Free: []int64{cpu}, Roles: 3})
			labels = append(labels, map[string]string{levelLabels[1]: fmt.Sprint("rack-", i/18), levelLabels[2]: fmt.Sprint("spine-", i/18/6)})
		}
		fabricOf(p, labels, func(int) bool { return false })
		plan, rej, err := planner.Plan(p)
		if err != nil || (rej != nil) != (room < 208) {
			t.Fatalf("room for %d workers, rejection %v, error %v", room, rej, err)
		}
		if rej != nil {
			continue
		}
		left := map[ledger.NodeName]int64{}
		for i := range p.Nodes {
			left[p.Nodes[i].Name] = p.Nodes[i].Free[0]
		}
		for _, a := range plan.Assignments {
			if left[a.Node] -= p.Roles[a.Role].Needs[0]; left[a.Node] < 0 {
				t.Fatalf("node %s has %d cpu left", a.Node, left[a.Node])
			}
		}
		if len(plan.Assignments) != 209 {
			t.Fatalf("%d of 209 members are placed", len(plan.Assignments))
		}
	}
}

func TestCaseB133SmallPodsLeaveWholeRacks(t *testing.T) {
	spots := racks("a", []int{8, 8, 8, 8}, []int{8, 8, 8, 8}, []int{8, 8, 8, 8}, []int{8, 8, 8, 8})
	used := map[ledger.NodeName]int{}
	for range 16 {
		now := append([]spot(nil), spots...)
		for i := range now {
			now[i].free -= used[ledger.NodeName(now[i].name)]
		}
		used[where(mustPlan(t, fabricGang(t, 1, 1, now...)))[0]]++
	}
	if diff := cmp.Diff(map[ledger.NodeName]int{"a-r0-n0": 8, "a-r0-n1": 8}, used); diff != "" {
		t.Errorf("pods on nodes (-want +got):\n%s", diff)
	}
	for i := range spots {
		spots[i].free -= used[ledger.NodeName(spots[i].name)]
	}
	big := fabricGang(t, 4, 8, spots...)
	big.Required, big.HasRequired = topology.LevelLeaf, true
	if plan := mustPlan(t, big); plan.LCA.Name != "a-r1" {
		t.Errorf("the gang is in %s", plan.LCA.Name)
	}
}

func TestFabricChoice(t *testing.T) {
	type names = []ledger.NodeName
	tests := map[string]struct {
		members, cards int
		spots          []spot
		want           names
	}{
		"the fullest leaf that holds it": {members: 2, cards: 8, spots: racks("a", []int{8, 8, 8}, []int{8, 8}), want: names{"a-r1-n0", "a-r1-n1"}},
		"a leaf before fewer nodes":      {members: 2, cards: 4, spots: racks("a", []int{4, 4}, []int{4, 4, 0}), want: names{"a-r0-n0", "a-r0-n1"}},
		"fewer nodes before fewer leaves": {
			members: 4, cards: 4, spots: racks("a", []int{4, 4, 4}, []int{8}, []int{8}), want: names{"a-r1-n0", "a-r1-n0", "a-r2-n0", "a-r2-n0"},
		},
		"fewer leaves": {
			members: 4, cards: 8, spots: racks("a", []int{8, 8}, []int{8}, []int{8}, []int{8, 8}),
			want: names{"a-r0-n0", "a-r0-n1", "a-r3-n0", "a-r3-n1"},
		},
		"fewer spines at as many leaves": {
			members: 6, cards: 8,
			spots: append(append(racks("a", []int{8, 8}), racks("b", []int{8, 8})...), racks("c", []int{8, 8}, []int{8, 8})...),
			want:  names{"a-r0-n0", "a-r0-n1", "c-r0-n0", "c-r0-n1", "c-r1-n0", "c-r1-n1"},
		},
		"the fuller spine": {
			members: 3, cards: 8, spots: append(racks("a", []int{8, 8}, []int{8, 8}), racks("b", []int{8, 8}, []int{8})...),
			want: names{"b-r0-n0", "b-r0-n1", "b-r1-n0"},
		},
		"whole leaves are left": {
			members: 5, cards: 8, spots: racks("a", []int{8, 8, 8, 8}, []int{8, 8, 8}, []int{8, 8}),
			want: names{"a-r1-n0", "a-r1-n1", "a-r1-n2", "a-r2-n0", "a-r2-n1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, where(mustPlan(t, fabricGang(t, tt.members, tt.cards, tt.spots...)))); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// By default a gang stays in its zone, if any node has one.
func TestFabricCeiling(t *testing.T) {
	spots := racks("a", []int{8, 8}, []int{8})
	for i := range spots {
		spots[i].zone = fmt.Sprint("z", i/2)
	}
	p := fabricGang(t, 3, 8, spots...)
	p.Ceiling, p.HasCeiling = topology.LevelZone, true
	want := "gang train/llama: 2 of 3 pods can be placed; the best zone, z0, has 16 of the 24 free GPUs that are needed"
	if got := mustReject(t, p).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.Ceiling = topology.LevelRegion
	if plan := mustPlan(t, p); plan.LCA.Level != topology.LevelCluster {
		t.Errorf("the gang is in one %v", plan.LCA.Level)
	}
}
