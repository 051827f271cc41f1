package allocate

import "github.com/gputopology/gpu-topology-scheduler/pkg/topology"

// query asks for the best set that is base and n cards of pool, n >= 1.
type query struct {
	// free are the node's free cards, of which the choice leaves some.
	free topology.GPUSet
	// base are cards that are in every set; pool has none of them.
	base, pool topology.GPUSet
	n          int
	numa       NUMAPolicy
	nic        NICPolicy
	// spare is what Quality.SpareBytes adds up, one entry a card; nil for whole cards.
	spare []int64
}

// found is the best set so far.
type found struct {
	ok      bool
	set     topology.GPUSet
	quality Quality
}

// search returns the best set by Quality and then lowest mask; false where there is none.
func (t *table) search(q *query) (topology.GPUSet, bool) {
	pool := q.pool
	if q.nic == NICRequire {
		pool &= t.near
	}
	var best found
	if q.numa != NUMARequire || q.n == 1 {
		t.searchPool(q, pool, &best)
		return best.set, best.ok
	}
	for _, node := range t.numa {
		t.searchPool(q, pool&node, &best)
	}
	return best.set, best.ok
}

// searchPool offers every set of base and n cards of pool, or on large nodes the greedy ones.
func (t *table) searchPool(q *query, pool topology.GPUSet, best *found) {
	switch {
	case pool.Len() < q.n:
		return
	case t.subsets == nil:
		t.grow(q, pool, best)
	default:
		t.exhaust(q, pool, best)
	}
}

// exhaust offers all sets, in ascending order of their masks.
func (t *table) exhaust(q *query, pool topology.GPUSet, best *found) {
	var lowest [ExhaustiveCards + 1]topology.GPUSet // the j lowest cards of pool
	for j, rest := 0, pool; rest != 0; j, rest = j+1, rest&(rest-1) {
		lowest[j+1] = lowest[j].With(rest.Lowest())
	}
	for sub := lowest[q.n]; ; {
		t.offer(q, q.base|sub, best)
		// The next higher mask of as many cards: within the pool's bits, move the lowest card that can go up to
		// the next place, and the cards below it down to the lowest places.
		carried := ((sub | ^pool) + sub&-sub) & pool
		if carried == 0 {
			return
		}
		sub = carried | lowest[q.n-carried.Len()]
	}
}

// offer keeps the set if it beats the best so far.
func (t *table) offer(q *query, set topology.GPUSet, best *found) {
	if best.ok && t.ring(set) < best.quality.Bottleneck {
		return
	}
	quality := t.quality(q.free, set, q.numa, q.nic)
	for s := set; q.spare != nil && s != 0; s &= s - 1 {
		quality.SpareBytes += q.spare[s.Lowest()]
	}
	if best.ok {
		if order := quality.Compare(best.quality); order < 0 || order == 0 && set > best.set {
			return
		}
	}
	*best = found{ok: true, set: set, quality: quality}
}
