package placement

import (
	"cmp"
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
	rows   [maxLayers][]cost
	items  [maxLayers][]item
	merges []merge
}

// step is one step of a staircase: m members, the most that can be had for the cost.
type step struct {
	m    int32
	cost cost
}

// item is a part that is a single node.
type item struct {
	m, slot int32
	cost    cost
}

// merge is one part that was added to a row, for going back through it: chosen is for each number of members 0 where the
// part is not used, else 1 + the index of its step.
type merge struct {
	// child is the part, a domain of the next narrower layer, or -1 for bundle items from item on.
	child, item, bundle int
	steps               []step
	chosen              []int32
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

// room returns the members for which room is needed in one domain of layer k: above the slices' level, whole
// slices.
func (z *knapsack) room(k, want int) int {
	if z.slice > 1 && k > z.sliceAt {
		return z.slices * z.slice
	}
	return want
}

// own returns what it costs to use a domain, without its parts.
func (z *knapsack) own(k, d int) cost {
	y := &z.tree.layers[k]
	c := cost{}
	if !y.used[d] {
		c = z.domains[k]
	}
	if k == 0 || !y.used[d] {
		first, end := y.span(d)
		c = c.plus(z.scale.free[k].times(int(z.freeTo[end] - z.freeTo[first])))
	}
	if k == 0 && z.far != nil {
		c = c.plus(z.crossing.times(int(z.far[d])))
	}
	return c
}

// least returns f(d, want) for a domain d of layer k; never if it does not hold so many.
func (z *knapsack) least(k, d, want int) cost {
	want = z.room(k, want)
	if z.capacity(k, d) < want {
		return never
	}
	z.steps = z.steps[:0]
	z.staircase(k, d, want, false)
	return z.steps[len(z.steps)-1].cost
}

// staircase appends the steps of f(d, m), m to limit, and returns where they begin. The first is that of one member or
// more: none cost nothing.
func (z *knapsack) staircase(k, d, limit int, record bool) int {
	begin := len(z.steps)
	first, end := z.tree.layers[k].span(d)
	limit = min(limit, int(z.heldTo[end]-z.heldTo[first]))
	if limit == 0 {
		return begin
	}
	if end-first == 1 {
		z.steps = append(z.steps, step{int32(limit), z.chain(k, first)})
		return begin
	}
	z.row(k, d, limit, record)
	row, own := z.rows[k], z.own(k, d)
	for m := 1; m <= limit && row[m].less(never); m++ {
		if m == limit || row[m].less(row[m+1]) {
			z.steps = append(z.steps, step{int32(m), row[m].plus(own)})
		}
	}
	return begin
}

// chain returns what it costs to use a domain of layer k that is the one slot, parts included.
func (z *knapsack) chain(k, s int) cost {
	c := cost{}
	for j := range k + 1 {
		c = c.plus(z.own(j, int(z.tree.layers[j].of[s])))
	}
	return c
}

// row computes what the parts of a domain cost for each number of members to limit.
func (z *knapsack) row(k, d, limit int, record bool) {
	row := append(z.rows[k][:0], make([]cost, limit+1)...)
	for m := 1; m <= limit; m++ {
		row[m] = never
	}
	z.rows[k] = row
	reach := z.addItems(k, d, record)
	from, to := z.tree.inside(k, d, k-1)
	for child := from; child < to; child++ {
		if first, end := z.tree.layers[k-1].span(child); end-first == 1 {
			continue
		}
		begin := z.staircase(k-1, child, limit, false)
		if z.slice > 1 && k-1 == z.sliceAt {
			z.roundSteps(begin)
		}
		steps := z.steps[begin:]
		if len(steps) > 0 {
			reach = min(limit, reach+int(steps[len(steps)-1].m))
			z.add(row[:reach+1], steps, merge{child: child}, record)
		}
		z.steps = z.steps[:begin]
	}
}

// roundSteps leaves a step for each number of whole slices.
func (z *knapsack) roundSteps(begin int) {
	steps := z.steps[begin:]
	out := begin
	for i := range steps {
		m := int(steps[i].m) / z.slice * z.slice
		if m > 0 && (out == begin || m > int(z.steps[out-1].m)) {
			z.steps[out] = step{int32(m), steps[i].cost}
			out++
		}
	}
	z.steps = z.steps[:out]
}

// addItems adds the parts that are single nodes to the row and returns how far it reaches.
func (z *knapsack) addItems(k, d int, record bool) (reach int) {
	row, list := z.rows[k], z.items[k][:0]
	from, to := z.tree.inside(k, d, k-1)
	for child := from; child < to; child++ {
		s, end := z.tree.layers[k-1].span(child)
		m := int(z.held[s])
		if z.slice > 1 && k-1 >= z.sliceAt {
			m -= m % z.slice
		}
		if end-s == 1 && m > 0 {
			list = append(list, item{int32(m), int32(s), z.chain(k-1, s)})
		}
	}
	slices.SortFunc(list, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.m, b.m), a.cost.compare(b.cost), cmp.Compare(a.slot, b.slot))
	})
	z.items[k] = list
	limit := len(row) - 1
	for i := 0; i < len(list); {
		end := i + 1
		for end < len(list) && list[end].m == list[i].m && list[end].cost == list[i].cost {
			end++
		}
		m := int(list[i].m)
		left := min(end-i, (limit+m-1)/m)
		for bundle := 1; left > 0; bundle *= 2 {
			n := min(bundle, left)
			left -= n
			reach = min(limit, reach+n*m)
			steps := [1]step{{int32(n * m), list[i].cost.times(n)}}
			z.add(row[:reach+1], steps[:], merge{child: -1, item: i, bundle: n}, record)
		}
		i = end
	}
	return reach
}

// add adds a part to a row: each number of members is had with or without it, in the cheaper way.
func (z *knapsack) add(row []cost, steps []step, part merge, record bool) {
	if record {
		part.chosen = make([]int32, len(row))
		part.steps = slices.Clone(steps)
		z.merges = append(z.merges, part)
	}
	for m := len(row) - 1; m > 0; m-- {
		best, at := row[m], int32(0)
		for i := range steps {
			c := steps[i].cost
			if !c.less(best) {
				break // later steps cost more
			}
			rest := m - int(steps[i].m)
			if rest > 0 {
				c = c.plus(row[rest])
			}
			if c.less(best) {
				best, at = c, int32(i+1)
			}
			if rest <= 0 {
				break
			}
		}
		if at > 0 {
			row[m] = best
			if record {
				part.chosen[m] = at
			}
		}
	}
}
