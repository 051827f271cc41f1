package placement

import (
	"cmp"
	"slices"
)

const (
	// domainTries is the largest number of domains of one level in which a gang of several classes is tried.
	domainTries = 24
	// domainFits is the number of domains of one level that hold such a gang among which the best is chosen.
	domainFits = 8
)

// planMany plans a gang of several classes on the fabric: in one domain of the narrowest level in which a place for it is
// found.
func (p *Planner) planMany() (*Plan, *Rejection, error) {
	if gap := p.split(); gap != nil {
		return nil, gap, nil
	}
	limit := p.limitOf()
	var nearest *attempt
	for k := 0; k <= limit; k++ {
		best, near, err := p.tryLayer(k, k == limit)
		if err != nil {
			return nil, nil, err
		}
		if best != nil {
			if best, err = p.faster(k, best); err != nil {
				return nil, nil, err
			}
			plan, err := p.assign(best)
			if err != nil || plan != nil {
				return plan, nil, err
			}
			near = &attempt{domain: near.domain, placeable: p.problem.Need - 1, layer: k}
			p.blame(near, p.alone())
		}
		if near != nil {
			nearest = near
		}
	}
	if nearest == nil {
		nearest = &attempt{wants: p.selection(p.members()), apart: len(p.tree.slots) > 0, layer: limit}
	}
	return nil, p.reject(nearest), nil
}

// tryLayer tries the domains of one layer that may hold the gang, those with the least free first. It returns the best
// layout, or if there is none how near the gang came to fit; nil for both where no domain has enough by number. With last
// the one that has the most is tried then.
func (p *Planner) tryLayer(k int, last bool) (*layout, *attempt, error) {
	var best *layout
	var near *attempt
	fits := 0
	p.budget = 2 * searchSteps
	for n, d := range p.promising(k, last) {
		if n == domainTries || fits == domainFits {
			break
		}
		p.enter(k, d)
		try, err := p.tryMixed()
		if err != nil {
			return nil, nil, err
		}
		try.layer = k
		if near == nil || try.placeable > near.placeable {
			try.domain = area{}
			at := p.area(k, d)
			at.nodes = slices.Clone(at.nodes)
			try.domain, near = at, &try
		}
		if try.layout == nil {
			continue
		}
		fits++
		try.layout.root, try.layout.domain = k, d
		if best == nil || compareLevels(p.spent(try.layout), p.spent(best)) < 0 {
			best = try.layout
		}
	}
	if best != nil {
		p.enter(best.root, best.domain)
	}
	return best, near, nil
}

// promising returns the domains of a layer whose nodes have enough places by number, the fullest first. If none has and
// fallback is set, it is the one that has the most.
func (p *Planner) promising(k int, fallback bool) []int {
	type option struct{ d, places, free int }
	var all []option
	most := option{d: -1}
	from, to := p.tree.candidates(k)
	for d := from; d < to; d++ {
		p.enter(k, d)
		o := option{d: d, places: total(p.alone())}
		for _, i := range p.domain {
			if v := p.problem.Nodes[i].View; v != nil {
				o.free += v.Free.Len()
			}
		}
		if o.places >= p.problem.Need {
			all = append(all, o)
		}
		if most.d < 0 || o.places > most.places {
			most = o
		}
	}
	slices.SortFunc(all, func(a, b option) int { return cmp.Or(cmp.Compare(a.free, b.free), cmp.Compare(a.d, b.d)) })
	if len(all) == 0 && fallback && most.d >= 0 {
		all = append(all, most)
	}
	out := make([]int, len(all))
	for i := range all {
		out[i] = all[i].d
	}
	return out
}

// fillTree places want members of the class in the domain at hand: on nodes and in domains that are used, then on others,
// at the least cost. It returns the number without a place.
func (p *Planner) fillTree(c *class, want int, held func(node int) int) ([]part, int) {
	members := p.firstOf(c, want)
	p.prepare(c, p.root, p.rootDomain, members, held)
	k, d := p.root, p.rootDomain
	from, to := d, d+1
	if limit := p.limitOfClass(c); limit < k {
		k = limit
		from, to = p.inClass(c, k)
	}
	most, at := 0, -1
	for d := from; d < to; d++ {
		if n := p.knap.capacity(k, d); n > most {
			most, at = n, d
		}
	}
	short := 0
	if room := p.knap.room(k, want); most < room {
		if at < 0 {
			return nil, want
		}
		// Not all find a place: as many as do take theirs.
		short = want - min(want, most)
		want, from, to = min(want, most), at, at+1
		members = members[:want]
		p.prepare(c, p.root, p.rootDomain, members, held)
		if p.knap.capacity(k, at) < p.knap.room(k, want) {
			return nil, want + short
		}
	}
	d = p.settle(c, k, from, to, want, p.root)
	if d < 0 {
		return nil, want + short
	}
	return p.nodes(p.knap.deal(k, d, want, p.groups(members))), short
}

// firstOf returns the first so many members of the class in rank order.
func (p *Planner) firstOf(c *class, want int) []int {
	members := slices.Clone(c.members[:want])
	p.sortByRank(members)
	return members
}

// inClass returns the domains of a layer, inside the one at hand, that may hold the class: those that hold its running
// members, if any does.
func (p *Planner) inClass(c *class, k int) (from, to int) {
	from, to = p.tree.inside(p.root, p.rootDomain, k)
	at := -1
	for i := range p.problem.Placed {
		m := &p.problem.Placed[i]
		if !p.sameClass(c, m.Role) {
			continue
		}
		d := int(p.tree.layers[k].of[p.tree.find(m)])
		if d < from || d >= to || at >= 0 && at != d {
			return 0, 0
		}
		at = d
	}
	if at >= 0 {
		return at, at + 1
	}
	return from, to
}

// compareLevels compares numbers of domains from narrow to wide.
func compareLevels(a, b [maxLayers]int) int { return slices.Compare(a[:], b[:]) }

// spent counts the domains of each layer below the one at hand that a layout uses and the running part of the gang does
// not; without a fabric, the nodes.
func (p *Planner) spent(l *layout) [maxLayers]int {
	var out [maxLayers]int
	seen := map[[2]int]bool{}
	count := func(k, d int, near bool) {
		if at := [2]int{k, d}; !near && !seen[at] {
			seen[at] = true
			out[k]++
		}
	}
	for _, parts := range l.parts {
		for _, at := range parts {
			if p.problem.Fabric == nil {
				count(0, at.node, p.isNear(at.node))
				continue
			}
			s := p.tree.slotOf[at.node]
			for k := range max(1, p.root) {
				y := &p.tree.layers[k]
				count(k, int(y.of[s]), y.near[y.of[s]])
			}
		}
	}
	return out
}

// bound reports whether the class has to keep to domains narrower than the one at hand: of its own level, or of slices.
func (p *Planner) bound(c *class) bool {
	return p.narrow(c) || p.cut(c)
}

func (p *Planner) sliced(c *class) bool { return p.problem.Slice.Size > 1 && c.way != noCards }

// aloneBound returns how many members of a class that is bound the domain at hand holds, and the domain of the class's own
// level in which they are.
func (p *Planner) aloneBound(k int) (most, at int) {
	c := &p.class[k]
	own := min(p.limitOfClass(c), p.root)
	slice, sliceAt := 1, 0
	if at := p.tree.layerOf[p.problem.Slice.Level]; p.sliced(c) && at < own {
		slice, sliceAt = p.problem.Slice.Size, at
	}
	from, to := p.inClass(c, own)
	at = from
	for d := from; d < to; d++ {
		places := 0
		first, last := p.tree.inside(own, d, sliceAt)
		for part := first; part < last; part++ {
			sum := 0
			s, end := p.tree.layers[sliceAt].span(part)
			for ; s < end; s++ {
				if i := p.tree.slots[s].node; i >= 0 {
					sum += int(p.count[k][i])
				}
			}
			places += sum / slice * slice
		}
		if places > most {
			most, at = places, d
		}
	}
	return most, at
}
