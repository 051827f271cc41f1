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
	// domains are the domains above the nodes, up to the one at hand.
	domains []searchLayer
	// items are the classes of the members to place, at the places that they have, indices into nodes.
	items, at []int
	// best are the places of the best arrangement, nil if there is none; spent is what an arrangement must be better than,
	// and floor a number below which it cannot be: of nodes, and domains of the layers above them, that the running part
	// of the gang does not use.
	best         []int
	spent, floor [maxLayers]int
	steps        int
	deepest      int
	err          error
}

// searchLayer is the domains of one layer: of each of the nodes, which of them are used by the running part of the gang,
// and how many nodes of each have members.
type searchLayer struct {
	of      []int32
	near    []bool
	touched []int32
}

// searchable reports whether arrangements may be looked through: classes that have to keep to domains are only packed.
func (p *Planner) searchable(members int) bool {
	for k := range p.class {
		if p.bound(&p.class[k]) {
			return false
		}
	}
	return members <= searchMembers && p.budget > 0
}

// fewer returns a layout of the wanted members on fewer nodes than l, or in fewer domains, or l if there is none or none is found.
func (p *Planner) fewer(l *layout, want []int) (*layout, error) {
	byNode := p.arrangeable(want) && p.wholeSlices(want)
	if !byNode && !p.searchable(total(want)) {
		return l, nil
	}
	spent, floor := p.spent(l), p.floor(want)
	if compareLevels(spent, floor) <= 0 {
		return l, nil
	}
	if byNode {
		a := p.newArranger(want)
		if better, _ := p.arrange(a, want, a.costOf(&spent), &floor); better != nil {
			return better, nil
		}
		return l, nil
	}
	s := p.newSearch(min(searchSteps, p.budget))
	s.spent, s.floor = spent, floor
	s.run(want)
	if s.err != nil || s.best == nil {
		return l, s.err
	}
	return s.layout(want), nil
}

// searchAny looks for a layout of any selection of members within the limits. Without one it returns the largest number
// of members that it came to place.
func (p *Planner) searchAny(limits []int) (*layout, int, error) {
	if p.arrangeable(limits) {
		l, deepest := p.arrangeAny(limits)
		return l, deepest, nil
	}
	if !p.searchable(p.problem.Need) {
		return nil, 0, nil
	}
	s := p.newSearch(min(searchSteps, p.budget))
	for _, want := range p.selections(limits) {
		s.spent[0], s.floor = len(s.nodes)+1, p.floor(want)
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

// floor is a number of nodes and domains, beside those that the running part of the gang uses, below which the wanted
// members cannot be: none of the classes alone can.
func (p *Planner) floor(want []int) [maxLayers]int {
	var floor [maxLayers]int
	cards := 0
	p.tree.forget()
	for k, n := range want {
		if n == 0 {
			continue
		}
		c := &p.class[k]
		cards += n * c.cards
		parts, left := p.fillIn(c, n, p.isNear, func(i int) int { return min(n, int(p.count[k][i])) })
		if left > 0 {
			continue
		}
		if spent := p.spent(&layout{parts: [][]part{parts}}); compareLevels(spent, floor) > 0 {
			floor = spent
		}
	}
	if nodes := p.floorByCards(cards); nodes > floor[0] {
		floor = [maxLayers]int{nodes}
	}
	return floor
}

// floorByCards is the number of other nodes without which there are fewer free cards than needed.
func (p *Planner) floorByCards(cards int) int {
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
	return byCards
}

// newSearch prepares a search of the domain at hand: nodes with more free cards first.
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
		return cmp.Or(cmp.Compare(free(b), free(a)), p.compareNodes(a, b))
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
	if p.problem.Fabric != nil {
		s.addDomains()
	}
	return s
}

// addDomains notes the domains of the nodes.
func (s *search) addDomains() {
	for k := 1; k < s.p.root; k++ {
		y := &s.p.tree.layers[k]
		l := searchLayer{near: y.near, touched: make([]int32, y.domains())}
		for _, i := range s.nodes {
			l.of = append(l.of, y.of[s.p.tree.slotOf[i]])
		}
		s.domains = append(s.domains, l)
	}
}

// stateKey is all of a node that a search depends on, the domain that it is in included.
func (p *Planner) stateKey(b []byte, i int) []byte {
	n := &p.problem.Nodes[i]
	var roles uint64
	for k := range p.class {
		if p.admits(&p.class[k], i) {
			roles |= 1 << uint(k)
		}
	}
	b = binary.BigEndian.AppendUint64(b, roles)
	near := byte(0)
	if p.isNear(i) {
		near = 1
	}
	b = append(b, near)
	if p.problem.Fabric != nil && p.root > 1 {
		b = binary.BigEndian.AppendUint32(b, uint32(p.tree.layers[1].of[p.tree.slotOf[i]]))
	}
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
	for k := range s.domains {
		clear(s.domains[k].touched)
	}
	s.items = s.items[:0]
	for _, k := range s.p.order {
		for range want[k] {
			s.items = append(s.items, k)
		}
	}
	s.at = make([]int, len(s.items))
	before := s.steps
	s.place(0, [maxLayers]int{})
	s.p.budget -= before - max(0, s.steps)
}

// place places the members from i on; spent counts the nodes and domains used that the running part of the gang does not
// use. It returns true to end the search.
func (s *search) place(i int, spent [maxLayers]int) bool {
	s.deepest = max(s.deepest, i)
	if i == len(s.items) {
		s.best, s.spent = slices.Clone(s.at), spent
		return compareLevels(spent, s.floor) <= 0
	}
	first := 0
	if i > 0 && s.items[i-1] == s.items[i] {
		first = s.at[i-1]
	}
	for _, costs := range [2]bool{false, true} {
		s.steps -= (len(s.nodes) - first) / scanStep
		for k := first; k < len(s.nodes); k++ {
			touched := s.turn[k] < s.touched[s.group[k]]
			if s.turn[k] > s.touched[s.group[k]] || costs == (touched || s.near[k]) {
				continue
			}
			next := spent
			if costs {
				next = s.beside(spent, k)
			}
			if compareLevels(next, s.spent) >= 0 {
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

// beside adds a node that is not used yet, and the domains that it opens.
func (s *search) beside(spent [maxLayers]int, k int) [maxLayers]int {
	spent[0]++
	for j := range s.domains {
		l := &s.domains[j]
		if d := l.of[k]; l.touched[d] == 0 && !l.near[d] {
			spent[j+1]++
		}
	}
	return spent
}

// try places member i on node k and goes on.
func (s *search) try(i, k int, spent [maxLayers]int) bool {
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
		s.touch(k, 1)
	}
	s.at[i] = k
	if s.place(i+1, spent) {
		return true
	}
	m = s.p.room(s.nodes[k])
	s.p.give(c, m, &u)
	if m.members == 0 {
		s.touch(k, -1)
	}
	return false
}

// touch counts a node in or out.
func (s *search) touch(k, by int) {
	s.touched[s.group[k]] += by
	for j := range s.domains {
		s.domains[j].touched[s.domains[j].of[k]] += int32(by)
	}
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
