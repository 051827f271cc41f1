package allocate

import (
	"sync"
	"sync/atomic"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// ExhaustiveCards is the largest number of cards a node may have for every set of them to be looked at.
	// Above it cards are chosen greedily; see the package documentation for what that keeps.
	ExhaustiveCards = 16
	// denseCards is the largest number of cards for which every answer has its own place in memory.
	denseCards = 8
	// slots is the number of answers kept for a shape of more than denseCards cards.
	slotBits = 11
	slots    = 1 << slotBits
	// policies is the number of pairs of a NUMA and a NIC policy.
	policies = 9
	// answerBytes bounds one kept answer with its slot: 8 bytes of slot, and an allocation of 32.
	answerBytes = 40
)

// table is what the choice of cards depends on for all nodes of one shape, and the answers given so far.
type table struct {
	shape *topology.Shape
	once  sync.Once

	// numa are the cards of each known NUMA node, lone the cards of unknown ones.
	numa []topology.GPUSet
	lone topology.GPUSet
	// near are the cards with a network adapter at PIX or PXB.
	near topology.GPUSet
	// subsets measures every set of cards; nil above ExhaustiveCards, where graph measures.
	subsets *subsets
	graph   *graph

	// dense holds, by policy, the answers for up to denseCards cards; 0 is an answer not given yet.
	dense [policies]atomic.Pointer[[]atomic.Uint32]
	// sparse holds the latest answers by hash of the question.
	sparse []atomic.Pointer[answer]
}

// answer is the best set of n of the free cards; 0 where there is none.
type answer struct {
	free, best topology.GPUSet
	n, policy  int
}

// tableBytes bounds the memory that the table of a shape of n cards comes to hold.
func tableBytes(n int) int64 {
	const fixed = 4096 // the table itself, its shape of up to 16 cards, its place in the Chooser
	sets := int64(1) << min(n, ExhaustiveCards)
	switch {
	case n <= denseCards:
		return fixed + sets*subsetBytes + policies*sets*int64(n)*4
	case n <= ExhaustiveCards:
		return fixed + sets*subsetBytes + slots*answerBytes
	}
	return fixed + int64(n*n)*8 + slots*answerBytes
}

// build fills the table in; it is done once, by whoever asks first.
func (t *table) build() {
	s := t.shape
	for i := range s.Len() {
		if s.NearestNIC(i) >= topology.LinkPXB {
			t.near = t.near.With(i)
		}
		id := s.NUMA(i)
		if id == topology.NUMAUnknown {
			t.lone = t.lone.With(i)
			continue
		}
		first := i
		for j := range i {
			if s.NUMA(j) == id {
				first = j
				break
			}
		}
		t.joinNUMA(first, i)
	}
	if s.Len() <= ExhaustiveCards {
		t.subsets = newSubsets(s)
	} else {
		t.graph = newGraph(s)
	}
	if s.Len() > denseCards {
		t.sparse = make([]atomic.Pointer[answer], slots)
	}
}

// joinNUMA puts card i into the NUMA node of card first, which may be i itself.
func (t *table) joinNUMA(first, i int) {
	for k := range t.numa {
		if t.numa[k].Has(first) {
			t.numa[k] = t.numa[k].With(i)
			return
		}
	}
	t.numa = append(t.numa, topology.SetOf(i))
}

// ring returns the bottleneck of the best ring over the set.
func (t *table) ring(s topology.GPUSet) topology.Bandwidth {
	if t.subsets != nil {
		return t.subsets.levels[t.subsets.ring[s]]
	}
	return t.graph.ring(s)
}

// pairs returns the sum of the set's pairs.
func (t *table) pairs(s topology.GPUSet) topology.Bandwidth {
	if t.subsets != nil {
		return t.subsets.sum[s]
	}
	return t.graph.sum(s)
}

// fastest returns the size of the largest part of the set whose ring runs at the fastest pair bandwidth.
func (t *table) fastest(s topology.GPUSet) int {
	if t.subsets != nil {
		return int(t.subsets.fast[s])
	}
	return t.graph.fastest(s)
}

// nodes counts the NUMA nodes of the set.
func (t *table) nodes(s topology.GPUSet) int {
	n := (s & t.lone).Len()
	for _, node := range t.numa {
		if node&s != 0 {
			n++
		}
	}
	return n
}

// quality measures a choice of the set where the given cards are free.
func (t *table) quality(free, set topology.GPUSet, numa NUMAPolicy, nic NICPolicy) Quality {
	left := free &^ set
	q := Quality{
		Bottleneck:   t.ring(set),
		PairSum:      t.pairs(set),
		Remaining:    t.fastest(left),
		RemainingSum: t.pairs(left),
		FreeLeft:     left.Len(),
	}
	if numa != NUMANone {
		q.NUMANodes = t.nodes(set)
	}
	if nic != NICNone {
		q.NearNICs = (set & t.near).Len()
	}
	return q
}

// best returns the best n of the free cards, 1 <= n; false where the free cards or the policies leave too few.
// The answer depends on the arguments alone, never on what was asked before.
func (t *table) best(free topology.GPUSet, n int, numa NUMAPolicy, nic NICPolicy) (topology.GPUSet, bool) {
	if n > free.Len() {
		return 0, false
	}
	policy := int(numa)*3 + int(nic)
	if t.shape.Len() <= denseCards {
		return t.bestDense(free, n, policy)
	}
	// Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio, the top bits of a product are well mixed.
	const golden = 0x9e3779b97f4a7c15
	hash := (uint64(free)*golden ^ uint64(n*policies+policy)) * golden
	slot := &t.sparse[hash>>(64-slotBits)]
	if a := slot.Load(); a != nil && a.free == free && a.n == n && a.policy == policy {
		return a.best, a.best != 0
	}
	set, ok := t.search(&query{free: free, pool: free, n: n, numa: numa, nic: nic})
	slot.Store(&answer{free: free, best: set, n: n, policy: policy})
	return set, ok
}

func (t *table) bestDense(free topology.GPUSet, n, policy int) (topology.GPUSet, bool) {
	const given = 1 << 16
	cards := t.shape.Len()
	row := t.dense[policy].Load()
	if row == nil {
		fresh := make([]atomic.Uint32, cards<<uint(cards))
		t.dense[policy].CompareAndSwap(nil, &fresh)
		row = t.dense[policy].Load()
	}
	place := &(*row)[int(free)*cards+n-1]
	if a := place.Load(); a != 0 {
		set := topology.GPUSet(a &^ given)
		return set, set != 0
	}
	set, ok := t.search(&query{free: free, pool: free, n: n, numa: NUMAPolicy(policy / 3), nic: NICPolicy(policy % 3)})
	place.Store(uint32(set) | given)
	return set, ok
}
