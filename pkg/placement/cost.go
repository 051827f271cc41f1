package placement

import "math/bits"

// cost is what the nodes and domains cost that a number of members use: several numbers that are compared one after the
// other, packed into one. A field is wide enough for twice the largest sum, so sums do not carry.
type cost uint64

// never is more than any cost.
const never cost = 1 << costBits

// costBits is the number of bits that fields may use.
const costBits = 62

// scale says where the numbers of a cost are. Each is the cost of one.
type scale struct {
	// domains are the numbers of domains of each layer below the root, the hosts included.
	domains [maxLayers]cost
	// crossing is the number of boundaries between members that follow each other in rank, some of which run.
	crossing cost
	// free is what is free in the domains that are used, of each layer from the root's down to the one above the hosts.
	free [maxLayers]cost
	// counts are the bits of domains.
	counts cost

	used int
}

// field returns the cost of one of a number that comes to most at the most, and its bits. Numbers asked for first weigh
// more. A number for which no bits are left weighs nothing, nor do those after it.
func (f *scale) field(most int) (unit, mask cost) {
	n := max(1, bits.Len64(2*uint64(most)))
	if f.used+n > costBits {
		f.used = costBits
		return 0, 0
	}
	f.used += n
	shift := costBits - f.used
	return 1 << shift, (1<<n - 1) << shift
}

// newScale lays out the costs of want members in one domain of layer root: the numbers of domains from narrow to wide,
// then the crossings, then what is free in the domains that are used, from wide to narrow. There are domains[k] domains
// of layer k, and free is all that is free.
func newScale(root, want int, domains [maxLayers]int, crossings, free int) scale {
	f := scale{}
	for k := range root {
		var mask cost
		f.domains[k], mask = f.field(min(want, domains[k]))
		f.counts |= mask
	}
	if crossings > 0 {
		f.crossing, _ = f.field(crossings)
	}
	for k := root; k > 0; k-- {
		f.free[k], _ = f.field(free)
	}
	if root == 0 {
		f.free[0], _ = f.field(free)
	}
	return f
}
