package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// way is how the places for a request are counted.
type way uint8

const (
	// noCards asks for no GPUs.
	noCards way = iota
	// plainCards asks for whole cards, any that are free: a division tells.
	plainCards
	// oneShare asks for a share of one card: a division for each card tells.
	oneShare
	// byTrial asks for anything else: members are placed one after the other until the next finds no cards.
	byTrial
)

// class is the members that are alike: they ask for the same, and every node admits all of their roles or none.
type class struct {
	// role is the first of the roles; ask is what it asks for.
	role int
	ask
	// members are indices into Problem.Members, in that order.
	members []int
}

// ask is what a member asks for, made ready for counting.
type ask struct {
	way way
	// request is nil for noCards.
	request *allocate.Request
	// cards is the number of cards for plainCards, else 0.
	cards int
	needs []int64
}

func askOf(r *Role) ask {
	a := ask{needs: r.Needs}
	if r.Request == nil || len(r.Request.Claims) == 0 {
		return a
	}
	a.request, a.way = r.Request, byTrial
	if total, ok := r.Request.Plain(); ok {
		a.way, a.cards = plainCards, total
	} else if c := r.Request.Claims; len(c) == 1 && c[0].Kind == allocate.KindShare && c[0].Count == 1 {
		a.way = oneShare
	}
	return a
}

// equal reports whether two asks are served alike. How the container of a single claim is called does not matter.
func (a *ask) equal(o *ask) bool {
	if a.way != o.way || !slices.Equal(a.needs, o.needs) {
		return false
	}
	if a.way == noCards {
		return true
	}
	if a.request.NUMA != o.request.NUMA || a.request.NIC != o.request.NIC {
		return false
	}
	if len(a.request.Claims) == 1 && len(o.request.Claims) == 1 {
		x, y := a.request.Claims[0], o.request.Claims[0]
		x.Container, y.Container = "", ""
		return x == y
	}
	return slices.Equal(a.request.Claims, o.request.Claims)
}

// larger orders asks by size: whole cards before shares that promise compute, then other shares, MIG instances and none;
// of each the larger amount first. Shares without a promise come after those with one, because they may not join a
// card whose compute is all promised, whereas promises may join theirs: on a card that they join, any order does.
func (a *ask) larger(o *ask) int {
	x, y := a.amounts(), o.amounts()
	return cmp.Or(slices.Compare(y[:], x[:]), slices.Compare(o.needs, a.needs))
}

// amounts sums up the claims: whole cards, promised compute, memory of shares, MIG instances. It is only compared.
func (a *ask) amounts() (sum [4]float64) {
	if a.way == noCards {
		return sum
	}
	for i := range a.request.Claims {
		c := &a.request.Claims[i]
		n := float64(c.Count)
		switch c.Kind {
		case allocate.KindWhole:
			sum[0] += n
		case allocate.KindShare:
			// A fraction counts as that fraction of an 80 GiB card.
			const card = 80 << 30
			sum[1] += n * float64(c.ComputeMilli)
			sum[2] += n * (float64(c.VRAMBytes) + card*float64(c.FractionPPB)/allocate.WholePPB)
		case allocate.KindMIG:
			sum[3] += n
		}
	}
	return sum
}

// admits reports whether members of the class may run on the node.
func (c *class) admits(n *Node) bool { return n.Roles>>uint(c.role)&1 == 1 }

// classes puts the members into classes, in the order of the first member of each.
func (p *Planner) classes(problem *Problem) {
	p.order = p.order[:0]
	for i := range p.class {
		p.class[i].members = p.class[i].members[:0]
	}
	p.class = p.class[:0]
	var classOf [MaxRoles]int
	for i := range classOf {
		classOf[i] = -1
	}
	for i := range problem.Members {
		role := problem.Members[i].Role
		if classOf[role] < 0 {
			classOf[role] = p.classFor(problem, role)
		}
		c := &p.class[classOf[role]]
		c.members = append(c.members, i)
	}
	for i := range p.class {
		p.order = append(p.order, i)
	}
	slices.SortStableFunc(p.order, func(a, b int) int {
		return cmp.Or(p.class[a].larger(&p.class[b].ask), cmp.Compare(p.class[a].role, p.class[b].role))
	})
}

// classFor returns the class of a role, a new one where it is like no other.
func (p *Planner) classFor(problem *Problem, role int) int {
	a := askOf(&problem.Roles[role])
	for i := range p.class {
		if p.class[i].equal(&a) && problem.alike(p.class[i].role, role) && sameNodes(problem.Nodes, p.class[i].role, role) {
			return i
		}
	}
	p.class = slices.Grow(p.class, 1)[:len(p.class)+1]
	c := &p.class[len(p.class)-1]
	c.role, c.ask, c.members = role, a, c.members[:0]
	return len(p.class) - 1
}

// alike reports whether roles that ask for the same may use the same domains: with slices, or domains of their own, each
// keeps to its own.
func (p *Problem) alike(a, b int) bool {
	return p.Fabric == nil || p.Slice.Size < 2 && !p.Roles[a].HasRequired && !p.Roles[b].HasRequired
}

// sameNodes reports whether every node admits both roles or neither.
func sameNodes(nodes []Node, a, b int) bool {
	both := uint64(1)<<uint(a) | uint64(1)<<uint(b)
	for i := range nodes {
		if bits.OnesCount64(nodes[i].Roles&both) == 1 {
			return false
		}
	}
	return true
}
