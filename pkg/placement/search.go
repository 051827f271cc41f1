package placement

import (
	"cmp"
	"encoding/binary"
	"slices"
)

const (
	// searchMembers is the largest number of members of several classes for which arrangements are looked through where
	// packing fails or takes more nodes than might do.
	searchMembers = 64
	// searchSteps bounds that search: the number of places tried. It takes some milliseconds, a tenth of a second for
	// requests that are not for plain cards.
	searchSteps = 20000
	// scanStep is the number of nodes looked over that count as one step.
	scanStep = 256
	// searchSelections is the number of ways tried to pick the members that are placed.
	searchSelections = 64
)

// search looks through the arrangements of members on nodes, depth first, for the one with the fewest nodes. Members of
// one class are interchangeable, and so are untouched nodes in one state: only the first of each is tried. It is
// complete unless the steps run out.
type search struct {
	p *Planner
	// nodes are the nodes to try; group numbers their states and turn counts the nodes of one group.
	nodes, group, turn []int
	near               []bool
	// touched is how many nodes of each group have members: the first ones.
	touched []int
	// items are the classes of the members to place, at the places that they have, indices into nodes.
	items, at []int
	// best are the places of the best arrangement, nil if there is none; fresh is the number of its nodes that the
	// running part of the gang does not use, floor the number below which it cannot be.
	best         []int
	fresh, floor int
	steps        int
	deepest      int
	err          error
}

// fewer returns a layout of the wanted members on fewer nodes than l, or l if there is none or none is found.
func (p *Planner) fewer(l *layout, want []int) (*layout, error) {
	if total(want) > searchMembers {
		return l, nil
	}
	fresh, floor := p.fresh(l), p.floor(want)
	if fresh <= floor {
		return l, nil
	}
	s := p.newSearch(searchSteps)
	s.fresh, s.floor = fresh, floor
	s.run(want)
	if s.err != nil || s.best == nil {
		return l, s.err
	}
	return s.layout(want), nil
}

// searchAny looks for a layout of any selection of members within the limits. Without one it returns the largest number
// of members that it came to place.
func (p *Planner) searchAny(limits []int) (*layout, int, error) {
	if p.problem.Need > searchMembers {
		return nil, 0, nil
	}
	s := p.newSearch(searchSteps)
	for _, want := range p.selections(limits) {
		s.fresh, s.floor = len(s.nodes)+1, p.floor(want)
		s.run(want)
		if s.err != nil {
			return nil, 0, s.err
		}
		if s.best != nil {
			return s.layout(want), s.deepest, nil
		}
		if s.steps <= 0 {
			break
		}
	}
	return nil, s.deepest, nil
}

// selections returns ways to pick the needed members within the limits: first the one that keeps to the order of the
// problem's members, then those with as many as possible of the classes that come first.
func (p *Planner) selections(limits []int) [][]int {
	first := p.selection(limits)
	out := [][]int{first}
	want := make([]int, len(limits))
	var extend func(k, left int)
	extend = func(k, left int) {
		if len(out) == searchSelections || left > total(limits[k:]) {
			return
		}
		if k == len(limits) {
			if !slices.Equal(want, first) {
				out = append(out, slices.Clone(want))
			}
			return
		}
		for n := min(limits[k], left); n >= 0; n-- {
			want[k] = n
			extend(k+1, left-n)
		}
	}
	extend(0, p.problem.Need)
	return out
}

// floor is a number of nodes, beside those that the running part of the gang uses, below which the wanted members cannot be.
func (p *Planner) floor(want []int) int {
	floor, cards := 0, 0
	for k, n := range want {
		if n == 0 {
			continue
		}
		c := &p.class[k]
		cards += n * c.cards
		parts, left := p.fill(c, p.domain, n, p.isNear, func(i int) int { return min(n, int(p.count[k][i])) }, nil)
		if left > 0 {
			continue
		}
		fresh := 0
		for _, at := range parts {
			if !p.isNear(at.node) {
				fresh++
			}
		}
		floor = max(floor, fresh)
	}
	var free []int
	for _, i := range p.domain {
		switch v := p.problem.Nodes[i].View; {
		case v == nil:
		case p.isNear(i):
			cards -= v.Free.Len()
		default:
			free = append(free, v.Free.Len())
		}
	}
	slices.Sort(free)
	byCards := 0
	for cards > 0 && byCards < len(free) {
		byCards++
		cards -= free[len(free)-byCards]
	}
	return max(floor, byCards)
}

// newSearch prepares a search of the domain at hand: nodes with more free cards first, then by name.
func (p *Planner) newSearch(steps int) *search {
	s := &search{p: p, steps: steps}
	free := func(i int) int {
		if v := p.problem.Nodes[i].View; v != nil {
			return v.Free.Len()
		}
		return 0
	}
	order := slices.Clone(p.domain)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(free(b), free(a)), cmp.Compare(p.problem.Nodes[a].Name, p.problem.Nodes[b].Name))
	})
	groups := map[string]int{}
	var key []byte
	for _, i := range order {
		key = p.stateKey(key[:0], i)
		g, ok := groups[string(key)]
		if !ok {
			g = len(groups)
			groups[string(key)] = g
			s.touched = append(s.touched, 0)
		}
		// More nodes in one state than members are never of use. touched counts them here.
		if s.touched[g] < p.problem.Need {
			s.nodes, s.group, s.turn = append(s.nodes, i), append(s.group, g), append(s.turn, s.touched[g])
			s.near = append(s.near, p.isNear(i))
			s.touched[g]++
		}
	}
	return s
}

// stateKey is all of a node that a search depends on.
func (p *Planner) stateKey(b []byte, i int) []byte {
	n := &p.problem.Nodes[i]
	var roles uint64
	for k := range p.class {
		if p.class[k].admits(n) {
			roles |= 1 << uint(k)
		}
	}
	b = binary.BigEndian.AppendUint64(b, roles)
	near := byte(0)
	if p.isNear(i) {
		near = 1
	}
	b = append(b, near)
	for _, have := range n.Free {
		b = binary.BigEndian.AppendUint64(b, uint64(have))
	}
	switch v := n.View; {
	case v == nil || v.Topology == nil:
		return b
	case p.rooms.numbers:
		return binary.BigEndian.AppendUint64(b, uint64(v.Free.Len()))
	default:
		return trialKey(b, v, false)
	}
}

// run searches for the wanted members.
func (s *search) run(want []int) {
	s.p.rooms.reset(len(s.p.problem.Nodes))
	clear(s.touched)
	s.items = s.items[:0]
	for _, k := range s.p.order {
		for range want[k] {
			s.items = append(s.items, k)
		}
	}
	s.at = make([]int, len(s.items))
	s.place(0, 0)
}

// place places the members from i on; fresh counts the nodes used that the running part of the gang does not use. It
// returns true to end the search.
func (s *search) place(i, fresh int) bool {
	s.deepest = max(s.deepest, i)
	if i == len(s.items) {
		s.best, s.fresh = slices.Clone(s.at), fresh
		return fresh <= s.floor
	}
	first := 0
	if i > 0 && s.items[i-1] == s.items[i] {
		first = s.at[i-1]
	}
	for _, costs := range [2]bool{false, true} {
		next := fresh
		if costs {
			next++
		}
		s.steps -= (len(s.nodes) - first) / scanStep
		for k := first; k < len(s.nodes) && next < s.fresh; k++ {
			touched := s.turn[k] < s.touched[s.group[k]]
			if s.turn[k] > s.touched[s.group[k]] || costs == (touched || s.near[k]) {
				continue
			}
			if s.steps--; s.steps < 0 {
				return true
			}
			if s.try(i, k, next) {
				return true
			}
		}
	}
	return false
}

// try places member i on node k and goes on.
func (s *search) try(i, k, fresh int) bool {
	c := &s.p.class[s.items[i]]
	m := s.p.room(s.nodes[k])
	if s.p.left(c, m, 1) == 0 {
		return false
	}
	u, err := s.p.take(c, m)
	if err != nil {
		s.err = err
		return true
	}
	if m.members == 1 {
		s.touched[s.group[k]]++
	}
	s.at[i] = k
	if s.place(i+1, fresh) {
		return true
	}
	m = s.p.room(s.nodes[k])
	s.p.give(c, m, &u)
	if m.members == 0 {
		s.touched[s.group[k]]--
	}
	return false
}

// layout is the best arrangement.
func (s *search) layout(want []int) *layout {
	l := &layout{parts: make([][]part, len(want)), sums: slices.Clone(want), order: s.p.order}
	for i, k := range s.items {
		node := s.nodes[s.best[i]]
		parts := l.parts[k]
		if n := len(parts); n > 0 && parts[n-1].node == node {
			parts[n-1].count++
			continue
		}
		l.parts[k] = append(parts, part{node: node, count: 1})
	}
	return l
}
