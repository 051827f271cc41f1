package placement

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// Weights are what the two scores that a Shortlist adds up count for, those of GPUTopology and NCCLTopology in the profile. Neither is
// negative. Both together make up to 10,000: larger ones are made smaller in proportion.
type Weights struct{ Own, Domain int64 }

// maxWeights is what keys have room for.
const maxWeights = 10_000

// SeedFull is the seed that stands for a score of 100.
const SeedFull = 100_000

// Shortlist keeps what every node of a fabric is worth to a pod that belongs to no gang and asks for one certain thing, so that the
// best nodes of a whole cluster are found without looking into any. A node is worth
//
//	Weights.Own x Grade.Final + Weights.Domain x seed x packing / 1,000,000
//
// both scores rounded down: those of GPUTopology and NCCLTopology beside all nodes of the cluster.
// packing is that of Packing for a single beside the largest of all domains. Of nodes that are worth the same, the one with more of the
// second part before rounding comes first, then the lower position: what is alike fills up domain by domain.
//
// It is not safe for concurrent use.
type Shortlist struct {
	weights Weights
	// grades has Unfit for a node without a set of cards to give, and seeds what is multiplied by packing.
	grades []allocate.Grade
	seeds  []int32
	// widest is the widest ring of all nodes, atWidest how many nodes have it.
	widest   int64
	atWidest int
	// keys put the nodes in order, noKey for one without a set of cards to give. They are as the fields here say but for the positions
	// in changed, and for all while void is set.
	keys    []int64
	changed []int32
	void    bool
	// homes are those of the occupancy seen last, nil for none; members are the positions in each home and packing how it is packed.
	homes   []int32
	members [][]int32
	packing []int32
	// best is a heap, kept for its memory.
	best []int64
}

// NewShortlist returns a list for a fabric of so many positions. No node has a set of cards to give.
func NewShortlist(positions int, weights Weights) *Shortlist {
	if sum := weights.Own + weights.Domain; sum > maxWeights {
		weights = Weights{Own: weights.Own * maxWeights / sum, Domain: weights.Domain * maxWeights / sum}
	}
	s := &Shortlist{
		weights: weights, grades: make([]allocate.Grade, positions), seeds: make([]int32, positions), keys: make([]int64, positions), void: true,
	}
	for i := range s.grades {
		s.grades[i] = allocate.Unfit
	}
	return s
}

// Len returns the number of positions.
func (s *Shortlist) Len() int { return len(s.grades) }

// Set replaces what is known of the node at a position. seed is in [0, SeedFull].
func (s *Shortlist) Set(position int, grade allocate.Grade, seed int64) {
	was := s.grades[position].Bottleneck()
	s.grades[position], s.seeds[position] = grade, int32(min(max(0, seed), SeedFull))
	s.changed = append(s.changed, int32(position))
	switch now := grade.Bottleneck(); {
	case now > s.widest:
		s.widest, s.atWidest, s.void = now, 1, true
		return
	case now == s.widest:
		s.atWidest++
	}
	if was != s.widest {
		return
	}
	if s.atWidest--; s.atWidest == 0 {
		s.widen()
	}
}

// widen looks for the widest ring that is left.
func (s *Shortlist) widen() {
	s.widest, s.atWidest, s.void = 0, 0, true
	for _, grade := range s.grades {
		switch b := grade.Bottleneck(); {
		case b > s.widest:
			s.widest, s.atWidest = b, 1
		case b == s.widest:
			s.atWidest++
		}
	}
}

// Best returns the positions of the n nodes that are worth the most, the best first; fewer where fewer have a set of cards to give. o
// is the occupancy of the fabric, nil where nothing is kept free. It costs a comparison a position, and a little for each domain and
// for each node that has changed, or is in a domain that has. The result is the caller's.
func (s *Shortlist) Best(o *Occupancy, n int) []int {
	s.pack(o)
	if s.void {
		for i := range s.keys {
			s.keys[i] = s.key(int32(i))
		}
	} else {
		for _, i := range s.changed {
			s.keys[i] = s.key(i)
		}
	}
	s.changed, s.void = s.changed[:0], false
	s.best = s.best[:0]
	for _, key := range s.keys {
		switch {
		case key == noKey:
		case len(s.best) < n:
			s.enter(key)
		case n > 0 && key > s.best[0]:
			s.replace(key)
		}
	}
	slices.SortFunc(s.best, func(x, y int64) int { return cmp.Compare(y, x) })
	out := make([]int, len(s.best))
	for i, key := range s.best {
		out[i] = lastPosition - int(key&lastPosition)
	}
	return out
}

// pack notes how the domains are packed now, and which nodes are in one that is packed otherwise than before.
func (s *Shortlist) pack(o *Occupancy) {
	if o == nil {
		s.void = s.void || s.homes != nil
		s.homes, s.members, s.packing = nil, nil, nil
		return
	}
	if len(s.homes) == 0 || len(o.homes) == 0 || &s.homes[0] != &o.homes[0] {
		s.homes = o.homes
		s.members, s.packing = make([][]int32, len(o.free)), make([]int32, len(o.free))
		for i, home := range o.homes {
			s.members[home] = append(s.members[home], int32(i))
		}
	}
	largest := 1
	for _, total := range o.total {
		largest = max(largest, int(total))
	}
	for home, free := range o.free {
		packing := int32(Packing(int(free), 0, largest))
		if s.packing[home] != packing {
			s.packing[home] = packing
			s.changed = append(s.changed, s.members[home]...)
		}
	}
}

// Keys put nodes in order as numbers: bits 41.. the worth, bits 24-40 the second part of it before rounding, bits 0-23 lastPosition
// less the position.
const (
	positionBits = 24
	lastPosition = 1<<positionBits - 1
	seedBits     = 17
)

// noKey is less than any key.
const noKey = -1

// key is that of the node at a position.
func (s *Shortlist) key(position int32) int64 {
	grade := s.grades[position]
	if grade == allocate.Unfit {
		return noKey
	}
	packing := int64(PackedFull)
	if s.homes != nil {
		packing = int64(s.packing[s.homes[position]])
	}
	exact := int64(s.seeds[position]) * packing / PackedFull
	points := s.weights.Own*grade.Final(s.widest) + s.weights.Domain*(exact/1000)
	return (points<<seedBits|exact)<<positionBits | int64(lastPosition-position)
}

// enter puts a key into best, a heap with the smallest key at 0.
func (s *Shortlist) enter(key int64) {
	s.best = append(s.best, key)
	for i := len(s.best) - 1; i > 0 && s.best[(i-1)/2] > s.best[i]; i = (i - 1) / 2 {
		s.best[i], s.best[(i-1)/2] = s.best[(i-1)/2], s.best[i]
	}
}

// replace puts a key into best in place of the smallest.
func (s *Shortlist) replace(key int64) {
	s.best[0] = key
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.best); child++ {
			if s.best[child] < s.best[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		s.best[i], s.best[least] = s.best[least], s.best[i]
		i = least
	}
}
