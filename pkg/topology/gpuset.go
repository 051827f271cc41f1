package topology

import (
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxCards is the largest number of cards one node may have: the width of a GPUSet.
const MaxCards = 64

// GPUSet is a set of cards of one node; bit i stands for the card with index i.
// The zero value is the empty set.
type GPUSet uint64

// SetOf returns the set of the given card indices. An index outside [0, MaxCards) is not a card of any
// node and is left out.
func SetOf(indices ...int) GPUSet {
	var s GPUSet
	for _, i := range indices {
		s = s.With(i)
	}
	return s
}

// FirstN returns {0, ..., n-1}; n is limited to [0, MaxCards].
func FirstN(n int) GPUSet {
	switch {
	case n <= 0:
		return 0
	case n >= MaxCards:
		return ^GPUSet(0)
	}
	return GPUSet(1)<<uint(n) - 1
}

// Has reports whether card i is in the set.
func (s GPUSet) Has(i int) bool { return i >= 0 && i < MaxCards && s>>uint(i)&1 == 1 }

// With returns the set and card i.
func (s GPUSet) With(i int) GPUSet {
	if i < 0 || i >= MaxCards {
		return s
	}
	return s | 1<<uint(i)
}

// Without returns the set less card i.
func (s GPUSet) Without(i int) GPUSet {
	if i < 0 || i >= MaxCards {
		return s
	}
	return s &^ (1 << uint(i))
}

// Len returns the number of cards in the set.
func (s GPUSet) Len() int { return bits.OnesCount64(uint64(s)) }

// Empty reports whether the set has no card.
func (s GPUSet) Empty() bool { return s == 0 }

// Contains reports whether every card of t is in s.
func (s GPUSet) Contains(t GPUSet) bool { return t&^s == 0 }

// Lowest returns the lowest card index, -1 for the empty set.
func (s GPUSet) Lowest() int {
	if s == 0 {
		return -1
	}
	return bits.TrailingZeros64(uint64(s))
}

// All yields the card indices in ascending order.
func (s GPUSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := s; rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(uint64(rest))) {
				return
			}
		}
	}
}

// Indices returns the card indices in ascending order.
func (s GPUSet) Indices() []int {
	out := make([]int, 0, s.Len())
	for i := range s.All() {
		out = append(out, i)
	}
	return out
}

// String formats the set as "{0,1,4}".
func (s GPUSet) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range s.All() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i))
	}
	b.WriteByte('}')
	return b.String()
}
