package placement_test

import (
	"cmp"
	"math"
	"slices"
)

// bnb is an oracle by branch and bound: the cheapest places for members of several kinds, of one gang or of several. It
// shares no code with the planner and looks at numbers only, which is exact for plain whole cards.
//
// Nodes come in the order of the fabric, so that the nodes of a domain follow each other. The search branches over what a
// node takes and cuts a branch that cannot be cheaper than the best: by a lower bound, and where the same state was reached
// before at no higher cost.
//
//	cost = for each layer, the domains that are used, summed over the gangs; compared from the first layer to the last
type bnb struct {
	kinds []bnbKind
	gangs int
	nodes []bnbNode
	// layers is the number of layers whose domains cost something, at most maxBnbLayers.
	layers int
	rules  []bnbRule

	dims  []bnbDim
	best  bnbCost
	found bool
	// seen is the least cost at which each state was reached. visits counts states; the search gives up at maxBnbVisits.
	seen   map[string]bnbCost
	visits int
	key    []byte
}

const (
	maxBnbLayers = 7
	maxBnbVisits = 1_000_000
)

// bnbCost is a number of domains for each layer.
type bnbCost [maxBnbLayers]int16

func (c bnbCost) compare(o bnbCost) int { return slices.Compare(c[:], o[:]) }

// bnbKind is members that ask for the same.
type bnbKind struct {
	gang, want, cards int
	needs             []int64
}

// bnbRule says that a domain of the nodes' groups[group] holds a multiple of size members of each of the kinds; with size
// 0, all members of all of them or none.
type bnbRule struct {
	group, size int
	kinds       []int
}

// bnbNode is a node: what is free, a bit for each kind that it admits, its domains that cost something, those that cost
// nothing because they are in use, and its domains for rules.
type bnbNode struct {
	cards   int
	amounts []int64
	admits  uint64
	domain  []int
	near    []bool
	groups  []int
}

// bnbDim is an amount of which a gang needs something: the places for one kind, cards, or a resource. Without places for
// it in enough domains the gang fits nowhere.
type bnbDim struct {
	gang int
	need func(left []int) int64
	// at is what each node has. For each layer and node: more are sums of what the domains from the node on have, the
	// largest first, with that of the node itself, rest without; here is what is left of its own, free what costs nothing.
	at         []int64
	more, rest [][][]int64
	here, free [][]int64
}

// solve returns the least cost; false if the members do not fit.
func (b *bnb) solve() (bnbCost, bool) {
	b.seen = map[string]bnbCost{}
	b.addDims()
	left := make([]int, len(b.kinds))
	for k := range b.kinds {
		left[k] = b.kinds[k].want
	}
	b.visit(0, left, make([]uint8, b.gangs), bnbCost{})
	return b.best, b.found
}

// exhausted reports whether the search gave up.
func (b *bnb) exhausted() bool { return b.visits >= maxBnbVisits }

// visit goes on at node i. open has for each gang a bit for each layer whose domain at the node is used.
func (b *bnb) visit(i int, left []int, open []uint8, spent bnbCost) {
	if b.visits++; b.exhausted() {
		return
	}
	if !slices.ContainsFunc(left, func(n int) bool { return n > 0 }) {
		if !b.found || spent.compare(b.best) < 0 {
			b.best, b.found = spent, true
		}
		return
	}
	if i == len(b.nodes) || !b.whole(i, left) {
		return
	}
	open = b.enter(i, open)
	least, ok := b.bound(i, left, open, spent)
	if !ok || b.found && least.compare(b.best) >= 0 || b.known(i, left, open, spent) {
		return
	}
	b.branch(i, left, open, func(put []int) {
		rest, next, cost := slices.Clone(left), slices.Clone(open), spent
		for k, n := range put {
			if n == 0 {
				continue
			}
			rest[k] -= n
			g := b.kinds[k].gang
			for l := range b.layers {
				if next[g]>>l&1 == 0 && !b.nodes[i].near[l] {
					cost[l]++
				}
				next[g] |= 1 << l
			}
		}
		b.visit(i+1, rest, next, cost)
	})
}

// whole reports whether the domains that end before node i keep the rules.
func (b *bnb) whole(i int, left []int) bool {
	if i == 0 {
		return true
	}
	for _, r := range b.rules {
		if b.nodes[i].groups[r.group] == b.nodes[i-1].groups[r.group] {
			continue
		}
		none, all := true, true
		for _, k := range r.kinds {
			none, all = none && left[k] == b.kinds[k].want, all && left[k] == 0
			if r.size > 0 && left[k]%r.size != 0 {
				return false
			}
		}
		if r.size == 0 && !none && !all {
			return false
		}
	}
	return true
}

// ruled reports whether a rule may be why a node does not take one more of a kind, of which it takes some or none: where
// all have to be in one domain and some are, it is not.
func (b *bnb) ruled(k int, some bool) bool {
	return slices.ContainsFunc(b.rules, func(r bnbRule) bool { return slices.Contains(r.kinds, k) && (r.size > 0 || !some) })
}

// enter closes the domains that end before node i.
func (b *bnb) enter(i int, open []uint8) []uint8 {
	if i == 0 {
		return open
	}
	out := slices.Clone(open)
	for l := range b.layers {
		if b.nodes[i].domain[l] != b.nodes[i-1].domain[l] {
			for g := range out {
				out[g] &^= 1 << l
			}
		}
	}
	return out
}

// known reports whether the state was reached before at no higher cost, and notes it otherwise.
func (b *bnb) known(i int, left []int, open []uint8, spent bnbCost) bool {
	b.key = append(b.key[:0], byte(i))
	for _, n := range left {
		b.key = append(b.key, byte(n), byte(n>>8))
	}
	b.key = append(b.key, open...)
	if before, ok := b.seen[string(b.key)]; ok && before.compare(spent) <= 0 {
		return true
	}
	b.seen[string(b.key)] = spent
	return false
}

// branch yields what node i may take, the most first. What leaves out a member that could be had for nothing is not worth
// a look, unless a rule says how many may be taken.
func (b *bnb) branch(i int, left []int, open []uint8, yield func(put []int)) {
	n := &b.nodes[i]
	put, cards, amounts := make([]int, len(b.kinds)), n.cards, slices.Clone(n.amounts)
	fits := func(k int) bool {
		c := &b.kinds[k]
		if n.admits>>k&1 == 0 || put[k] == left[k] || c.cards > cards {
			return false
		}
		for r, need := range c.needs {
			if need > 0 && need > amounts[r] {
				return false
			}
		}
		return true
	}
	take := func(k, by int) {
		put[k] += by
		cards -= by * b.kinds[k].cards
		for r, need := range b.kinds[k].needs {
			amounts[r] -= int64(by) * need
		}
	}
	lazy := func() bool {
		for k := range b.kinds {
			g := b.kinds[k].gang
			if !b.ruled(k, put[k] > 0) && (b.uses(put, g) || b.costsNothing(i, open[g])) && fits(k) {
				return true
			}
		}
		return false
	}
	var rec func(k int)
	rec = func(k int) {
		if k == len(b.kinds) {
			if !lazy() {
				yield(put)
			}
			return
		}
		for fits(k) {
			take(k, 1)
		}
		for ; put[k] > 0; take(k, -1) {
			rec(k + 1)
		}
		rec(k + 1)
	}
	rec(0)
}

// uses reports whether members of the gang are put on the node.
func (b *bnb) uses(put []int, gang int) bool {
	for k, n := range put {
		if n > 0 && b.kinds[k].gang == gang {
			return true
		}
	}
	return false
}

// costsNothing reports whether all domains of the node are in use.
func (b *bnb) costsNothing(i int, open uint8) bool {
	for l := range b.layers {
		if open>>l&1 == 0 && !b.nodes[i].near[l] {
			return false
		}
	}
	return true
}

// bound returns a cost that no way to go on from node i is below; false if there is none.
func (b *bnb) bound(i int, left []int, open []uint8, spent bnbCost) (bnbCost, bool) {
	for l := range b.layers {
		for g := range b.gangs {
			most := 0
			for d := range b.dims {
				if y := &b.dims[d]; y.gang == g {
					n := y.least(l, i, y.need(left), open[g]>>l&1 == 1)
					if n < 0 {
						return spent, false
					}
					most = max(most, n)
				}
			}
			spent[l] += int16(most)
		}
	}
	return spent, true
}

// least is the smallest number of other domains of layer l without which less than need is there from node i on; -1 if
// there is less in all.
func (y *bnbDim) least(l, i int, need int64, open bool) int {
	sums := y.more[l][i]
	if open {
		sums = y.rest[l][i]
		need -= y.here[l][i]
	}
	if need -= y.free[l][i]; need <= 0 {
		return 0
	}
	n, _ := slices.BinarySearch(sums, need)
	if n == len(sums) {
		return -1
	}
	return n + 1
}

// addDims makes the lower bounds ready.
func (b *bnb) addDims() {
	for k := range b.kinds {
		c := &b.kinds[k]
		b.addDim(c.gang, func(left []int) int64 { return int64(left[k]) }, func(n *bnbNode) int64 {
			if n.admits>>k&1 == 0 {
				return 0
			}
			most := int64(c.want)
			if c.cards > 0 {
				most = min(most, int64(n.cards/c.cards))
			}
			for r, need := range c.needs {
				if need > 0 {
					most = min(most, max(0, n.amounts[r])/need)
				}
			}
			return most
		})
	}
	for g := range b.gangs {
		b.addSum(g, func(c *bnbKind) int64 { return int64(c.cards) }, func(n *bnbNode) int64 { return int64(n.cards) })
		for r := range b.nodes[0].amounts {
			b.addSum(g, func(c *bnbKind) int64 { return c.needs[r] }, func(n *bnbNode) int64 { return n.amounts[r] })
		}
	}
}

// addSum adds an amount that all kinds of a gang share.
func (b *bnb) addSum(gang int, each func(*bnbKind) int64, have func(*bnbNode) int64) {
	need := func(left []int) (sum int64) {
		for k, n := range left {
			if b.kinds[k].gang == gang {
				sum += int64(n) * each(&b.kinds[k])
			}
		}
		return sum
	}
	b.addDim(gang, need, func(n *bnbNode) int64 {
		for k := range b.kinds {
			if b.kinds[k].gang == gang && n.admits>>k&1 == 1 && each(&b.kinds[k]) > 0 {
				return max(0, have(n))
			}
		}
		return 0
	})
}

func (b *bnb) addDim(gang int, need func([]int) int64, have func(*bnbNode) int64) {
	y := bnbDim{gang: gang, need: need}
	for i := range b.nodes {
		y.at = append(y.at, have(&b.nodes[i]))
	}
	for l := range b.layers {
		n := len(b.nodes)
		more, rest, here, free := make([][]int64, n), make([][]int64, n), make([]int64, n), make([]int64, n)
		for i := range b.nodes {
			var others []int64
			for j := i; j < n; {
				sum, first := int64(0), j
				for ; j < n && b.nodes[j].domain[l] == b.nodes[first].domain[l]; j++ {
					sum += y.at[j]
				}
				switch {
				case b.nodes[first].near[l]:
					free[i] += sum
				case first == i:
					here[i] = sum
				default:
					others = append(others, sum)
				}
			}
			more[i], rest[i] = sumsOf(append(slices.Clone(others), here[i])), sumsOf(others)
		}
		y.more, y.rest, y.here, y.free = append(y.more, more), append(y.rest, rest), append(y.here, here), append(y.free, free)
	}
	b.dims = append(b.dims, y)
}

// sumsOf are the largest, the two largest and so on together.
func sumsOf(all []int64) []int64 {
	slices.SortFunc(all, func(a, b int64) int { return cmp.Compare(b, a) })
	for i := 1; i < len(all); i++ {
		all[i] = min(math.MaxInt32, all[i]+all[i-1])
	}
	return all
}
