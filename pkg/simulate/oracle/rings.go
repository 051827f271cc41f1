package oracle

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// rings holds what was found out about sets of cards of one machine.
type rings struct {
	shape   *topology.Shape
	fastest topology.Bandwidth
	known   map[topology.GPUSet]ring
}

// ring is one way through all cards of a set and back.
type ring struct {
	slowest topology.Bandwidth
	order   []int
}

func newRings(shape *topology.Shape) *rings {
	r := &rings{shape: shape, known: map[topology.GPUSet]ring{}}
	for i := range shape.Len() {
		for j := range i {
			r.fastest = max(r.fastest, shape.Pair(i, j))
		}
	}
	return r
}

// ring returns the slowest pair of the fastest ring through all cards of the set; 0 for fewer than two.
func (r *rings) ring(set topology.GPUSet) topology.Bandwidth { return r.fastestRing(set).slowest }

// fastestRing returns the fastest ring through all cards of the set; a single card, or none, is no ring.
func (r *rings) fastestRing(set topology.GPUSet) ring {
	if set.Len() < 2 {
		return ring{order: set.Indices()}
	}
	if known, ok := r.known[set]; ok {
		return known
	}
	var best ring
	r.extend(set.Indices(), 1, &best)
	r.known[set] = best
	return best
}

// extend tries every order of cards[placed:] behind cards[:placed].
func (r *rings) extend(cards []int, placed int, best *ring) {
	if placed == len(cards) {
		slowest := r.shape.Pair(cards[len(cards)-1], cards[0])
		for i := 1; i < len(cards); i++ {
			slowest = min(slowest, r.shape.Pair(cards[i-1], cards[i]))
		}
		if best.order == nil || slowest > best.slowest {
			*best = ring{slowest: slowest, order: slices.Clone(cards)}
		}
		return
	}
	for i := placed; i < len(cards); i++ {
		cards[placed], cards[i] = cards[i], cards[placed]
		r.extend(cards, placed+1, best)
		cards[placed], cards[i] = cards[i], cards[placed]
	}
}

// pairs returns the sum over all pairs of the set.
func (r *rings) pairs(set topology.GPUSet) topology.Bandwidth {
	var sum topology.Bandwidth
	for i := range set.All() {
		for j := range set.All() {
			if i < j {
				sum += r.shape.Pair(i, j)
			}
		}
	}
	return sum
}

// fast returns the size of the largest part of the set, two cards or more, that has a ring at the fastest pair rate.
func (r *rings) fast(set topology.GPUSet) int {
	most := 0
	for part := range subsets(set) {
		if n := part.Len(); n >= 2 && n > most && r.ring(part) == r.fastest {
			most = n
		}
	}
	return most
}

// numa counts the NUMA nodes of the set.
func (r *rings) numa(set topology.GPUSet) int {
	seen, lone := map[int]bool{}, 0
	for i := range set.All() {
		if id := r.shape.NUMA(i); id == topology.NUMAUnknown {
			lone++
		} else {
			seen[id] = true
		}
	}
	return len(seen) + lone
}

// subsets yields every subset of the set but the empty one.
func subsets(set topology.GPUSet) func(yield func(topology.GPUSet) bool) {
	return func(yield func(topology.GPUSet) bool) {
		for part := set; part != 0; part = (part - 1) & set {
			if !yield(part) {
				return
			}
		}
	}
}
