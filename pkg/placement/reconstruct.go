package placement

import (
	"cmp"
	"slices"
)

// task is a number of members that go into domain d of layer k.
type task struct{ k, d, m int }

// deal appends to out the slots, as parts, of want members in domain d of layer k at the least cost, which must hold
// them. groups are the sizes of the slices in rank order where slices are wanted: a domain of their level gets those that
// follow each other.
func (z *knapsack) deal(k, d, want int, groups []int, out []part) []part {
	tasks := []task{{k, d, z.room(k, want)}}
	var whole []task
	for len(tasks) > 0 {
		t := tasks[len(tasks)-1]
		tasks = tasks[:len(tasks)-1]
		for _, sub := range z.parts(t) {
			switch first, end := z.tree.layers[sub.k].span(sub.d); {
			case z.slice > 1 && t.k > z.sliceAt && (sub.k == z.sliceAt || end-first == 1):
				whole = append(whole, sub)
			case end-first == 1:
				out = append(out, part{node: first, count: sub.m})
			default:
				tasks = append(tasks, sub)
			}
		}
		if len(tasks) == 0 {
			tasks, whole = z.fillSlices(whole, groups), nil
		}
	}
	slices.SortFunc(out, func(a, b part) int { return cmp.Compare(a.node, b.node) })
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
	first, end := z.tree.layers[t.k].span(t.d)
	if end-first == 1 {
		return []task{{0, first, t.m}}
	}
	z.steps, z.merges = z.steps[:0], z.merges[:0]
	z.row(t.k, t.d, t.m, true)
	var out []task
	bundles := map[int]int{}
	left := t.m
	for i := len(z.merges) - 1; i >= 0; i-- {
		g := &z.merges[i]
		if left >= len(g.chosen) || g.chosen[left] == 0 {
			continue
		}
		m := min(left, int(g.steps[g.chosen[left]-1].m))
		left -= m
		if g.child >= 0 {
			out = append(out, task{t.k - 1, g.child, m})
		} else {
			bundles[g.item] += m
		}
	}
	return z.unbundle(t.k, bundles, out)
}

// unbundle deals the members of each kind of node to the first nodes of that kind.
func (z *knapsack) unbundle(k int, bundles map[int]int, out []task) []task {
	list := z.items[k]
	for i := range list {
		for at, m := i, bundles[i]; m > 0; at++ {
			n := min(m, int(list[at].m))
			s := int(list[at].slot)
			out = append(out, task{k - 1, int(z.tree.layers[k-1].of[s]), n})
			m -= n
		}
	}
	return out
}
