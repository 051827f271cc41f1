package placement

import (
	"cmp"
	"math"
	"slices"
)

// arrangeable reports whether arrangements of at most so many members of each class may be looked through node by node.
func (p *Planner) arrangeable(limits []int) bool {
	if !p.rooms.numbers || p.budget < stateSteps {
		return false
	}
	classes, nodes := 0, 0
	for _, n := range limits {
		if n > 0 {
			classes++
		}
		if n > math.MaxUint16 {
			return false
		}
	}
	if classes == 0 || classes > arrangerClasses {
		return false
	}
	for _, i := range p.domain {
		if p.holdsAny(i, limits) {
			nodes++
		}
		if nodes > arrangerNodes {
			return false
		}
	}
	return nodes > 0
}

// holdsAny reports whether the node holds a member of the classes that are wanted.
func (p *Planner) holdsAny(i int, limits []int) bool {
	for k, n := range limits {
		if n > 0 && p.count[k][i] > 0 {
			return true
		}
	}
	return false
}

// wholeSlices reports whether the first members, so many of each class, make up slices of full size only, where slices
// have to keep to domains narrower than the one at hand.
func (p *Planner) wholeSlices(want []int) bool {
	for k, n := range want {
		if n == 0 || !p.cut(&p.class[k]) {
			continue
		}
		groups := p.groups(p.firstOf(&p.class[k], n))
		if slices.ContainsFunc(groups, func(size int) bool { return size != p.problem.Slice.Size }) {
			return false
		}
	}
	return true
}

// newArranger prepares the arranger for the domain at hand and at most so many members of each class.
func (p *Planner) newArranger(limits []int) *arranger {
	a := &p.arranger
	if a.seen == nil {
		a.seen = map[arrangeState]cost{}
	}
	a.layers, a.most, a.steps = max(1, p.root), 0, min(arrangerSteps, p.budget/stateSteps)
	if p.problem.Fabric == nil {
		a.layers = 1
	}
	a.all = 1<<a.layers - 1
	a.classes = a.classes[:0]
	var most headcount
	for _, k := range p.order {
		if limits[k] > 0 {
			most[len(a.classes)] = uint16(limits[k])
			a.classes = append(a.classes, arrangeClass{class: k, cards: p.class[k].cards, needs: p.class[k].needs})
		}
	}
	p.arrangeNodes(limits)
	a.setBounds(&most, func(k, i int) int { return int(p.count[a.classes[k].class][a.nodes[i].node]) })
	f := scale{}
	for l := range a.layers {
		a.unit[l], _ = f.field(int(a.nodes[len(a.nodes)-1].domain[l]) + 1)
	}
	return a
}

// arrangeNodes lists the nodes of the domain at hand that hold members, by their domains, the ones in one state together.
func (p *Planner) arrangeNodes(limits []int) {
	type item struct{ node, above, free, group, slot int }
	var items []item
	groups := map[string]int{}
	var key []byte
	for _, i := range p.domain {
		if !p.holdsAny(i, limits) {
			continue
		}
		it := item{node: i, slot: i}
		if p.problem.Fabric != nil {
			it.slot = int(p.tree.slotOf[i])
			if p.root > 1 {
				it.above = int(p.tree.layers[1].of[it.slot])
			}
		}
		if v := p.problem.Nodes[i].View; v != nil {
			it.free = v.Free.Len()
		}
		key = p.stateKey(key[:0], i)
		g, ok := groups[string(key)]
		if !ok {
			g = len(groups)
			groups[string(key)] = g
		}
		it.group = g
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(b.free, a.free), cmp.Compare(a.group, b.group), p.compareNodes(a.node, b.node))
	})
	a := &p.arranger
	a.nodes = a.nodes[:0]
	for at, it := range items {
		a.nodes = append(a.nodes, p.arrangeNode(it.node))
		n := &a.nodes[at]
		n.cards = it.free
		if at > 0 {
			p.joinDomains(&a.nodes[at-1], n)
		}
	}
	next := len(items)
	for at := len(items) - 1; at >= 0; at-- {
		n := &a.nodes[at]
		if at+1 < len(items) && items[at+1].group != items[at].group {
			next = at + 1
		}
		n.next = next
		for l := range a.layers {
			n.end[l] = int32(at + 1)
			if at+1 < len(items) && a.nodes[at+1].keep>>l&1 == 1 {
				n.end[l] = a.nodes[at+1].end[l]
			}
		}
	}
}

// arrangeNode describes a node without regard to others.
func (p *Planner) arrangeNode(i int) arrangeNode {
	out := arrangeNode{node: i, amounts: slices.Clone(p.problem.Nodes[i].Free)}
	for k := range p.arranger.classes {
		if c := p.arranger.classes[k].class; p.count[c][i] > 0 && p.besideRunning(&p.class[c], i) {
			out.admits |= 1 << k
		}
	}
	if p.problem.Fabric == nil {
		if p.isNear(i) {
			out.near = 1
		}
		return out
	}
	for l := range p.arranger.layers {
		if y := &p.tree.layers[l]; y.near[y.of[p.tree.slotOf[i]]] {
			out.near |= 1 << l
		}
	}
	return out
}

// besideRunning reports whether the node is in the domain to which the running members of a class limit it.
func (p *Planner) besideRunning(c *class, i int) bool {
	if len(p.problem.Placed) == 0 || !p.narrow(c) {
		return true
	}
	limit := p.limitOfClass(c)
	from, to := p.inClass(c, limit)
	d := int(p.tree.layers[limit].of[p.tree.slotOf[i]])
	return d >= from && d < to
}

// narrow reports whether the class is limited to one domain narrower than the one at hand, cut whether its slices are.
func (p *Planner) narrow(c *class) bool { return p.problem.Fabric != nil && p.limitOfClass(c) < p.root }

func (p *Planner) cut(c *class) bool {
	return p.problem.Fabric != nil && p.sliced(c) && p.tree.layerOf[p.problem.Slice.Level] < p.root
}

// joinDomains numbers the domains of a node that follows another.
func (p *Planner) joinDomains(before, n *arrangeNode) {
	for l := range p.arranger.layers {
		n.domain[l] = before.domain[l] + 1
		if l == 0 {
			continue
		}
		if y := &p.tree.layers[l]; y.of[p.tree.slotOf[n.node]] == y.of[p.tree.slotOf[before.node]] {
			n.keep |= 1 << l
			n.domain[l]--
		}
	}
}

// arrange looks for an arrangement of the wanted members that costs less than the limit. It returns nil if there is none,
// or none is found; complete is true in the first case.
func (p *Planner) arrange(a *arranger, want []int, limit cost, floor *[maxLayers]int) (l *layout, complete bool) {
	var left headcount
	for k := range a.classes {
		c := &a.classes[k]
		n := want[c.class]
		left[k] = uint16(n)
		c.rules = p.rules(&p.class[c.class], n, c.rules[:0])
	}
	before := a.steps
	complete = a.run(left, limit, a.costOf(floor))
	p.budget -= stateSteps * (before - max(0, a.steps))
	if a.best == nil {
		return nil, complete
	}
	l = &layout{parts: make([][]part, len(want)), sums: slices.Clone(want), order: p.order}
	for i := range a.best {
		for k := range a.classes {
			if n, class := a.best[i][k], a.classes[k].class; n > 0 {
				l.parts[class] = append(l.parts[class], part{node: a.nodes[i].node, count: int(n)})
			}
		}
	}
	return l, complete
}

// arrangeAny looks for an arrangement of any selection of members within the limits.
func (p *Planner) arrangeAny(limits []int) (*layout, int) {
	a := p.newArranger(limits)
	for _, want := range p.selections(limits) {
		if !p.wholeSlices(want) {
			continue
		}
		floor := p.floor(want)
		if l, complete := p.arrange(a, want, never, &floor); l != nil || !complete {
			return l, a.most
		}
	}
	return nil, a.most
}

// rules are what so many members of a class have to keep inside the domain at hand.
func (p *Planner) rules(c *class, n int, out []arrangeRule) []arrangeRule {
	if n > 0 && p.narrow(c) {
		out = append(out, arrangeRule{p.limitOfClass(c), n})
	}
	if p.cut(c) {
		out = append(out, arrangeRule{p.tree.layerOf[p.problem.Slice.Level], p.problem.Slice.Size})
	}
	return out
}

// costOf packs numbers of domains into one.
func (a *arranger) costOf(counts *[maxLayers]int) cost {
	sum := cost(0)
	for l := range a.layers {
		sum += a.unit[l] * cost(counts[l])
	}
	return sum
}
