package allocate

import "github.com/gputopology/gpu-topology-scheduler/pkg/topology"

// grow offers, for each card of the pool, the set that grows out of it: card by card the one whose second strongest
// pair with the set is the strongest (a ring passes every card by two pairs), then the one with the largest sum of
// pairs, then one of a NUMA node that the set already uses, then the lowest. Work: at most cards^3 steps.
func (t *table) grow(q *query, pool topology.GPUSet, best *found) {
	for seed := range pool.All() {
		t.offer(q, t.growFrom(q, pool, seed), best)
	}
}

// tie is how one card is joined to a growing set.
type tie struct {
	strongest, second, sum topology.Bandwidth
}

func (t *table) growFrom(q *query, pool topology.GPUSet, seed int) topology.GPUSet {
	var ties [topology.MaxCards]tie
	pool = pool.Without(seed)
	set := topology.SetOf(seed)
	t.tighten(&ties, pool, seed)
	for i := range q.base.All() {
		set = set.With(i)
		t.tighten(&ties, pool, i)
	}
	for range q.n - 1 {
		next := t.nearest(&ties, pool, set)
		set, pool = set.With(next), pool.Without(next)
		t.tighten(&ties, pool, next)
	}
	return set
}

// tighten adds card i's pairs to the ties of the cards not yet taken.
func (t *table) tighten(ties *[topology.MaxCards]tie, pool topology.GPUSet, i int) {
	for c := range pool.All() {
		pair := t.shape.Pair(i, c)
		to := &ties[c]
		to.sum += pair
		to.second = max(to.second, min(to.strongest, pair))
		to.strongest = max(to.strongest, pair)
	}
}

// nearest returns the card of the pool to take next.
func (t *table) nearest(ties *[topology.MaxCards]tie, pool, set topology.GPUSet) int {
	best := -1
	var bestTie tie
	bestShares := false
	for c := range pool.All() {
		now := ties[c]
		if set.Len() == 1 {
			now.second = now.strongest
		}
		shares := t.sharesNUMA(c, set)
		if best < 0 || now.second > bestTie.second ||
			now.second == bestTie.second && (now.sum > bestTie.sum || now.sum == bestTie.sum && shares && !bestShares) {
			best, bestTie, bestShares = c, now, shares
		}
	}
	return best
}

// sharesNUMA reports whether card c is on a known NUMA node with a card of the set.
func (t *table) sharesNUMA(c int, set topology.GPUSet) bool {
	for _, node := range t.numa {
		if node.Has(c) {
			return node&set != 0
		}
	}
	return false
}
