package placement

import (
	"cmp"
	"math"
	"slices"
)

// knapsack answers what the cheapest domains are that hold a number of members of one class.
//
// For a domain v, f(v, m) is the least cost of m members in it. One node costs the same for any number that it holds.
// A domain of several parts costs what the parts cost, and its own cost if m > 0; the members are dealt to the parts in
// the cheapest way:
//
//	f(v, m) = own(v) + min over m1 + m2 + ... = m of f(part 1, m1) + f(part 2, m2) + ...
//
// Costs are added and compared like numbers, so this minimum is exact although it is found part by part. f is a staircase
// in m and is kept as its steps. Parts that are single nodes of the same cost and room are taken in bundles of 1, 2, 4 and
// so on, of which a sum can be made for any number of them.
//
// With slices, a part that is one domain of the slices' level counts only in multiples of a slice.
type knapsack struct {
	tree *tree
	// held is how many members each slot holds, free what is free there, far its crossings if it is taken: nil for none.
	held, free []int32
	far        []int32
	// slice is the members of a slice, 1 for no slices; slices is their number and sliceAt the layer of their level.
	slice, slices, sliceAt int
	scale
	// heldTo and freeTo are sums over the slots before each slot; wholeTo is that of whole slices, added where the domain
	// of the slices' level begins.
	heldTo, freeTo, wholeTo []int64

	steps  []step
	rows   [maxLayers]row
	items  []item
	merges []merge
}

// step is one step of a staircase: m members, the most that can be had for the cost.
type step struct {
	m    int
	cost cost
}

// item is a part that is a single node.
type item struct {
	m, slot int
	cost    cost
}

// row is the least cost of each number of members in the parts that were added.
type row struct {
	cost, before []cost
	// reach is the largest number of members that the parts hold, left what the parts hold that are still to come. If
	// only the last number is asked for, smaller ones than that less left are not computed.
	reach, left int
	lastOnly    bool
}

// merge is one part that was added to a row, for going back through it: chosen is for each number of members 0 where the
// part is not used, else 1 + the index of its step.
type merge struct {
	// child is the part, a domain of the next narrower layer, or -1 for a bundle of items from item on.
	child, item int
	steps       []step
	chosen      []int32
}

// load sums up held and free.
func (z *knapsack) load() {
	n := len(z.held)
	z.heldTo = append(z.heldTo[:0], make([]int64, n+1)...)
	z.freeTo = append(z.freeTo[:0], make([]int64, n+1)...)
	z.wholeTo = append(z.wholeTo[:0], make([]int64, n+1)...)
	for s := range n {
		z.heldTo[s+1] = z.heldTo[s] + int64(z.held[s])
		z.freeTo[s+1] = z.freeTo[s] + int64(z.free[s])
	}
	if z.slice == 1 {
		return
	}
	y := &z.tree.layers[z.sliceAt]
	for d := range y.domains() {
		first, end := y.span(d)
		z.wholeTo[first+1] = (z.heldTo[end] - z.heldTo[first]) / int64(z.slice) * int64(z.slice)
	}
	for s := range n {
		z.wholeTo[s+1] += z.wholeTo[s]
	}
}

// capacity returns how many members a domain holds; above the slices' level, in whole slices.
func (z *knapsack) capacity(k, d int) int {
	first, end := z.tree.layers[k].span(d)
	if z.slice > 1 && k > z.sliceAt {
		return int(z.wholeTo[end] - z.wholeTo[first])
	}
	return int(z.heldTo[end] - z.heldTo[first])
}

// room returns the members for which room is needed in one domain of layer k: above the slices' level, whole slices, at
// most as many as can be counted, which no domain holds.
func (z *knapsack) room(k, want int) int {
	if z.slice > 1 && k > z.sliceAt {
		if z.slices > math.MaxInt/z.slice {
			return math.MaxInt
		}
		return z.slices * z.slice
	}
	return want
}

// own returns what it costs to use a domain, without its parts.
func (z *knapsack) own(k, d int) cost {
	c, y := cost(0), &z.tree.layers[k]
	if !y.used[d] {
		first, end := y.span(d)
		c = z.domains[k] + z.scale.free[k]*cost(z.freeTo[end]-z.freeTo[first])
	}
	if k == 0 && z.far != nil {
		c += z.crossing * cost(z.far[d])
	}
	return c
}

// chain returns what it costs to use a domain of layer k that is the one slot, parts included.
func (z *knapsack) chain(k, s int) cost {
	c := cost(0)
	for j := range k + 1 {
		c += z.own(j, int(z.tree.layers[j].of[s]))
	}
	return c
}

// least returns f(d, want) for a domain d of layer k; never if it does not hold so many.
func (z *knapsack) least(k, d, want int) cost {
	want = z.room(k, want)
	if z.capacity(k, d) < want {
		return never
	}
	if first, end := z.tree.layers[k].span(d); end-first == 1 {
		return z.chain(k, first)
	}
	z.steps = z.steps[:0]
	z.fill(k, d, want, true, false)
	return z.rows[k].cost[want] + z.own(k, d)
}

// staircase appends the steps of f(d, m), m from 1 to limit.
func (z *knapsack) staircase(k, d, limit int) {
	limit = min(limit, z.capacityPlain(k, d))
	z.fill(k, d, limit, false, false)
	costs, own := z.rows[k].cost, z.own(k, d)
	for m := 1; m <= limit && costs[m] < never; m++ {
		if m == limit || costs[m] < costs[m+1] {
			z.steps = append(z.steps, step{m, costs[m] + own})
		}
	}
}

func (z *knapsack) capacityPlain(k, d int) int {
	first, end := z.tree.layers[k].span(d)
	return int(z.heldTo[end] - z.heldTo[first])
}

// fill computes what the parts of a domain cost for each number of members to limit, or only for the last.
func (z *knapsack) fill(k, d, limit int, lastOnly, record bool) {
	r := &z.rows[k]
	r.start(limit, z.capacityPlain(k, d), lastOnly)
	z.addItems(r, z.singles(k, d), record)
	from, to := z.tree.inside(k, d, k-1)
	for child := from; child < to; child++ {
		if first, end := z.tree.layers[k-1].span(child); end-first == 1 {
			continue
		}
		begin := len(z.steps)
		z.staircase(k-1, child, limit)
		if z.slice > 1 && k-1 == z.sliceAt {
			z.roundSteps(begin)
		}
		if steps := z.steps[begin:]; len(steps) > 0 {
			chosen := r.add(steps, record)
			if record {
				z.merges = append(z.merges, merge{child: child, steps: slices.Clone(steps), chosen: chosen})
			}
		}
		z.steps = z.steps[:begin]
	}
}

// roundSteps leaves a step for each number of whole slices.
func (z *knapsack) roundSteps(begin int) {
	out := begin
	for _, s := range z.steps[begin:] {
		m := s.m / z.slice * z.slice
		if m > 0 && (out == begin || m > z.steps[out-1].m) {
			z.steps[out] = step{m, s.cost}
			out++
		}
	}
	z.steps = z.steps[:out]
}

// singles returns the parts of a domain that are single nodes.
func (z *knapsack) singles(k, d int) []item {
	z.items = z.items[:0]
	from, to := z.tree.inside(k, d, k-1)
	for child := from; child < to; child++ {
		s, end := z.tree.layers[k-1].span(child)
		m := int(z.held[s])
		if z.slice > 1 && k-1 >= z.sliceAt {
			m -= m % z.slice
		}
		if end-s == 1 && m > 0 {
			z.items = append(z.items, item{m, s, z.chain(k-1, s)})
		}
	}
	return sortItems(z.items)
}

// sortItems puts items that are alike next to each other, those that hold the fewest first, and returns them.
func sortItems(items []item) []item {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.m, b.m), cmp.Compare(a.cost, b.cost), cmp.Compare(a.slot, b.slot))
	})
	return items
}

// addItems adds sorted items to a row.
func (z *knapsack) addItems(r *row, items []item, record bool) {
	for i := 0; i < len(items); {
		end, m := i+1, items[i].m
		for end < len(items) && items[end].m == m && items[end].cost == items[i].cost {
			end++
		}
		limit := len(r.cost) - 1
		left := min(end-i, (limit+m-1)/m)
		for bundle := 1; left > 0; bundle *= 2 {
			n := min(bundle, left)
			left -= n
			steps := [1]step{{n * m, items[i].cost * cost(n)}}
			chosen := r.add(steps[:], record)
			if record {
				z.merges = append(z.merges, merge{child: -1, item: i, steps: []step{steps[0]}, chosen: chosen})
			}
		}
		i = end
	}
}

// start makes a row without parts, for numbers of members to limit; the parts will hold so many.
func (r *row) start(limit, hold int, lastOnly bool) {
	if cap(r.cost) <= limit {
		r.cost, r.before = make([]cost, limit+1), make([]cost, limit+1)
	}
	r.cost, r.before = r.cost[:limit+1], r.before[:limit+1]
	r.cost[0] = 0
	for m := 1; m <= limit; m++ {
		r.cost[m] = never
	}
	r.reach, r.left, r.lastOnly = 0, hold, lastOnly
}

// add adds a part to a row: each number of members is had with or without it, in the cheaper way. With record it returns
// which of the steps each number takes.
func (r *row) add(steps []step, record bool) (chosen []int32) {
	limit := len(r.cost) - 1
	most := steps[len(steps)-1].m
	r.left -= most
	r.reach = min(limit, r.reach+most)
	low := 1
	if r.lastOnly {
		low = max(low, limit-r.left)
	}
	if low > r.reach {
		low = r.reach
	}
	copy(r.before, r.cost[:r.reach+1])
	if record {
		chosen = make([]int32, r.reach+1)
	}
	for i, s := range steps {
		alone := min(s.m, r.reach)
		for m := alone; m >= low && s.cost < r.cost[m]; m-- {
			r.cost[m] = s.cost
			if record {
				chosen[m] = int32(i + 1)
			}
		}
		if first := max(low, s.m+1); first <= r.reach {
			from, to := r.before[first-s.m:r.reach+1-s.m], r.cost[first:r.reach+1]
			if record {
				relaxRecord(from, to, chosen[first:], s.cost, int32(i+1))
			} else {
				relax(from, to, s.cost)
			}
		}
	}
	return chosen
}

// relax lowers to[i] to from[i] + add.
func relax(from, to []cost, add cost) {
	to = to[:len(from)]
	for i, c := range from {
		if c += add; c < to[i] {
			to[i] = c
		}
	}
}

// relaxRecord does too, and notes where.
func relaxRecord(from, to []cost, chosen []int32, add cost, step int32) {
	to, chosen = to[:len(from)], chosen[:len(from)]
	for i, c := range from {
		if c += add; c < to[i] {
			to[i], chosen[i] = c, step
		}
	}
}
