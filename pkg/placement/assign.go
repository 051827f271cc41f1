package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// seat is one member on one node.
type seat struct{ node, member, turn int }

// assign gives every place of the layout to a member and chooses its cards.
//
// Of each class the first members of the problem are placed. In rank order they are dealt to the class's nodes in the
// order of the fabric, without one in ascending order of name, so that each node gets ranks that follow each other. The
// plan is nil where the members of several classes on one node find no cards that they can take in rank order.
func (p *Planner) assign(l *layout) (*Plan, error) {
	seats := p.deal(l)
	assignments := make([]Assignment, len(seats))
	plan := &Plan{}
	var last ledger.NodeName
	for first := 0; first < len(seats); {
		end := first + 1
		for end < len(seats) && seats[end].node == seats[first].node {
			end++
		}
		n := &p.problem.Nodes[seats[first].node]
		if first > 0 && n.Name == last {
			return nil, twice(n.Name)
		}
		last = n.Name
		plan.Nodes++
		if !p.isNear(seats[first].node) {
			plan.New++
		}
		if ok, err := p.seatNode(n, seats[first:end], assignments[first:end]); err != nil || !ok {
			return nil, err
		}
		first = end
	}
	p.describe(plan, seats, assignments)
	plan.Assignments = p.inRankOrder(seats, assignments)
	return plan, nil
}

// deal gives places to members. The seats come by node, then by the class's turn, then by rank.
func (p *Planner) deal(l *layout) []seat {
	var placed []int
	for _, k := range l.order {
		placed = append(placed, p.class[k].members[:l.sums[k]]...)
	}
	slices.Sort(placed)
	p.giveRanks(placed)
	var seats []seat
	seated := map[int]bool{}
	for _, g := range l.seated {
		seats = p.seat(g.members, g.parts, 0, true, seats)
		for _, m := range g.members {
			seated[m] = true
		}
	}
	for turn, k := range l.order {
		chosen := slices.Clone(p.class[k].members[:l.sums[k]])
		chosen = slices.DeleteFunc(chosen, func(m int) bool { return seated[m] })
		p.sortByRank(chosen)
		seats = p.seat(chosen, l.parts[k], turn, !p.sliced(&p.class[k]), seats)
	}
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(p.compareNodes(a.node, b.node), cmp.Compare(a.turn, b.turn), p.compareRank(a.member, b.member))
	})
	return seats
}

// seatNode chooses the cards of the members on one node. Where all ask for plain cards, the best set for all of them is
// chosen first, since the gang's ring runs through it, and dealt to one after the other; otherwise each takes the best
// of what those before it left.
//
// Whoever carries the plan out takes the cards in rank order. Which shares of different roles may join a card depends on
// who comes first, so where that order does not work, the cards are chosen in it. It is false where that fails too.
func (p *Planner) seatNode(n *Node, seats []seat, out []Assignment) (bool, error) {
	order := make([]int, len(seats))
	for k := range order {
		order[k] = k
	}
	ok, err := p.choose(n, seats, order, out)
	if err != nil || !ok {
		return false, cmp.Or(err, fmt.Errorf("placement: node %s: not all of %d members that were counted find cards", n.Name, len(seats)))
	}
	slices.SortFunc(order, func(a, b int) int { return p.compareRank(seats[a].member, seats[b].member) })
	if p.holds(n, order, out) {
		return true, nil
	}
	ok, err = p.choose(n, seats, order, out)
	return ok, err
}

// choose chooses cards for the seats of one node in the given order; false where one of them finds none.
func (p *Planner) choose(n *Node, seats []seat, order []int, out []Assignment) (bool, error) {
	s := &p.places.scratch
	if n.View != nil {
		s.load(n.View)
	}
	gathered := n.View != nil && p.gather(s, seats)
	for _, k := range order {
		m := &p.problem.Members[seats[k].member]
		out[k] = Assignment{Pod: m.UID, Role: m.Role, Rank: p.rank[seats[k].member], Node: n.Name}
		if n.View != nil {
			out[k].Topology = n.View.Topology
		}
		a := askOf(&p.problem.Roles[m.Role])
		if a.way == noCards {
			continue
		}
		choice, ok, err := s.choose(p.places.chooser, a.request)
		if err != nil {
			return false, fmt.Errorf("placement: node %s: %w", n.Name, err)
		}
		if !ok {
			return false, nil
		}
		if gathered {
			// The cards outside the gang's set were closed only for the choice.
			choice.Quality = p.places.chooser.QualityOf(n.View, choice.Set())
		}
		out[k].Choice = choice
	}
	return true, nil
}

// holds reports whether the node can hold the choices in the given order.
func (p *Planner) holds(n *Node, order []int, out []Assignment) bool {
	if n.View == nil {
		return true
	}
	s := &p.places.scratch
	s.load(n.View)
	for _, k := range order {
		if s.view.CanHold(out[k].Choice.Cards) != nil {
			return false
		}
		s.take(&out[k].Choice)
	}
	return true
}

// gather closes all free cards of the scratch but the best set for all members that are seated, if there are several
// and all ask for plain cards.
func (p *Planner) gather(s *scratch, seats []seat) bool {
	cards, asking := 0, 0
	for _, seat := range seats {
		a := askOf(&p.problem.Roles[p.problem.Members[seat.member].Role])
		switch a.way {
		case noCards:
		case plainCards:
			cards += a.cards
			asking++
		case oneShare, byTrial:
			return false
		}
	}
	if asking < 2 {
		return false
	}
	set, ok := p.places.bestOf(&s.view, cards)
	if ok {
		s.view.Closed |= s.view.Free &^ set
		s.view.Free = set
	}
	return ok
}

// inRankOrder returns the assignments in rank order.
func (p *Planner) inRankOrder(seats []seat, assignments []Assignment) []Assignment {
	at := make([]int, len(seats))
	for k := range at {
		at[k] = k
	}
	slices.SortFunc(at, func(a, b int) int { return p.compareRank(seats[a].member, seats[b].member) })
	out := make([]Assignment, len(at))
	for k := range at {
		out[k] = assignments[at[k]]
	}
	return out
}
