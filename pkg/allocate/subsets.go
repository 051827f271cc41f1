package allocate

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// subsetBytes is the memory of subsets for one set of cards.
const subsetBytes = 1 + 1 + 8

// subsets holds the measures of every set of cards of a shape of at most ExhaustiveCards cards, by mask.
type subsets struct {
	// levels are the distinct pair bandwidths in ascending order, behind 0 for "no ring". At most 121, since 16
	// cards have 120 pairs.
	levels []topology.Bandwidth
	// ring is the level of the best ring's bottleneck.
	ring []uint8
	// sum is the sum of pairs.
	sum []topology.Bandwidth
	// fast is the size of the largest part whose ring runs at the last level.
	fast []uint8
}

func newSubsets(shape *topology.Shape) *subsets {
	n := shape.Len()
	s := &subsets{
		levels: []topology.Bandwidth{0},
		ring:   make([]uint8, 1<<n),
		sum:    make([]topology.Bandwidth, 1<<n),
		fast:   make([]uint8, 1<<n),
	}
	for i := range n {
		for j := range i {
			s.levels = append(s.levels, shape.Pair(i, j))
		}
	}
	slices.Sort(s.levels)
	s.levels = slices.Compact(s.levels)
	s.fillRings(shape)
	s.fillSums(shape)
	s.fillFast()
	return s
}

// fillRings finds the best ring of every set. path[mask][end] is the best bottleneck of a path that starts at the
// lowest card of mask, visits every other card of it once and stops at end; it grows out of the paths of mask
// without end. A ring is such a path with its ends joined, so its bottleneck is the lower of the path's and that
// pair's. The work is n^2 * 2^n / 4 steps whatever the bandwidths are.
func (s *subsets) fillRings(shape *topology.Shape) {
	n := shape.Len()
	var level [ExhaustiveCards][ExhaustiveCards]int
	for i := range n {
		for j := range i {
			at, _ := slices.BinarySearch(s.levels, shape.Pair(i, j))
			level[i][j], level[j][i] = at, at
		}
	}
	path := make([][ExhaustiveCards]uint8, 1<<n)
	for mask := topology.GPUSet(1); int(mask) < 1<<n; mask++ {
		first := mask.Lowest()
		rest := mask.Without(first)
		for ends := rest; ends != 0; ends &= ends - 1 {
			end := ends.Lowest()
			before := rest.Without(end)
			best := level[first][end]
			if before != 0 {
				best = bestStep(&path[mask.Without(end)], &level[end], before)
			}
			path[mask][end] = uint8(best)
			s.ring[mask] = max(s.ring[mask], uint8(min(best, level[end][first])))
		}
	}
}

// bestStep returns the best bottleneck of a path that stops at one of the cards and goes on from there. from is the
// bottleneck up to each card, level that of the step.
func bestStep(from *[ExhaustiveCards]uint8, level *[ExhaustiveCards]int, cards topology.GPUSet) int {
	best := 0
	for ; cards != 0; cards &= cards - 1 {
		at := cards.Lowest() & (ExhaustiveCards - 1)
		best = max(best, min(int(from[at]), level[at]))
	}
	return best
}

// fillSums adds to each set's sum, card by card, what its lowest card brings.
func (s *subsets) fillSums(shape *topology.Shape) {
	for mask := 1; mask < len(s.sum); mask++ {
		set := topology.GPUSet(mask)
		first := set.Lowest()
		rest := set.Without(first)
		sum := s.sum[rest]
		for r := rest; r != 0; r &= r - 1 {
			sum += shape.Pair(first, r.Lowest())
		}
		s.sum[mask] = sum
	}
}

// fillFast carries the largest set at the fastest level up from each set's parts.
func (s *subsets) fillFast() {
	top := uint8(len(s.levels) - 1)
	if top == 0 {
		return // no pair has any bandwidth
	}
	for mask := 1; mask < len(s.fast); mask++ {
		set := topology.GPUSet(mask)
		if s.ring[mask] == top {
			s.fast[mask] = uint8(set.Len())
			continue
		}
		for r := set; r != 0; r &= r - 1 {
			s.fast[mask] = max(s.fast[mask], s.fast[set.Without(r.Lowest())])
		}
	}
}
