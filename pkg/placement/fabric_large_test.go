package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// leaf is a leaf of a larger fabric: its spine and what each of its nodes holds.
type leaf struct {
	spine int
	held  []int
}

// fewestOf is the smallest numbers of nodes, leaves and spines that hold want members: a table of the most members for each
// triple of numbers, filled leaf by leaf, spine by spine. nil if they do not fit.
func fewestOf(leaves []leaf, want int) []int {
	type key [3]int
	most := map[key]int{{}: 0}
	for spine := 0; ; spine++ {
		inside := map[key]int{}
		found := false
		for _, l := range leaves {
			if l.spine < spine {
				continue
			}
			if l.spine > spine {
				found = true
				continue
			}
			sorted := slices.Clone(l.held)
			slices.Sort(sorted)
			slices.Reverse(sorted)
			next := map[key]int{}
			base := inside
			if len(base) == 0 {
				base = map[key]int{{}: 0}
			}
			for at, m := range base {
				next[at] = max(next[at], m)
				sum := 0
				for n, held := range sorted {
					if held == 0 {
						break
					}
					sum += held
					more := key{at[0] + n + 1, at[1] + 1, 1}
					next[more] = max(next[more], m+sum)
				}
			}
			inside = next
		}
		joined := map[key]int{}
		for at, m := range most {
			joined[at] = max(joined[at], m)
			for in, n := range inside {
				sum := key{at[0] + in[0], at[1] + in[1], at[2] + in[2]}
				joined[sum] = max(joined[sum], m+n)
			}
		}
		most = joined
		if !found {
			break
		}
	}
	var best []int
	for at, m := range most {
		if m >= want && (best == nil || slices.Compare(at[:], best) < 0) {
			best = slices.Clone(at[:])
		}
	}
	return best
}

// On fabrics too large to try every set of nodes: the level and the numbers of domains are the smallest.
func TestFabricLarge(t *testing.T) {
	planner := placement.NewPlanner(allocate.NewChooser())
	h100 := machine(t, "x", n8s())
	rapid.Check(t, func(t *rapid.T) {
		p := gang(0, whole(rapid.IntRange(1, 4).Draw(t, "cards")))
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		spines, perSpine, perLeaf := 1+rnd.IntN(3), 1+rnd.IntN(4), 1+rnd.IntN(6)
		busy := rnd.IntN(9)
		leaves := make([]leaf, spines*perSpine)
		var labels []map[string]string
		for l := range leaves {
			leaves[l].spine = l / perSpine
			for n := range perLeaf {
				v := viewOf(h100, topology.FirstN(max(0, 8-rnd.IntN(1+busy))))
				p.Nodes = append(p.Nodes, placement.Node{Name: ledger.NodeName(fmt.Sprintf("n%d-%d", l, n)), Roles: 1, View: v})
				labels = append(labels, map[string]string{levelLabels[1]: fmt.Sprint("leaf-", l), levelLabels[2]: fmt.Sprint("spine-", l/perSpine)})
				leaves[l].held = append(leaves[l].held, v.Free.Len()/p.Roles[0].Request.Claims[0].Count)
			}
		}
		fabricOf(p, labels, func(int) bool { return false })
		room := 0
		for _, l := range leaves {
			for _, n := range l.held {
				room += n
			}
		}
		p.Need = 1 + rnd.IntN(max(1, room))
		p.Members = membersOf("a", 0, p.Need, 0)
		plan, rej, err := planner.Plan(p)
		if err != nil || (rej != nil) != (p.Need > room) {
			t.Fatalf("room for %d, need %d, rejection %v, error %v", room, p.Need, rej, err)
		}
		if rej != nil {
			return
		}
		want := fewestLevel(leaves, p.Need, spines)
		got := []int{int(plan.LCA.Level), plan.Domains[topology.LevelHost], plan.Domains[topology.LevelLeaf], plan.Domains[topology.LevelSpine]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("need %d of %d; level, nodes, leaves, spines (-want +got):\n%s", p.Need, room, diff)
		}
	})
}

// fewestLevel is the narrowest level of which one domain holds the members, and the smallest numbers there.
func fewestLevel(leaves []leaf, want, spines int) []int {
	best := []int(nil)
	try := func(level topology.Level, part []leaf) {
		if n := fewestOf(part, want); n != nil {
			if w := append([]int{int(level)}, n...); best == nil || slices.Compare(w, best) < 0 {
				best = w
			}
		}
	}
	for _, l := range leaves {
		for _, n := range l.held {
			if n >= want {
				return []int{int(topology.LevelHost), 1, 1, 1}
			}
		}
		try(topology.LevelLeaf, []leaf{l})
	}
	for s := range spines {
		var part []leaf
		for _, l := range leaves {
			if l.spine == s {
				part = append(part, l)
			}
		}
		try(topology.LevelSpine, part)
	}
	if spines > 1 {
		try(topology.LevelCluster, leaves)
	}
	return best
}
