package placement

import (
	"fmt"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// rooms are the nodes of which a try has taken something.
type rooms struct {
	// numbers says that all classes ask for plain cards or none: then a node is a number of free cards.
	numbers bool
	// at is 1 + the index in list of each node's room, 0 for an untouched node.
	at   []int32
	list []room
}

// room is what is left of one node.
type room struct {
	node int
	// members is the number of members on it.
	members int
	amounts []int64
	// free is the number of free cards under rooms.numbers; cards is the state of the cards otherwise.
	free  int
	cards scratch
}

// reset forgets all rooms of a problem with so many nodes.
func (r *rooms) reset(nodes int) {
	if len(r.at) != nodes {
		r.at = make([]int32, nodes)
	} else {
		for i := range r.list {
			r.at[r.list[i].node] = 0
		}
	}
	r.list = r.list[:0]
}

// room returns the node's room, a new one for an untouched node. It is valid until the next new one.
func (p *Planner) room(i int) *room {
	r := &p.rooms
	if at := r.at[i]; at > 0 {
		return &r.list[at-1]
	}
	if len(r.list) < cap(r.list) {
		r.list = r.list[:len(r.list)+1]
	} else {
		r.list = append(r.list, room{})
	}
	r.at[i] = int32(len(r.list))
	n, m := &p.problem.Nodes[i], &r.list[len(r.list)-1]
	m.node, m.members, m.free = i, 0, 0
	m.amounts = append(m.amounts[:0], n.Free...)
	switch {
	case n.View == nil:
		m.cards.view = allocate.View{Use: m.cards.view.Use[:0]}
	case r.numbers:
		m.free = n.View.Free.Len()
	default:
		m.cards.load(n.View)
	}
	return m
}

// left returns how many members of the class a room has places for, at most limit.
func (p *Planner) left(c *class, m *room, limit int) int {
	if !p.admits(c, m.node) {
		return 0
	}
	if limit = c.within(m.amounts, limit); limit == 0 {
		return 0
	}
	if p.rooms.numbers && c.way == plainCards {
		return min(limit, m.free/c.cards)
	}
	return p.places.onCards(&c.ask, &m.cards.view, limit)
}

// undo is what give needs to take back what take took.
type undo struct {
	choice allocate.Choice
	free   topology.GPUSet
}

// take puts a member of the class, for which there is a place, into the room.
func (p *Planner) take(c *class, m *room) (undo, error) {
	var u undo
	if !p.rooms.numbers && c.way != noCards {
		u.free = m.cards.view.Free
		choice, ok, err := m.cards.choose(p.places.chooser, c.request)
		switch {
		case err != nil:
			return u, fmt.Errorf("placement: node %s: %w", p.problem.Nodes[m.node].Name, err)
		case !ok:
			return u, fmt.Errorf("placement: node %s: a member was counted that finds no cards", p.problem.Nodes[m.node].Name)
		}
		u.choice = choice
	}
	m.free -= c.cards
	m.members++
	for k := range m.amounts {
		m.amounts[k] -= c.needs[k]
	}
	return u, nil
}

// give takes the member that was put in last out of the room again.
func (p *Planner) give(c *class, m *room, u *undo) {
	if !p.rooms.numbers && c.way != noCards {
		m.cards.release(&u.choice, u.free)
	}
	m.free += c.cards
	m.members--
	for k := range m.amounts {
		m.amounts[k] += c.needs[k]
	}
}
