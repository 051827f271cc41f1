package placement_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// worthOf is a node of the oracle: what its formula says, from scratch.
type worthOf struct {
	position      int
	points, exact int64
}

// ranked is the oracle of Shortlist.Best: every node's worth by the formula above the type, sorted.
func ranked(w placement.Weights, grades map[int]allocate.Grade, seeds map[int]int64, o *placement.Occupancy, positions, n int) []int {
	var widest int64
	largest := 1
	for i := range positions {
		if g, ok := grades[i]; ok {
			widest = max(widest, g.Bottleneck())
		}
		if o != nil {
			_, total := o.At(i)
			largest = max(largest, total)
		}
	}
	var all []worthOf
	for i := range positions {
		g, ok := grades[i]
		if !ok || g == allocate.Unfit {
			continue
		}
		exact := seeds[i]
		if o != nil {
			free, _ := o.At(i)
			exact = exact * int64(1000-500*min(free, largest)/largest) / 1000
		}
		all = append(all, worthOf{i, w.Own*g.Final(widest) + w.Domain*(exact/1000), exact})
	}
	slices.SortFunc(all, func(a, b worthOf) int {
		return cmp.Or(cmp.Compare(b.points, a.points), cmp.Compare(b.exact, a.exact), cmp.Compare(a.position, b.position))
	})
	out := []int{}
	for _, w := range all[:min(n, len(all))] {
		out = append(out, w.position)
	}
	return out
}

// TestShortlistIsTheBest: after any changes of nodes, domains and the number asked for, the list is that of the oracle.
func TestShortlistIsTheBest(t *testing.T) {
	usual, mig := machine(t, "c", n8s()), machine(t, "m", migs())
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 12
		b := topology.NewFabricBuilder(topology.DefaultLevels())
		name := func(i int) string { return fmt.Sprintf("n%02d", i) }
		for i, labels := range drawLabels(t, nodes) {
			b.SetNode(name(i), labels)
		}
		f := b.Fabric()
		tally := placement.NewTally(f, topology.LevelSpine)
		weights := placement.Weights{Own: rapid.Int64Range(0, 20).Draw(t, "own"), Domain: rapid.Int64Range(0, 20).Draw(t, "domain")}
		list := placement.NewShortlist(f.Len(), weights)
		grades, seeds := map[int]allocate.Grade{}, map[int]int64{}
		for range 25 {
			at := rapid.IntRange(0, nodes-1).Draw(t, "node")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				grades[at], seeds[at] = drawGrade(t, usual), rapid.Int64Range(0, placement.SeedFull).Draw(t, "seed")
				list.Set(at, grades[at], seeds[at])
			case 1:
				if tally != nil {
					tally.Set(ledger.NodeName(f.Name(at)), drawState(t, usual, mig))
				}
			case 2:
				var o *placement.Occupancy
				if tally != nil && rapid.IntRange(0, 9).Draw(t, "domains") > 0 {
					o = tally.Occupancy()
				}
				n := rapid.IntRange(0, nodes+1).Draw(t, "n")
				got, want := list.Best(o, n), ranked(weights, grades, seeds, o, nodes, n)
				if !slices.Equal(got, want) {
					t.Fatalf("the best %d nodes are %v, want %v", n, got, want)
				}
			}
		}
	})
}

func drawGrade(t *rapid.T, node *topology.Node) allocate.Grade {
	if rapid.IntRange(0, 3).Draw(t, "unfit") == 0 {
		return allocate.Unfit
	}
	free := rapid.IntRange(0, 8).Draw(t, "left")
	q := allocate.Quality{
		Bottleneck: topology.Bandwidth(rapid.SampledFrom([]int64{0, 0, 30_000, 370_800, 370_800}).Draw(t, "ring")),
		FreeLeft:   free, Remaining: rapid.IntRange(0, free).Draw(t, "joined"), Broken: rapid.IntRange(0, 1).Draw(t, "broken"),
	}
	return viewOf(node, 0).Grade(q, false)
}

// TestShortlistFillsDomains: of nodes that are worth the same, those of one domain come together, whatever domains there are.
func TestShortlistFillsDomains(t *testing.T) {
	b := topology.NewFabricBuilder(topology.DefaultLevels())
	for i := range 12 {
		b.SetNode(fmt.Sprintf("n%02d", i), map[string]string{"network.topology.nvidia.com/leaf": fmt.Sprint("leaf", i%3)})
	}
	f, usual := b.Fabric(), machine(t, "c", n8s())
	tally, list := placement.NewTally(f, topology.LevelSpine), placement.NewShortlist(f.Len(), placement.Weights{Own: 10, Domain: 5})
	for i := range f.Len() {
		list.Set(i, viewOf(usual, usual.All()).Grade(allocate.Quality{FreeLeft: 7, Remaining: 7}, false), 91_000)
	}
	leaves := map[string]bool{}
	for _, at := range list.Best(tally.Occupancy(), 4) {
		leaves[f.Domain(topology.LevelLeaf, at).Name] = true
	}
	if len(leaves) != 1 {
		t.Errorf("the best four of twelve nodes that are alike are in leaves %v, want one", leaves)
	}
}
