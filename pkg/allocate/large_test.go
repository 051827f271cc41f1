package allocate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// islands is a node of n cards joined by NVLink in islands of the given size, by SYS between them; NUMA node 0 is the
// first half.
func islands(tb testing.TB, n, size int) *topology.Node {
	return node(tb, topology.Spec{Cards: cards(n, 80*gib), Links: matrix(n, func(i, j int) topology.Link {
		if i/size == j/size {
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 18}
		}
		return topology.Link{Type: topology.LinkSYS}
	})})
}

// deadEnd joins the cards 4 to 7 all to all, and card 8 by a faster link to card 4 alone: no ring should lead there.
func deadEnd(tb testing.TB) *topology.Node {
	return node(tb, topology.Spec{Cards: cards(18, 80*gib), Links: matrix(18, func(i, j int) topology.Link {
		switch {
		case i == 4 && j == 8:
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 4}
		case i >= 4 && j <= 7:
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 2}
		}
		return topology.Link{Type: topology.LinkSYS}
	})})
}

// TestLargeNodes covers what greedy choice keeps on nodes of more than ExhaustiveCards cards.
func TestLargeNodes(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	for name, tc := range map[string]struct {
		n    *topology.Node
		free topology.GPUSet
		k    int
		want topology.GPUSet
	}{
		"an island":                 {islands(t, 64, 8), ^topology.FirstN(3), 8, topology.FirstN(16) &^ topology.FirstN(8)},
		"part of the broken island": {islands(t, 64, 8), ^topology.FirstN(3), 4, topology.SetOf(3, 4, 5, 6)},
		"the rest of an island":     {islands(t, 64, 8), ^topology.FirstN(3), 5, topology.SetOf(3, 4, 5, 6, 7)},
		"two islands of one NUMA":   {islands(t, 32, 8), topology.FirstN(32), 16, topology.FirstN(16)},
		"a lone card":               {islands(t, 17, 8), topology.FirstN(17), 1, topology.SetOf(16)},
		"a pair":                    {islands(t, 40, 4), topology.SetOf(0, 5, 9, 10, 30), 2, topology.SetOf(9, 10)},
		"everything":                {islands(t, 64, 8), topology.FirstN(64), 64, topology.FirstN(64)},
		"no dead end":               {deadEnd(t), topology.FirstN(18), 4, topology.SetOf(4, 5, 6, 7)},
		"any of equals":             {flat(t, 20, gib), topology.FirstN(20), 3, topology.SetOf(0, 1, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := viewOf(tc.n, tc.free&tc.n.All())
			choice := mustChoose(t, c, v, whole(tc.k))
			if choice.Set() != tc.want {
				t.Errorf("chose %v, want %v", choice.Set(), tc.want)
			}
			again := mustChoose(t, c, v, whole(tc.k))
			fresh := mustChoose(t, allocate.NewChooser(), v, whole(tc.k))
			if diff := cmp.Diff(choice, again) + cmp.Diff(choice, fresh); diff != "" {
				t.Errorf("another answer: %s", diff)
			}
			give(t, v, choice.Cards)
		})
	}
}

// TestLargeNodesBottleneck checks the ring that is quoted: exact up to eight cards, never too good above.
func TestLargeNodesBottleneck(t *testing.T) {
	t.Parallel()
	c, n := allocate.NewChooser(), islands(t, 64, 8)
	nvlink, sys := n.Shape().Pair(0, 1), n.Shape().Pair(0, 63)
	for k, want := range map[int]topology.Bandwidth{1: 0, 2: nvlink, 8: nvlink, 9: sys, 64: sys} {
		q := c.QualityOf(emptyView(n), topology.FirstN(k))
		if q.Bottleneck != want || k == 64 && q.Remaining != 0 || k == 9 && q.Remaining != 8 {
			t.Errorf("%d cards: %+v, want a bottleneck of %v", k, q, want)
		}
	}
	if q := c.QualityOf(viewOf(n, topology.SetOf(5, 63)), topology.SetOf(5)); q.Remaining != 0 || q.FreeLeft != 1 {
		t.Errorf("one card left is joined with none: %+v", q)
	}
	// In a ring, two neighbours of card 0 are not enough if the cards beyond have one way in only.
	path := node(t, topology.Spec{Cards: cards(18, gib), Links: matrix(18, func(i, j int) topology.Link {
		if j == i+1 {
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 1}
		}
		return topology.Link{Type: topology.LinkSYS}
	})})
	for _, k := range []int{5, 9} {
		if q := c.QualityOf(emptyView(path), topology.FirstN(k)); q.Bottleneck != path.Shape().Pair(0, 5) {
			t.Errorf("%d cards in a row close by SYS, not by %v", k, q.Bottleneck)
		}
	}
}

// TestLargeNodesRandom: a choice is valid and deterministic, and is made whenever there are cards enough.
func TestLargeNodesRandom(t *testing.T) {
	t.Parallel()
	warm := allocate.NewChooser()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(17, 40).Draw(t, "cards")
		seed := rapid.Uint64().Draw(t, "seed")
		spec := topology.Spec{Cards: cards(size, 80*gib), Links: matrix(size, func(i, j int) topology.Link {
			seed = seed*6364136223846793005 + uint64(i*64+j)
			return topology.Link{Type: topology.LinkType(seed >> 33 % 6)}
		})}
		for i := range spec.Cards {
			spec.Cards[i].UUID = fmt.Sprint(i)
			spec.Cards[i].NUMA = rapid.IntRange(-1, 2).Draw(t, "numa")
		}
		n := mustNode(t, spec)
		free := topology.GPUSet(rapid.Uint64().Draw(t, "free")) & n.All()
		v := viewOf(n, free)
		r := whole(rapid.IntRange(1, 12).Draw(t, "n"))
		r.NUMA = rapid.SampledFrom(numaPolicies).Draw(t, "NUMA")
		enough := largestDomain(n, free, r.NUMA) >= r.Claims[0].Count
		choice, rej := checkPure(t, warm, v, r)
		if (rej == nil) != enough || (warm.Fits(v, r) == nil) != enough {
			t.Fatalf("rejection %v, cards enough: %v", rej, enough)
		}
		if rej == nil && (!free.Contains(choice.Set()) || choice.Set().Len() != r.Claims[0].Count) {
			t.Fatalf("chose %v of %v", choice.Set(), free)
		}
	})
}

// largestDomain counts the free cards that one pod may have under the policy.
func largestDomain(n *topology.Node, free topology.GPUSet, numa allocate.NUMAPolicy) int {
	if numa != allocate.NUMARequire {
		return free.Len()
	}
	most := min(1, free.Len())
	counts := map[int]int{}
	for i := range free.All() {
		if id := n.Card(i).NUMA; id != topology.NUMAUnknown {
			counts[id]++
			most = max(most, counts[id])
		}
	}
	return most
}
