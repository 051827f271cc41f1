package placement_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// rankRow is what tests look at of an assignment.
type rankRow struct {
	Pod  ledger.PodUID
	Rank int
	Node ledger.NodeName
}

func rankRows(plan *placement.Plan) []rankRow {
	var out []rankRow
	for _, a := range plan.Assignments {
		out = append(out, rankRow{a.Pod, a.Rank, a.Node})
	}
	return out
}

func TestFabricRanks(t *testing.T) {
	three := racks("a", []int{8, 8}, []int{8, 8}, []int{8, 8})
	full := racks("a", []int{0, 0, 8}, []int{0, 0, 8}, []int{0, 0, 8})
	unknown := func(p *placement.Problem) {
		for i := range p.Members {
			p.Members[i].Rank = -1
		}
	}
	tests := map[string]struct {
		members int
		spots   []spot
		change  func(p *placement.Problem)
		want    []rankRow
	}{
		"in the order of the fabric": {
			members: 3, spots: three, change: func(p *placement.Problem) { p.Members[0].Rank, p.Members[2].Rank = 2, 0 },
			want: []rankRow{{"a-2", 0, "a-r0-n0"}, {"a-1", 1, "a-r0-n1"}, {"a-0", 2, "a-r1-n0"}},
		},
		"numbered where none has a rank": {
			members: 3, spots: three, change: unknown,
			want: []rankRow{{"a-0", 0, "a-r0-n0"}, {"a-1", 1, "a-r0-n1"}, {"a-2", 2, "a-r1-n0"}},
		},
		"numbered beside those that run": {
			members: 2, spots: full, change: func(p *placement.Problem) {
				unknown(p)
				runs(p, "a-r0-n0", "a-r0-n1")
				p.Placed[1].Rank = 2
			},
			want: []rankRow{{"a-0", 1, "a-r0-n2"}, {"a-1", 3, "a-r1-n2"}},
		},
		"a lost rank, near the ranks beside it": {
			members: 1, spots: full, change: func(p *placement.Problem) {
				p.Members[0].Rank = 6
				runs(p, "a-r0-n0", "a-r0-n1", "a-r0-n0", "a-r0-n1", "a-r1-n0", "a-r1-n1", "a-r1-n0", "a-r2-n0", "a-r2-n1")
				p.Placed = append(p.Placed[:6], p.Placed[7:]...)
			},
			want: []rankRow{{"a-0", 6, "a-r1-n2"}},
		},
		"the lowest rank is beside the highest": {
			members: 1, spots: full, change: func(p *placement.Problem) {
				p.Members[0].Rank = 9
				runs(p, "a-r2-n0", "a-r1-n0", "a-r1-n1", "a-r2-n1")
			},
			want: []rankRow{{"a-0", 9, "a-r2-n2"}},
		},
		"no room near, so in the spine of the ranks beside it": {
			members: 1, spots: append(racks("a", []int{0, 0}, []int{8}), racks("b", []int{0, 0}, []int{8, 8})...), change: func(p *placement.Problem) {
				p.Members[0].Rank = 3
				runs(p, "a-r0-n0", "a-r0-n1", "b-r0-n0", "x", "b-r0-n1")
				p.Placed = append(p.Placed[:3], p.Placed[4])
			},
			want: []rankRow{{"a-0", 3, "b-r1-n0"}},
		},
		"two lost ranks, each near its own": {
			members: 2, spots: full, change: func(p *placement.Problem) {
				p.Members[0].Rank, p.Members[1].Rank = 5, 0
				runs(p, "a-r1-n0", "a-r2-n0", "a-r2-n0", "a-r2-n1", "a-r1-n0", "a-r1-n1", "a-r2-n0")
				p.Placed = append(p.Placed[1:5:5], placement.Fixed{Node: p.Placed[5].Node, Position: p.Placed[5].Position, Rank: 6})
			},
			want: []rankRow{{"a-1", 0, "a-r2-n2"}, {"a-0", 5, "a-r1-n2"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := fabricGang(t, tt.members, 8, tt.spots...)
			tt.change(p)
			if diff := cmp.Diff(tt.want, rankRows(mustPlan(t, p))); diff != "" {
				t.Errorf("assignments (-want +got):\n%s", diff)
			}
		})
	}
}

// Without a fabric there are ranks and a ring too.
func TestFlatRing(t *testing.T) {
	p := fleet(t, gang(3, whole(4)), 8, 8)
	for i := range p.Members {
		p.Members[i].Rank = -1
	}
	plan := mustPlan(t, p)
	want := []rankRow{{"a-0", 0, "n0"}, {"a-1", 1, "n0"}, {"a-2", 2, "n1"}}
	if diff := cmp.Diff(want, rankRows(plan)); diff != "" {
		t.Errorf("assignments (-want +got):\n%s", diff)
	}
	layout := []placement.LayoutRange{{Name: "n0", LastRank: 1}, {Name: "n1", FirstRank: 2, LastRank: 2}}
	if diff := cmp.Diff(layout, plan.Layout); diff != "" || plan.LCA.Level != topology.LevelCluster || plan.Domains != (placement.Levels{2}) {
		t.Errorf("in one %v, domains %v, layout (-want +got):\n%s", plan.LCA.Level, plan.Domains, diff)
	}
	if r := plan.Ring; r.Crossings != (placement.Levels{2}) || r.Bottleneck != topology.FromGBps(50./16) {
		t.Errorf("ring %+v", r)
	}
	p.Members, p.Need = p.Members[:2], 2
	if plan := mustPlan(t, p); plan.LCA.Level != topology.LevelHost || plan.LCA.Name != "n0" || plan.Ring.Bottleneck != topology.FromGBps(370.8) {
		t.Errorf("in %+v, ring %+v", plan.LCA, plan.Ring)
	}
}

// Where a share and whole cards are on one node, whoever comes last, the plan names no ring either.
func TestFabricRingOfSharesAndCards(t *testing.T) {
	for _, first := range []bool{true, false} {
		p := fabricGang(t, 3, 2, spot{name: "a", leaf: "l0", spine: "s", free: 8})
		p.Roles = append(p.Roles, placement.Role{Name: "share", Request: share(80*gib, 1)})
		at := 2
		if first {
			at = 0
		}
		p.Members[at].Role = 1
		if plan := mustPlan(t, p); plan.Ring.Bottleneck != 0 {
			t.Errorf("the share first: %t; the ring runs at %v, want no ring", first, plan.Ring.Bottleneck)
		}
	}
}

// A share may take all of a card. It is no whole card for the ring: nodes are not compared by it, and the plan names no rate.
func TestFabricRingOfShares(t *testing.T) {
	p := fabricGang(t, 2, 8, spot{name: "a", leaf: "l0", spine: "s", free: 8})
	p.Roles[0].Request = share(80*gib, 1)
	plan := mustPlan(t, p)
	if plan.LCA.Level != topology.LevelHost || plan.Ring.Bottleneck != 0 {
		t.Errorf("spans one %v, the ring runs at %v, want one host and no ring", plan.LCA.Level, plan.Ring.Bottleneck)
	}
	for _, a := range plan.Assignments {
		if !a.Choice.Cards[0].Whole() {
			t.Errorf("got %+v, the test is about shares of all of a card", a.Choice.Cards[0])
		}
	}
}

func TestFabricRates(t *testing.T) {
	eight := n8s()
	for k := range 8 {
		nic := topology.NIC{Links: make([]topology.LinkType, 8)}
		nic.Links[k] = topology.LinkPIX
		eight.NICs = append(eight.NICs, nic)
	}
	tests := map[string]struct {
		second spot
		want   float64
	}{
		"the cards limit below one leaf":       {spot{name: "b", leaf: "l0", spine: "s", free: 8}, 370.8},
		"the NICs limit in the spine":          {spot{name: "b", leaf: "l1", spine: "s", free: 8}, 400 / 1.2},
		"and more where nothing is in between": {spot{name: "b", leaf: "l1", spine: "s1", free: 8}, 400. / 16},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := fabricGang(t, 2, 8, spot{name: "a", leaf: "l0", spine: "s", free: 8}, tt.second)
			for i := range p.Nodes {
				p.Nodes[i].View = viewOf(machine(t, string(p.Nodes[i].Name), eight), topology.FirstN(8))
			}
			if got := mustPlan(t, p).Ring.Bottleneck; got != topology.FromGBps(tt.want) {
				t.Errorf("the ring runs at %v, want %v", got, topology.FromGBps(tt.want))
			}
		})
	}
	invalid := map[string]func(r *placement.FabricRates){
		"rates.NVLink":                func(r *placement.FabricRates) { r.NVLink = 0 },
		"rates.NIC":                   func(r *placement.FabricRates) { r.NIC = 10_000_001 },
		"rates.oversubscription.leaf": func(r *placement.FabricRates) { r.Oversubscription[topology.LevelLeaf] = 0.9 },
		"rates.oversubscription.zone": func(r *placement.FabricRates) { r.Oversubscription[topology.LevelZone] = 1.5 },
	}
	for field, change := range invalid {
		t.Run(field, func(t *testing.T) {
			r := placement.DefaultFabricRates()
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			change(&r)
			p := fabricGang(t, 1, 8, racks("a", []int{8})...)
			p.Rates = r
			_, _, err := placement.NewPlanner(allocate.NewChooser()).Plan(p)
			var in *placement.InputError
			if !errors.As(err, &in) || in.Field != field {
				t.Errorf("error %v, want field %s", err, field)
			}
		})
	}
}

func TestFabricRejections(t *testing.T) {
	spots := racks("a", []int{8, 8, 8}, []int{8, 8, 8})
	leaf := func(p *placement.Problem) { p.Required, p.HasRequired = topology.LevelLeaf, true }
	slices := func(size int) func(p *placement.Problem) {
		return func(p *placement.Problem) { p.Slice = placement.Slice{Size: size, Level: topology.LevelLeaf} }
	}
	tests := map[string]struct {
		members, cards int
		spots          []spot
		change         func(p *placement.Problem)
		wantGap        placement.Gap
		want           string
	}{
		"too few in the best leaf": {
			members: 8, cards: 8, spots: racks("a", []int{8, 8, 8, 8, 8}, []int{8, 8, 8, 8}), change: leaf, wantGap: placement.GapTotal,
			want: "gang train/llama: 5 of 8 pods can be placed; the best leaf, a-r0, has 40 of the 64 free GPUs that are needed",
		},
		"fragments in the best leaf": {
			members: 3, cards: 4, spots: racks("a", []int{6, 6, 2}, []int{3, 3}), change: leaf, wantGap: placement.GapFragments,
			want: "gang train/llama: 2 of 3 pods can be placed; in the best leaf, a-r0, the free GPUs are fragmented: 14 of 24 are free and 12 are needed, " +
				"but only 2 pods can have, on 2 of 3 nodes, the 4 free GPUs that each pod needs, the largest free block on a node is 6",
		},
		"the whole cluster": {
			members: 7, cards: 8, spots: append(spots, racks("b", []int{0})...), change: func(*placement.Problem) {}, wantGap: placement.GapTotal,
			want: "gang train/llama: 6 of 7 pods can be placed; too few free GPUs: 48 of 56 are free, 56 are needed",
		},
		"a level without labels": {
			members: 2, cards: 8, spots: spots, change: func(p *placement.Problem) { p.Required, p.HasRequired = topology.LevelNVLink, true }, wantGap: placement.GapTotal,
			want: "gang train/llama: 1 of 2 pods can be placed; the best host, a-r0-n0, has 8 of the 16 free GPUs that are needed; no node has a label of level nvlink",
		},
		"a role's level": {
			members: 4, cards: 8, spots: spots, change: func(p *placement.Problem) {
				p.Roles = append(p.Roles, placement.Role{Name: "ps", Request: whole(4)})
				p.Roles[0].Name, p.Roles[0].Required, p.Roles[0].HasRequired = "worker", topology.LevelLeaf, true
				p.Members = append(p.Members, membersOf("p", 1, 1, 4)...)
				p.Need = 5
			}, wantGap: placement.GapTotal,
			want: "gang train/llama: 4 of 5 pods can be placed; the best leaf, a-r0, has 24 of the 32 free GPUs that are needed",
		},
		"slices": {
			members: 4, cards: 8, spots: spots, change: slices(2), wantGap: 0,
		},
		"slices that no leaf holds": {
			members: 6, cards: 8, spots: spots, change: slices(2), wantGap: placement.GapSlices,
			want: "gang train/llama: 4 of 6 pods can be placed; there are places for all, but only for 4 pods in whole slices of 2 that use one leaf each",
		},
		"a slice that runs in part": {
			members: 2, cards: 8, spots: racks("a", []int{0, 8}, []int{8, 8}), change: func(p *placement.Problem) {
				slices(3)(p)
				p.Members[0].Rank, p.Members[1].Rank = 4, 5
				runs(p, "a-r0-n0", "a-r0-n0", "a-r0-n0", "a-r0-n0")
			}, wantGap: placement.GapSlice,
			want: "gang train/llama: 1 of 2 pods can be placed; the slice of ranks 3 to 5 runs in part, in leaf a-r0, which has places for 1 of its other 2 pods",
		},
		"a slice that runs in two leaves": {
			members: 1, cards: 8, spots: spots, change: func(p *placement.Problem) {
				slices(3)(p)
				p.Members[0].Rank = 2
				runs(p, "a-r0-n0", "a-r1-n0")
			}, wantGap: placement.GapSlice,
			want: "gang train/llama: 0 of 1 pod can be placed; the slice of ranks 0 to 2 runs in part and cannot be completed in one leaf",
		},
		"the gang runs in two leaves": {
			members: 1, cards: 8, spots: spots, change: func(p *placement.Problem) {
				leaf(p)
				runs(p, "a-r0-n0", "a-r1-n0")
			}, wantGap: placement.GapApart,
			want: "gang train/llama: 0 of 1 pod can be placed; its running pods use more than one leaf",
		},
		"no node admits it in the best leaf": {
			members: 2, cards: 8, spots: spots, change: func(p *placement.Problem) {
				leaf(p)
				for i := range p.Nodes {
					p.Nodes[i].Roles = 0
				}
			}, wantGap: placement.GapNodes,
			want: "gang train/llama: 0 of 2 pods can be placed; in the best leaf, a-r0, none of the 3 nodes admits its pods",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := fabricGang(t, tt.members, tt.cards, tt.spots...)
			tt.change(p)
			if tt.wantGap == 0 {
				mustPlan(t, p)
				return
			}
			rej := mustReject(t, p)
			if got := rej.String(); got != tt.want || rej.Gap != tt.wantGap {
				t.Errorf("gap %d, want %d; got\n%s\nwant\n%s", rej.Gap, tt.wantGap, got, tt.want)
			}
		})
	}
}

func TestFabricInvalid(t *testing.T) {
	tests := map[string]struct {
		change    func(p *placement.Problem)
		wantField string
	}{
		"position of another node": {func(p *placement.Problem) { p.Nodes[0].Position = 1 }, "nodes[0] (a-r0-n0).position"},
		"position outside":         {func(p *placement.Problem) { p.Nodes[0].Position = 9 }, "nodes[0] (a-r0-n0).position"},
		"negative position":        {func(p *placement.Problem) { p.Nodes[0].Position = -2 }, "nodes[0] (a-r0-n0).position"},
		"position twice":           {func(p *placement.Problem) { p.Nodes = append(p.Nodes, p.Nodes[0]) }, "nodes[2] (a-r0-n0).position"},
		"node twice": {func(p *placement.Problem) {
			p.Nodes = append(p.Nodes, p.Nodes[0])
			p.Nodes[2].Position = -1
		}, "nodes.name"},
		"stray twice": {func(p *placement.Problem) {
			p.Nodes[0].Name, p.Nodes[0].Position, p.Nodes[1].Name, p.Nodes[1].Position = "x", -1, "x", -1
		}, "nodes.name"},
		"required":        {func(p *placement.Problem) { p.Required = 99 }, "required"},
		"ceiling":         {func(p *placement.Problem) { p.Ceiling = 99 }, "ceiling"},
		"role's level":    {func(p *placement.Problem) { p.Roles[0].Required = 99 }, "roles[0].required"},
		"slice's level":   {func(p *placement.Problem) { p.Slice.Level = 99 }, "slice.level"},
		"slice size":      {func(p *placement.Problem) { p.Slice.Size = -1 }, "slice.size"},
		"placed nowhere":  {func(p *placement.Problem) { p.Placed = []placement.Fixed{{Position: -1}} }, "placed[0].node"},
		"placed rank":     {func(p *placement.Problem) { p.Placed = []placement.Fixed{{Node: "x", Position: -1, Rank: -2}} }, "placed[0].rank"},
		"placed role":     {func(p *placement.Problem) { p.Placed = []placement.Fixed{{Node: "x", Position: -1, Role: 1}} }, "placed[0].role"},
		"placed position": {func(p *placement.Problem) { p.Placed = []placement.Fixed{{Node: "x", Position: 0}} }, "placed[0].position"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := fabricGang(t, 1, 8, racks("a", []int{8, 8})...)
			mustPlan(t, p)
			tt.change(p)
			plan, rej, err := placement.NewPlanner(allocate.NewChooser()).Plan(p)
			var in *placement.InputError
			if !errors.As(err, &in) || in.Field != tt.wantField || in.Reason == "" {
				t.Errorf("plan %v, rejection %v, error %v, want field %s", plan, rej, err, tt.wantField)
			}
		})
	}
}
