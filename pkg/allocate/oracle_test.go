package allocate_test

import (
	"math/bits"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// oracle answers by looking at everything: rings as permutations, sets as all masks, the order of preference as a list of
// numbers. It shares nothing with the implementation.
type oracle struct {
	shape *topology.Shape
	n     int
	// rings holds the best bottleneck of every mask that was asked for, -1 where none was.
	rings []topology.Bandwidth
	// largest holds the size of the largest ring at the fastest bandwidth inside every mask asked for, -1 else.
	largest []int
	fastest topology.Bandwidth
}

func newOracle(n *topology.Node) *oracle {
	o := &oracle{shape: n.Shape(), n: n.Len()}
	o.rings = make([]topology.Bandwidth, 1<<o.n)
	o.largest = make([]int, 1<<o.n)
	for m := range o.rings {
		o.rings[m], o.largest[m] = -1, -1
	}
	for i := range o.n {
		for j := range o.n {
			o.fastest = max(o.fastest, o.shape.Pair(i, j))
		}
	}
	return o
}

func members(mask uint64) []int {
	var out []int
	for i := range 64 {
		if mask>>uint(i)&1 == 1 {
			out = append(out, i)
		}
	}
	return out
}

// ring tries every order of the cards.
func (o *oracle) ring(mask uint64) topology.Bandwidth {
	if o.rings[mask] >= 0 {
		return o.rings[mask]
	}
	cards := members(mask)
	best := topology.Bandwidth(0)
	if len(cards) >= 2 {
		permute(cards, 1, func(order []int) {
			slowest := o.shape.Pair(order[len(order)-1], order[0])
			for i := 1; i < len(order); i++ {
				slowest = min(slowest, o.shape.Pair(order[i-1], order[i]))
			}
			best = max(best, slowest)
		})
	}
	o.rings[mask] = best
	return best
}

// permute visits every order of items[from:].
func permute(items []int, from int, visit func([]int)) {
	if from >= len(items)-1 {
		visit(items)
		return
	}
	for i := from; i < len(items); i++ {
		items[from], items[i] = items[i], items[from]
		permute(items, from+1, visit)
		items[from], items[i] = items[i], items[from]
	}
}

func (o *oracle) sum(mask uint64) topology.Bandwidth {
	var sum topology.Bandwidth
	for _, i := range members(mask) {
		for _, j := range members(mask) {
			if i < j {
				sum += o.shape.Pair(i, j)
			}
		}
	}
	return sum
}

// remaining looks at every part of the mask, the whole first.
func (o *oracle) remaining(mask uint64) int {
	if o.largest[mask] >= 0 {
		return o.largest[mask]
	}
	best := 0
	for part := mask; part != 0; part = (part - 1) & mask {
		if n := bits.OnesCount64(part); n > best && o.fastest > 0 && o.ring(part) == o.fastest {
			best = n
		}
	}
	o.largest[mask] = best
	return best
}

func (o *oracle) numaNodes(mask uint64) int {
	known := map[int]bool{}
	unknown := 0
	for _, i := range members(mask) {
		if o.shape.NUMA(i) == topology.NUMAUnknown {
			unknown++
		} else {
			known[o.shape.NUMA(i)] = true
		}
	}
	return unknown + len(known)
}

func (o *oracle) near(mask uint64) int {
	n := 0
	for _, i := range members(mask) {
		if l := o.shape.NearestNIC(i); l == topology.LinkPIX || l == topology.LinkPXB {
			n++
		}
	}
	return n
}

// allows reports whether the policies accept the set.
func (o *oracle) allows(mask uint64, numa allocate.NUMAPolicy, nic allocate.NICPolicy) bool {
	n := bits.OnesCount64(mask)
	return (numa != allocate.NUMARequire || n <= 1 || o.numaNodes(mask) == 1) &&
		(nic != allocate.NICRequire || o.near(mask) == n)
}

// measure lists what decides, most important first; more is better.
func (o *oracle) measure(free, mask uint64, numa allocate.NUMAPolicy, nic allocate.NICPolicy) [6]int64 {
	m := [6]int64{int64(o.ring(mask)), int64(o.sum(mask)), 0, 0, int64(o.remaining(free &^ mask)), int64(o.sum(free &^ mask))}
	if numa != allocate.NUMANone {
		m[2] = -int64(o.numaNodes(mask))
	}
	if nic != allocate.NICNone {
		m[3] = int64(o.near(mask))
	}
	return m
}

func measureOf(q allocate.Quality) [6]int64 {
	return [6]int64{int64(q.Bottleneck), int64(q.PairSum), -int64(q.NUMANodes), int64(q.NearNICs), int64(q.Remaining), int64(q.RemainingSum)}
}

func less(a, b [6]int64) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// best returns the best k of the free cards, 0 where the policies accept none.
func (o *oracle) best(free uint64, k int, numa allocate.NUMAPolicy, nic allocate.NICPolicy) (set uint64, measure [6]int64) {
	for mask := range uint64(1) << o.n {
		if mask&^free != 0 || bits.OnesCount64(mask) != k || !o.allows(mask, numa, nic) {
			continue
		}
		if m := o.measure(free, mask, numa, nic); set == 0 || less(measure, m) {
			set, measure = mask, m
		}
	}
	return set, measure
}
