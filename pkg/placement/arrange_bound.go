package placement

import (
	"cmp"
	"math"
	"slices"
)

// arrangeBounds are lower bounds on the domains that the members left still open. Of each amount that members take, the
// nodes from one on must have what is left to be placed; the domains that have the most of it give the bound.
type arrangeBounds struct {
	dims []arrangeDim
}

// arrangeDim is one amount: the places for one class, cards, or a resource.
type arrangeDim struct {
	// each is what a member of each class takes.
	each [arrangerClasses]int64
	// from is what the nodes from each on have together.
	from []int64
	// layers are the domains of each layer.
	layers [maxLayers]arrangeDomains
}

// arrangeDomains is what the domains of a layer have that come after each one: later are sums, first the largest, then
// the two largest and so on, of those that are not used; near is the sum of those that the running part of the gang uses.
type arrangeDomains struct {
	later [][]int64
	near  []int64
}

// tooMany is more than any number of domains.
const tooMany = math.MaxInt32

// least returns a cost that the members left add at least, from node i on; false if they find no place.
func (b *arrangeBounds) least(a *arranger, i int, left *headcount, open uint8) (cost, bool) {
	var sum cost
	var most [maxLayers]int
	n := &a.nodes[i]
	for d := range b.dims {
		y, need := &b.dims[d], int64(0)
		for k := range a.classes {
			need += int64(left[k]) * y.each[k]
		}
		if need == 0 {
			continue
		}
		if need > y.from[i] {
			return 0, false
		}
		for l := range a.layers {
			here := y.from[i] - y.from[n.end[l]]
			most[l] = max(most[l], y.layers[l].fewest(int(n.domain[l]), need, here, (open|n.near)>>l&1 == 1))
		}
	}
	for l := range a.layers {
		if most[l] == tooMany {
			return 0, false
		}
		sum += a.unit[l] * cost(most[l])
	}
	return sum, true
}

// fewest returns the smallest number of domains, from domain d on, that have what is needed beside those that cost
// nothing; of d itself there is here, which costs nothing if it is open.
func (y *arrangeDomains) fewest(d int, need, here int64, open bool) int {
	need -= y.near[d]
	with := countOf(y.later[d], need-here)
	if open {
		return with
	}
	return min(countOf(y.later[d], need), min(tooMany, with+1))
}

// countOf returns how many terms the first sum has that reaches what is needed.
func countOf(sums []int64, need int64) int {
	if need <= 0 {
		return 0
	}
	n, _ := slices.BinarySearch(sums, need)
	if n == len(sums) {
		return tooMany
	}
	return n + 1
}

// setBounds prepares the bounds for at most so many members of each class.
func (a *arranger) setBounds(limits *headcount, held func(k, i int) int) {
	a.bounds.dims = a.bounds.dims[:0]
	for k := range a.classes {
		var each [arrangerClasses]int64
		each[k] = 1
		a.addDim(limits, each, func(i int) int64 { return int64(held(k, i)) })
	}
	var cards [arrangerClasses]int64
	for k := range a.classes {
		cards[k] = int64(a.classes[k].cards)
	}
	a.addDim(limits, cards, func(i int) int64 { return int64(a.nodes[i].cards) })
	for r := range a.classes[0].needs {
		var each [arrangerClasses]int64
		for k := range a.classes {
			each[k] = a.classes[k].needs[r]
		}
		a.addDim(limits, each, func(i int) int64 { return a.nodes[i].amounts[r] })
	}
}

// addDim adds an amount, unless nobody takes any of it or sums could be too large to add.
func (a *arranger) addDim(limits *headcount, each [arrangerClasses]int64, have func(i int) int64) {
	total, takers := int64(0), uint8(0)
	for k := range a.classes {
		if each[k] > 0 {
			takers |= 1 << k
		}
		total += min(times(int64(limits[k]), each[k]), math.MaxInt64-total)
	}
	if total == 0 || total > math.MaxInt64/(2*arrangerNodes) {
		return
	}
	n := len(a.nodes)
	y := arrangeDim{each: each, from: make([]int64, n+1)}
	for i := n - 1; i >= 0; i-- {
		y.from[i] = y.from[i+1]
		if a.nodes[i].admits&takers != 0 {
			y.from[i] += max(0, min(total, have(i)))
		}
	}
	for l := range a.layers {
		y.layers[l] = a.domainsOf(l, y.from)
	}
	a.bounds.dims = append(a.bounds.dims, y)
}

// domainsOf sums up a layer; from is what the nodes from each on have.
func (a *arranger) domainsOf(l int, from []int64) arrangeDomains {
	last := len(a.nodes) - 1
	count := int(a.nodes[last].domain[l]) + 1
	y := arrangeDomains{later: make([][]int64, count), near: make([]int64, count)}
	var sorted []int64
	near := int64(0)
	sums := make([]int64, count*(count-1)/2)
	for i := last; i >= 0; {
		n := &a.nodes[i]
		d := int(n.domain[l])
		y.near[d] = near
		y.later[d], sums = sums[:len(sorted):len(sorted)], sums[len(sorted):]
		sum := int64(0)
		for k, v := range sorted {
			sum += v
			y.later[d][k] = sum
		}
		for i >= 0 && int(a.nodes[i].domain[l]) == d {
			i--
		}
		have := from[i+1] - from[n.end[l]]
		if n.near>>l&1 == 1 {
			near += have
			continue
		}
		at, _ := slices.BinarySearchFunc(sorted, have, func(x, y int64) int { return cmp.Compare(y, x) })
		sorted = slices.Insert(sorted, at, have)
	}
	return y
}
