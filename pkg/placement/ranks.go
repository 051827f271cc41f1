package placement

import (
	"cmp"
	"slices"
	"sort"
)

// takeRanks takes over the ranks of the problem's members.
func (p *Planner) takeRanks() {
	p.rank, p.unranked = p.rank[:0], true
	for i := range p.problem.Members {
		p.rank = append(p.rank, p.problem.Members[i].Rank)
		p.unranked = p.unranked && p.problem.Members[i].Rank < 0
	}
}

// giveRanks gives the members that are placed, which come in the order of the problem, the lowest ranks that no running
// member has, if no member has a rank.
func (p *Planner) giveRanks(placed []int) {
	if !p.unranked {
		return
	}
	taken := map[int]bool{}
	for i := range p.problem.Placed {
		taken[p.problem.Placed[i].Rank] = true
	}
	next := 0
	for _, m := range placed {
		for taken[next] {
			next++
		}
		p.rank[m] = next
		next++
	}
}

// sortByRank puts members in rank order: by known rank, then unknown ones, equal ones as they stand in the problem.
func (p *Planner) sortByRank(members []int) {
	slices.SortFunc(members, p.compareRank)
}

func (p *Planner) compareRank(a, b int) int {
	x, y := p.rank[a], p.rank[b]
	switch {
	case x == y:
		return cmp.Compare(a, b)
	case x < 0:
		return 1
	case y < 0:
		return -1
	}
	return cmp.Compare(x, y)
}

// fixed is a running member with a rank, and its slot.
type fixed struct{ rank, slot int }

// takeFixed sorts the running members that have ranks and a slot.
func (p *Planner) takeFixed() {
	p.fixed = p.fixed[:0]
	for i := range p.problem.Placed {
		m := &p.problem.Placed[i]
		if m.Rank >= 0 {
			p.fixed = append(p.fixed, fixed{m.Rank, p.tree.find(m)})
		}
	}
	slices.SortFunc(p.fixed, func(a, b fixed) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.slot, b.slot)) })
}

// neighbours returns the slots of the running members between which the ring comes to a rank.
func (p *Planner) neighbours(rank int) (before, after int) {
	n := len(p.fixed)
	at := sort.Search(n, func(i int) bool { return p.fixed[i].rank > rank })
	return p.fixed[(at+n-1)%n].slot, p.fixed[at%n].slot
}

// far returns for each slot how many boundaries the ring crosses between a member there and the running members next to
// it in rank, nil if none runs. For one member it is the number for both neighbours; for several, the number to the
// nearest neighbour of any of them.
func (p *Planner) far(members []int) []int32 {
	if len(p.fixed) == 0 || !p.ranked(members) {
		return nil
	}
	out := make([]int32, len(p.tree.slots))
	before, after := p.neighbours(p.rank[members[0]])
	if len(members) == 1 {
		p.addFar(out, before)
		p.addFar(out, after)
		return out
	}
	var around []int
	for _, m := range members {
		before, after = p.neighbours(p.rank[m])
		around = append(around, before, after)
	}
	p.addFar(out, around...)
	return out
}

// addFar adds the number of boundaries to the nearest of some slots.
func (p *Planner) addFar(out []int32, around ...int) {
	for k := range p.tree.layers {
		y := &p.tree.layers[k]
		beside := make([]bool, y.domains())
		for _, s := range around {
			beside[y.of[s]] = true
		}
		for s := range out {
			if !beside[y.of[s]] {
				out[s]++
			}
		}
	}
}

// seat deals places, by node, to members of one class, which come in rank order. Members get places in ascending order,
// so that each domain of each level gets ranks that follow each other. Where members run whose ranks are known, each
// member gets, from the narrowest level to the widest, a place in the domain of the running member before it in rank, or
// of the one after it; unless anywhere is false, because slices have to stay together.
func (p *Planner) seat(members []int, parts []part, turn int, anywhere bool, seats []seat) []seat {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b part) int { return p.compareNodes(a.node, b.node) })
	if anywhere && p.problem.Fabric != nil && len(p.fixed) > 0 {
		return p.seatNear(members, parts, turn, seats)
	}
	next := 0
	for _, at := range parts {
		for range at.count {
			seats = append(seats, seat{node: at.node, member: members[next], turn: turn})
			next++
		}
	}
	return seats
}

// seatNear deals places near running members: at each level first to those who have both neighbours in one domain.
func (p *Planner) seatNear(members []int, parts []part, turn int, seats []seat) []seat {
	slots := make([]int, len(parts))
	for i := range parts {
		slots[i] = int(p.tree.slotOf[parts[i].node])
	}
	left := slices.Clone(members)
	for k := range p.tree.layers {
		y := &p.tree.layers[k]
		for _, both := range [2]bool{true, false} {
			left = slices.DeleteFunc(left, func(m int) bool {
				if p.rank[m] < 0 {
					return false
				}
				before, after := p.neighbours(p.rank[m])
				if both && y.of[before] != y.of[after] {
					return false
				}
				at := freeIn(y, int(y.of[before]), slots, parts)
				if at < 0 {
					at = freeIn(y, int(y.of[after]), slots, parts)
				}
				if at < 0 {
					return false
				}
				parts[at].count--
				seats = append(seats, seat{node: parts[at].node, member: m, turn: turn})
				return true
			})
		}
	}
	for i := range parts {
		for ; parts[i].count > 0; parts[i].count-- {
			seats = append(seats, seat{node: parts[i].node, member: left[0], turn: turn})
			left = left[1:]
		}
	}
	return seats
}

// freeIn returns the first part in the domain that has places left, -1 if there is none.
func freeIn(y *layer, d int, slots []int, parts []part) int {
	first, end := y.span(d)
	for i, _ := slices.BinarySearch(slots, first); i < len(slots) && slots[i] < end; i++ {
		if parts[i].count > 0 {
			return i
		}
	}
	return -1
}

// compareNodes puts nodes in the order of the fabric; without one, in order of name.
func (p *Planner) compareNodes(a, b int) int {
	if p.problem.Fabric != nil {
		return cmp.Compare(p.tree.slotOf[a], p.tree.slotOf[b])
	}
	return cmp.Compare(p.problem.Nodes[a].Name, p.problem.Nodes[b].Name)
}
