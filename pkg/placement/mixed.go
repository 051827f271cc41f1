package placement

import (
	"cmp"
	"slices"
)

// selectionRounds bounds how often other members are tried in place of those that found none.
const selectionRounds = 8

// tryMixed places a gang of several classes in the domain at hand.
func (p *Planner) tryMixed() (attempt, error) {
	p.rooms.numbers = true
	for k := range p.class {
		p.rooms.numbers = p.rooms.numbers && (p.class[k].way == plainCards || p.class[k].way == noCards)
	}
	need, alone := p.problem.Need, p.alone()
	limits := slices.Clone(alone)
	out := attempt{}
	hopeless := total(alone) < need || p.tooFewCards(alone)
	for range selectionRounds {
		want := p.selection(limits)
		best, err := p.packBest(want)
		if err != nil {
			return attempt{}, err
		}
		if total(best.sums) == need {
			out.layout, err = p.fewer(best, want)
			return out, err
		}
		out.placeable = max(out.placeable, total(best.sums))
		short := slices.IndexFunc(p.order, func(k int) bool { return best.sums[k] < want[k] })
		if hopeless || short < 0 {
			break
		}
		limits[p.order[short]] = best.sums[p.order[short]]
	}
	if !hopeless {
		l, deepest, err := p.searchAny(alone)
		if err != nil || l != nil {
			return attempt{layout: l}, err
		}
		out.placeable = max(out.placeable, deepest)
	}
	p.blame(&out, alone)
	return out, nil
}

// tooFewCards reports whether the members that need the fewest plain cards need more than the domain has free.
func (p *Planner) tooFewCards(limits []int) bool {
	byCards := slices.Clone(p.order)
	slices.SortStableFunc(byCards, func(a, b int) int { return cmp.Compare(p.class[a].cards, p.class[b].cards) })
	left, cards := p.problem.Need, 0
	for _, k := range byCards {
		n := min(left, limits[k])
		cards += n * p.class[k].cards
		left -= n
	}
	for _, i := range p.domain {
		if v := p.problem.Nodes[i].View; v != nil {
			cards -= v.Free.Len()
		}
	}
	return cards > 0
}

// blame says which class is short: the one that is short the most places even alone, else the largest ask of those that
// are wanted.
func (p *Planner) blame(out *attempt, alone []int) {
	want := p.selection(p.members())
	most := 0
	for _, k := range p.order {
		if short := want[k] - alone[k]; short > most {
			most, out.blame = short, k
		}
	}
	if most == 0 {
		out.together = true
		out.blame = p.order[slices.IndexFunc(p.order, func(k int) bool { return want[k] > 0 })]
	}
	out.wants = want
}

// members returns the number of members of each class.
func (p *Planner) members() []int {
	all := make([]int, len(p.class))
	for k := range p.class {
		all[k] = len(p.class[k].members)
	}
	return all
}

// selection says how many members of each class are to be placed: those of the first members of the problem that are
// needed, at most limits of each class. The sum is less than needed where limits are too low.
func (p *Planner) selection(limits []int) []int {
	want := make([]int, len(p.class))
	classOf := make([]int, len(p.problem.Members))
	for k := range p.class {
		for _, m := range p.class[k].members {
			classOf[m] = k
		}
	}
	left := p.problem.Need
	for _, k := range classOf {
		if left > 0 && want[k] < limits[k] {
			want[k]++
			left--
		}
	}
	return want
}

// packBest packs the members class by class in two orders, the largest ask first and the scarcest places first, and
// returns the better layout: more members, then fewer nodes and domains.
func (p *Planner) packBest(want []int) (*layout, error) {
	best, err := p.pack(p.order, want)
	if err != nil {
		return nil, err
	}
	scarce := p.scarcest(want)
	if slices.Equal(scarce, p.order) {
		return best, nil
	}
	other, err := p.pack(scarce, want)
	if err != nil {
		return nil, err
	}
	if cmp.Or(cmp.Compare(total(other.sums), total(best.sums)), compareLevels(p.spent(best), p.spent(other))) > 0 {
		return other, nil
	}
	return best, nil
}

// scarcest orders the classes by the number of places that the domain has for each wanted member, fewest first.
func (p *Planner) scarcest(want []int) []int {
	places := make([]float64, len(p.class))
	for k := range p.class {
		sum := 0
		for _, i := range p.domain {
			sum += int(p.count[k][i])
		}
		places[k] = float64(sum) / float64(max(1, want[k]))
	}
	order := slices.Clone(p.order)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	return order
}

// pack places class after class, each on the fewest nodes beside those in use, and leaves over what finds no place.
func (p *Planner) pack(order, want []int) (*layout, error) {
	p.rooms.reset(len(p.problem.Nodes))
	p.tree.forget()
	l := &layout{parts: make([][]part, len(p.class)), sums: make([]int, len(p.class)), order: slices.Clone(order)}
	for _, k := range order {
		if want[k] == 0 {
			continue
		}
		c := &p.class[k]
		held := func(i int) int {
			if at := p.rooms.at[i]; at > 0 {
				return p.left(c, &p.rooms.list[at-1], want[k])
			}
			return min(want[k], int(p.count[k][i]))
		}
		used := func(i int) bool { return p.rooms.at[i] > 0 || p.isNear(i) }
		parts, left := p.fillIn(c, want[k], used, held)
		l.parts[k], l.sums[k] = parts, want[k]-left
		for _, at := range parts {
			m := p.room(at.node)
			if p.problem.Fabric != nil {
				p.tree.use(int(p.tree.slotOf[at.node]))
			}
			for range at.count {
				if _, err := p.take(c, m); err != nil {
					return nil, err
				}
			}
		}
	}
	return l, nil
}

func total(counts []int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
