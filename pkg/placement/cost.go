package placement

import (
	"math/bits"
)

// cost is what the domains cost that a number of members use: several numbers that are compared one after the other,
// packed into 128 bits. A field is wide enough for twice the largest sum, so sums do not carry.
type cost struct{ hi, lo uint64 }

// never is more than any cost.
var never = cost{hi: 1 << 62}

func (c cost) plus(o cost) cost { return cost{c.hi + o.hi, c.lo + o.lo} }

func (c cost) times(n int) cost { return cost{c.hi * uint64(n), c.lo * uint64(n)} }

func (c cost) less(o cost) bool { return c.hi < o.hi || c.hi == o.hi && c.lo < o.lo }

func (c cost) compare(o cost) int {
	switch {
	case c.less(o):
		return -1
	case o.less(c):
		return 1
	}
	return 0
}

// within keeps the fields of the mask.
func (c cost) within(mask cost) cost { return cost{c.hi & mask.hi, c.lo & mask.lo} }

// scale says where the numbers of a cost are. Each is the cost of one.
type scale struct {
	// domains are the numbers of domains of each layer below the root.
	domains [maxLayers]cost
	// crossing is the number of boundaries between members that follow each other in rank, some of which run.
	crossing cost
	// free is what is free in the domains that are used, of each layer up to the root's.
	free [maxLayers]cost
	// counts is the mask of domains.
	counts cost

	hi, lo int
}

// Bits that may be used of the two words of a cost.
const hiBits, loBits = 62, 63

// field returns the cost of one of a number that comes to most at the most; numbers asked for first weigh more. A number
// for which no bits are left weighs nothing.
func (f *scale) field(most int) (unit, mask cost) {
	n := bits.Len64(2 * uint64(most))
	switch {
	case f.lo == 0 && f.hi+n <= hiBits:
		f.hi += n
		unit.hi = 1 << (hiBits - f.hi)
		mask.hi = (1<<n - 1) << (hiBits - f.hi)
	case f.lo+n <= loBits:
		f.lo += n
		unit.lo = 1 << (loBits - f.lo)
		mask.lo = (1<<n - 1) << (loBits - f.lo)
	default:
		f.lo = loBits
	}
	return unit, mask
}

// newScale lays out the costs of want members in one domain of layer root: the numbers of domains from narrow to wide,
// then the crossings, then what is free in the domains that are used from wide to narrow. There are domains[k] domains
// of layer k, and free is all that is free.
func newScale(root, want int, domains [maxLayers]int, crossings, free int) scale {
	f := scale{}
	for k := range root {
		var mask cost
		f.domains[k], mask = f.field(min(want, domains[k]))
		f.counts.hi |= mask.hi
		f.counts.lo |= mask.lo
	}
	if crossings > 0 {
		f.crossing, _ = f.field(crossings)
	}
	for k := root; k >= 0; k-- {
		f.free[k], _ = f.field(free)
	}
	return f
}
