package allocate

import "github.com/gputopology/gpu-topology-scheduler/pkg/topology"

// exactRing is the largest set whose best ring is looked for among all rings on nodes of more than ExhaustiveCards
// cards.
const exactRing = 8

// graph measures sets of cards of a shape of more than ExhaustiveCards cards.
type graph struct {
	shape *topology.Shape
	// fast are the cards that each card reaches at the fastest pair bandwidth.
	fast []topology.GPUSet
}

func newGraph(shape *topology.Shape) *graph {
	n := shape.Len()
	g := &graph{shape: shape, fast: make([]topology.GPUSet, n)}
	var top topology.Bandwidth
	for i := range n {
		for j := range i {
			top = max(top, shape.Pair(i, j))
		}
	}
	for i := range n {
		for j := range n {
			if i != j && top > 0 && shape.Pair(i, j) == top {
				g.fast[i] = g.fast[i].With(j)
			}
		}
	}
	return g
}

// sum returns the sum of the set's pairs.
func (g *graph) sum(set topology.GPUSet) topology.Bandwidth {
	var sum topology.Bandwidth
	for s := set; s != 0; {
		i := s.Lowest()
		s = s.Without(i)
		for r := s; r != 0; r &= r - 1 {
			sum += g.shape.Pair(i, r.Lowest())
		}
	}
	return sum
}

// fastest returns the size of the largest group of the set's cards joined by fastest pairs; 0 for single cards.
func (g *graph) fastest(set topology.GPUSet) int {
	largest := 0
	for rest := set; rest != 0; {
		group := topology.SetOf(rest.Lowest())
		for edge := group; edge != 0; {
			i := edge.Lowest()
			fresh := g.fast[i] & set &^ group
			group |= fresh
			edge = edge.Without(i) | fresh
		}
		rest &^= group
		if group.Len() > 1 {
			largest = max(largest, group.Len())
		}
	}
	return largest
}

// ring returns the bottleneck of the best ring of up to exactRing cards. Of a larger set it returns that of one ring,
// the one which goes on from the lowest card to the nearest card not yet visited: the best is at least as good.
func (g *graph) ring(set topology.GPUSet) topology.Bandwidth {
	switch n := set.Len(); {
	case n < 2:
		return 0
	case n <= exactRing:
		return g.exactRing(set)
	}
	first := set.Lowest()
	at, left := first, set.Without(first)
	bottleneck := topology.Bandwidth(-1)
	for left != 0 {
		next, pair := -1, topology.Bandwidth(-1)
		for r := left; r != 0; r &= r - 1 {
			if b := g.shape.Pair(at, r.Lowest()); b > pair {
				next, pair = r.Lowest(), b
			}
		}
		if bottleneck < 0 || pair < bottleneck {
			bottleneck = pair
		}
		at, left = next, left.Without(next)
	}
	return min(bottleneck, g.shape.Pair(at, first))
}

// exactRing is subsets.fillRings for the parts of one set.
func (g *graph) exactRing(set topology.GPUSet) topology.Bandwidth {
	var cards [exactRing]int
	n := 0
	for i := range set.All() {
		cards[n] = i
		n++
	}
	var path [1 << (exactRing - 1)][exactRing]topology.Bandwidth // by cards visited, less the first
	full := 1<<(n-1) - 1
	for mask := 1; mask <= full; mask++ {
		for end := 1; end < n; end++ {
			before := mask &^ (1 << (end - 1))
			if before == mask {
				continue
			}
			if before == 0 {
				path[mask][end] = g.shape.Pair(cards[0], cards[end])
				continue
			}
			for at := 1; at < n; at++ {
				if before>>(at-1)&1 == 1 {
					path[mask][end] = max(path[mask][end], min(path[before][at], g.shape.Pair(cards[at], cards[end])))
				}
			}
		}
	}
	var best topology.Bandwidth
	for end := 1; end < n; end++ {
		best = max(best, min(path[full][end], g.shape.Pair(cards[end], cards[0])))
	}
	return best
}
