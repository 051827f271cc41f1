package placement

import (
	"slices"
)

// best returns the domain of layer k, from one to before another, that holds want members at the least cost, and that
// cost: with the wider domains around it up to the root's layer, which is root. -1 if none holds them. A domain that costs
// more already by what is known without looking into it is not looked into.
func (z *knapsack) best(k, from, to, want, root int) (int, cost) {
	at, least := -1, never
	for d := from; d < to; d++ {
		if z.capacity(k, d) < z.room(k, want) {
			continue
		}
		around := cost(0)
		for outer := k + 1; outer < root; outer++ {
			around += z.own(outer, int(z.tree.layers[outer].of[z.tree.layers[k].first[d]]))
		}
		if at >= 0 && k > 0 && around+z.floor(k, d, want) >= least {
			continue
		}
		c := z.least(k, d, want) + around
		if c < least || c == least && k == 0 && c < never && z.free[d] < z.free[at] {
			at, least = d, c
		}
	}
	return at, least
}

// floor returns what want members in domain d of layer k cost at least: its own cost, and of each narrower layer as many
// domains as would do if each held as much as the largest.
func (z *knapsack) floor(k, d, want int) cost {
	c := z.own(k, d)
	for j := range k {
		rest, largest := want, 1
		from, to := z.tree.inside(k, d, j)
		for part := from; part < to; part++ {
			if n := z.capacityPlain(j, part); z.tree.layers[j].used[part] {
				rest -= n
			} else {
				largest = max(largest, n)
			}
		}
		c += z.domains[j] * cost((max(0, rest)+largest-1)/largest)
	}
	return c
}

// holds returns the first of the domains that holds want members, -1 if none does.
func (z *knapsack) holds(k, from, to, want int) int {
	for d := from; d < to; d++ {
		if z.capacity(k, d) >= z.room(k, want) {
			return d
		}
	}
	return -1
}

// settle chooses one of the domains of layer k, from one to before another, for want members of the class: the one that
// costs the least, with the fastest ring for its numbers of domains. It leaves in the knapsack the members that each node
// holds at that speed. -1 if none holds them.
//
// A ring is as fast as its slowest part. So the fastest one is found by asking, for one rate after the other, whether the
// numbers of domains stay the same if only nodes are used that are as fast.
func (p *Planner) settle(c *class, k, from, to, want, root int) int {
	z := &p.knap
	if c.way == noCards {
		d, _ := z.best(k, from, to, want, root)
		return d
	}
	if from = z.holds(k, from, to, want); from < 0 {
		return -1
	}
	p.learn(c, root)
	values := p.speeds.values()
	if len(values) == 1 && z.holds(k, from+1, to, want) < 0 {
		return from // the only one, whatever it costs
	}
	d, least := z.best(k, from, to, want, root)
	held := slices.Clone(z.held)
	low, high := 0, len(values)-1
	for low < high {
		middle := (low + high + 1) / 2
		z.held = p.speeds.atLeast(values[middle], held, z.held)
		z.load()
		at, cost := z.best(k, from, to, want, root)
		if at >= 0 && cost&z.counts == least&z.counts {
			low, d = middle, at
		} else {
			high = middle - 1
		}
	}
	if len(values) > 1 {
		z.held = p.speeds.atLeast(values[low], held, z.held)
		z.load()
	}
	return d
}

// prepare fills the knapsack for members of the class, which are in rank order, in domains of layer root, or in the one
// given: held says how many a node holds.
func (p *Planner) prepare(c *class, root, domain int, members []int, held func(node int) int) {
	z, t, want := &p.knap, &p.tree, max(1, len(members))
	z.tree, z.far = t, p.far(members)
	z.held = append(z.held[:0], make([]int32, len(t.slots))...)
	z.free = append(z.free[:0], make([]int32, len(t.slots))...)
	first, end := 0, len(t.slots)
	if domain >= 0 {
		first, end = t.layers[root].span(domain)
	}
	for s := first; s < end; s++ {
		i := int(t.slots[s].node)
		if i < 0 {
			continue
		}
		z.held[s] = int32(min(want, held(i)))
		if z.free[s] = p.facts.nodes[i].free; c.way == noCards || c.way == oneShare {
			z.free[s] = z.held[s]
		}
	}
	z.slice, z.sliceAt = 1, 0
	if y := p.problem.Slice; y.Size > 1 && c.way != noCards {
		z.slice, z.sliceAt, z.slices = y.Size, t.layerOf[y.Level], len(p.groups(members))
	}
	z.load()
	p.scaleTo(root, want)
}

// scaleTo lays out the costs of want members in one domain of layer root.
func (p *Planner) scaleTo(root, want int) {
	z, domains := &p.knap, [maxLayers]int{}
	for k := range p.tree.layers {
		domains[k] = p.tree.layers[k].domains()
	}
	room, crossings := z.room(root, want), 0
	if z.far != nil {
		crossings = 2 * len(p.tree.layers) * min(room, len(z.held))
	}
	z.scale = newScale(root, room, domains, crossings, int(z.freeTo[len(z.held)]))
}

// limitOf returns the widest layer of which the gang may use one domain.
func (p *Planner) limitOf() int {
	k := len(p.tree.layers) - 1
	if p.problem.HasRequired {
		k = min(k, p.tree.layerOf[p.problem.Required])
	}
	if l := p.problem.Ceiling; p.problem.HasCeiling && p.problem.Fabric.Known(l) {
		k = min(k, p.tree.layerOf[l])
	}
	return k
}

// limitOfClass returns the widest layer of which members of the class may use one domain.
func (p *Planner) limitOfClass(c *class) int {
	k := len(p.tree.layers) - 1
	if r := &p.problem.Roles[c.role]; r.HasRequired {
		k = min(k, p.tree.layerOf[r.Required])
	}
	return k
}
