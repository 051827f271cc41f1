package placement

import (
	"cmp"
	"slices"
)

// task is a number of members that go into domain d of layer k.
type task struct{ k, d, m int }

// deal returns the slots, as parts, of want members in domain d of layer k, which must hold them, at the least cost.
// groups are the sizes of the slices in rank order where slices are wanted: a domain of their level gets those that follow
// each other.
//
// First the narrowest domains above the nodes are found, then of all nodes in them those that leave the least free.
func (z *knapsack) deal(k, d, want int, groups []int) []part {
	tasks := []task{{k, d, z.room(k, want)}}
	var whole, narrow []task
	for len(tasks) > 0 {
		t := tasks[len(tasks)-1]
		tasks = tasks[:len(tasks)-1]
		sliced := z.slice > 1 && t.k > z.sliceAt
		if first, end := z.tree.layers[t.k].span(t.d); end-first == 1 || t.k < 2 && !sliced {
			narrow = append(narrow, t)
			continue
		}
		for _, sub := range z.parts(t) {
			first, end := z.tree.layers[sub.k].span(sub.d)
			if sliced && (sub.k == z.sliceAt || end-first == 1) {
				whole = append(whole, sub)
			} else {
				tasks = append(tasks, sub)
			}
		}
	}
	if len(whole) == 0 {
		return z.nodesOf(k, d, narrow)
	}
	var out []part
	for _, t := range z.fillSlices(whole, groups) {
		out = append(out, z.deal(t.k, t.d, t.m, nil)...)
	}
	return out
}

// fillSlices turns room for whole slices into the members that the slices have.
func (z *knapsack) fillSlices(whole []task, groups []int) []task {
	start := func(t task) int32 { return z.tree.layers[t.k].first[t.d] }
	slices.SortFunc(whole, func(a, b task) int { return cmp.Compare(start(a), start(b)) })
	for i := range whole {
		n := whole[i].m / z.slice
		whole[i].m = total(groups[:n])
		groups = groups[n:]
		if first, end := z.tree.layers[whole[i].k].span(whole[i].d); end-first == 1 {
			whole[i].k, whole[i].d = 0, first
		}
	}
	return whole
}

// parts says which parts of a domain take how many of the members.
func (z *knapsack) parts(t task) []task {
	z.steps, z.merges = z.steps[:0], z.merges[:0]
	z.fill(t.k, t.d, t.m, true, true)
	items := slices.Clone(z.singles(t.k, t.d))
	var out []task
	z.back(t.m, func(g *merge, m int) {
		if g.child >= 0 {
			out = append(out, task{t.k - 1, g.child, m})
			return
		}
		for ; m > 0; g.item++ {
			it := items[g.item]
			out = append(out, task{t.k - 1, int(z.tree.layers[t.k-1].of[it.slot]), min(m, it.m)})
			m -= it.m
		}
	})
	return out
}

// back goes back through the merges and tells which part takes how many members, bundles of the same items together.
func (z *knapsack) back(left int, yield func(g *merge, m int)) {
	for i := len(z.merges) - 1; i >= 0; {
		g := &z.merges[i]
		sum := 0
		// The bundles of one kind of item follow each other.
		for ; i >= 0 && (sum == 0 || g.child < 0) && z.merges[i].child == g.child && z.merges[i].item == g.item; i-- {
			h := &z.merges[i]
			if left > 0 && left < len(h.chosen) && h.chosen[left] > 0 {
				m := min(left, h.steps[h.chosen[left]-1].m)
				left, sum = left-m, sum+m
			}
		}
		if sum > 0 {
			yield(g, sum)
		}
	}
}

// nodesOf chooses the nodes for members that go into the given domains, the narrowest above the nodes, of domain d of layer
// k: the fewest, then those whose members cross the fewest boundaries, then those that leave the least free. Nodes in
// domains that are used anyway are as good.
func (z *knapsack) nodesOf(k, d int, narrow []task) []part {
	first, end := z.tree.layers[k].span(d)
	open := make([]bool, end-first)
	want := 0
	for _, t := range narrow {
		want += t.m
		from, to := z.tree.layers[t.k].span(t.d)
		for s := from; s < to; s++ {
			open[s-first] = true
		}
	}
	f, above := z.nodeScale(want, end-first), z.tree.layers[min(1, k)]
	z.items = z.items[:0]
	hold := 0
	for s := first; s < end; s++ {
		if z.held[s] == 0 || !open[s-first] && !above.used[above.of[s]] {
			continue
		}
		c := f.free[0] * cost(z.free[s])
		if !z.tree.layers[0].used[s] {
			c += f.domains[0]
		}
		if z.far != nil {
			c += f.crossing * cost(z.far[s])
		}
		z.items = append(z.items, item{int(z.held[s]), s, c})
		hold += int(z.held[s])
	}
	sortItems(z.items)
	z.merges = z.merges[:0]
	r := &z.rows[0]
	r.start(want, hold, true)
	z.addItems(r, z.items, true)
	var out []part
	z.back(want, func(g *merge, m int) {
		for ; m > 0; g.item++ {
			it := z.items[g.item]
			out = append(out, part{node: it.slot, count: min(m, it.m)})
			m -= it.m
		}
	})
	return out
}

// nodeScale lays out the costs of nodes for want members.
func (z *knapsack) nodeScale(want, nodes int) scale {
	f := scale{}
	f.domains[0], _ = f.field(min(want, nodes))
	if z.far != nil {
		f.crossing, _ = f.field(2 * maxLayers * min(want, nodes))
	}
	f.free[0], _ = f.field(int(z.freeTo[len(z.held)]))
	return f
}
