package placement

const (
	// arrangerNodes and arrangerClasses are the largest numbers of nodes and of classes for which arrangements are looked
	// through node by node. They bound memory: a state is a number of members left of each class.
	arrangerNodes   = 128
	arrangerClasses = 8
	// arrangerSteps bounds that: the number of states looked at. It takes some ten milliseconds. A state counts as
	// stateSteps of the steps of search, which are shorter.
	arrangerSteps = 10000
	stateSteps    = 2
)

// arranger looks through the arrangements of members that ask for plain cards or none on the nodes of a small domain, by
// branch and bound. It goes from node to node in the order of a tree of domains and branches over what the node takes. A
// branch is cut off where a lower bound says that it takes as many nodes and domains as the best arrangement, and where the
// same number of members was left before, at the same node, for no more. It is complete unless the steps run out.
//
// Members of one class are interchangeable, and so are nodes of one domain in one state: where one is left empty, so are
// those that follow it. A node that is used takes all that it can, except of classes that have a rule to keep.
type arranger struct {
	classes []arrangeClass
	nodes   []arrangeNode
	// layers is the number of layers whose domains are counted, all the bits of these, unit what one domain costs.
	layers int
	all    uint8
	unit   [maxLayers]cost
	bounds arrangeBounds

	seen map[arrangeState]cost
	// limit is what an arrangement must cost less than, floor what none can cost less than.
	limit, floor cost
	// best is what each node takes in the best arrangement, nil if there is none.
	best []headcount
	// most is the largest number of members placed at once, want that of all.
	most, want, steps int
}

// headcount is a number of members of each of the classes.
type headcount [arrangerClasses]uint16

// arrangeClass is one class: its index in Planner.class and what a member takes of plain cards and of amounts.
type arrangeClass struct {
	class, cards int
	needs        []int64
	// rules say that a domain of a layer holds a multiple of so many members.
	rules []arrangeRule
}

type arrangeRule struct{ layer, size int }

// arrangeNode is a node, what is left of it, and what it takes at the moment.
type arrangeNode struct {
	node, cards int
	amounts     []int64
	admits      uint8
	// domain is the number of the node's domain of each layer, in the order of the nodes, and end the node at which it
	// ends. keep has a bit for each layer of which the node before is in the same domain, near for those that are used
	// by the running part of the gang.
	domain, end [maxLayers]int32
	keep, near  uint8
	// next is the first node that is not like this one.
	next int
	put  headcount
}

// arrangeState is where a search stands: what is left before a node, and the layers whose domains at the node are used.
type arrangeState struct {
	left headcount
	node uint16
	open uint8
}

// run looks for an arrangement of the members that costs less than the limit. It returns true if it is complete.
func (a *arranger) run(left headcount, limit, floor cost) bool {
	a.limit, a.floor, a.best, a.want = limit, floor, nil, left.total()
	clear(a.seen)
	for i := range a.nodes {
		for k := range a.classes {
			a.nodes[i].add(&a.classes[k], k, -int(a.nodes[i].put[k]))
		}
	}
	a.visit(0, left, 0, 0)
	return a.steps >= 0
}

func (m *headcount) total() int {
	sum := 0
	for _, n := range m {
		sum += int(n)
	}
	return sum
}

// visit goes on at node i. open are the layers whose domain at the node before is used. It returns true to end the search.
func (a *arranger) visit(i int, left headcount, open uint8, spent cost) bool {
	if a.steps--; a.steps < 0 {
		return true
	}
	missing := left.total()
	a.most = max(a.most, a.want-missing)
	if missing == 0 {
		a.limit, a.best = spent, a.best[:0]
		for k := range a.nodes {
			a.best = append(a.best, a.nodes[k].put)
		}
		return spent <= a.floor
	}
	if i == len(a.nodes) {
		return false
	}
	n := &a.nodes[i]
	open &= n.keep
	if i > 0 && !a.keeps(n.keep, &left) {
		return false
	}
	if least, ok := a.bounds.least(a, i, &left, open); !ok || spent+least >= a.limit {
		return false
	}
	state := arrangeState{left: left, node: uint16(i), open: open}
	if before, ok := a.seen[state]; ok && before <= spent {
		return false
	}
	a.seen[state] = spent
	return a.branch(i, 0, &left, open, spent)
}

// keeps reports whether the domains that have ended hold whole multiples of what their rules say.
func (a *arranger) keeps(keep uint8, left *headcount) bool {
	for k := range a.classes {
		for _, r := range a.classes[k].rules {
			if keep>>r.layer&1 == 0 && int(left[k])%r.size != 0 {
				return false
			}
		}
	}
	return true
}

// branch tries what node i may take of the classes from k on, the most first.
func (a *arranger) branch(i, k int, left *headcount, open uint8, spent cost) bool {
	n := &a.nodes[i]
	if k == len(a.classes) {
		return a.take(i, left, open, spent)
	}
	c := &a.classes[k]
	most := 0
	if n.admits>>k&1 == 1 {
		most = c.most(n, int(left[k]))
	}
	n.add(c, k, most)
	for m := most; ; m-- {
		if a.branch(i, k+1, left, open, spent) {
			return true
		}
		if m == 0 {
			return false
		}
		n.add(c, k, -1)
	}
}

// most returns how many more members the node takes, at most limit.
func (c *arrangeClass) most(n *arrangeNode, limit int) int {
	if c.cards > 0 {
		limit = min(limit, n.cards/c.cards)
	}
	for k, need := range c.needs {
		if need > 0 {
			if n.amounts[k] < need {
				return 0
			}
			limit = int(min(int64(limit), n.amounts[k]/need))
		}
	}
	return limit
}

// add puts members on the node, or takes them off.
func (n *arrangeNode) add(c *arrangeClass, k, count int) {
	n.put[k] = uint16(int(n.put[k]) + count)
	n.cards -= count * c.cards
	for r, need := range c.needs {
		n.amounts[r] -= int64(count) * need
	}
}

// take goes on with what node i takes now, unless it may as well take more.
func (a *arranger) take(i int, left *headcount, open uint8, spent cost) bool {
	n := &a.nodes[i]
	used := n.put != headcount{}
	opens := a.all &^ (open | n.near)
	if used || opens == 0 {
		for k := range a.classes {
			if c := &a.classes[k]; len(c.rules) == 0 && n.put[k] < left[k] && n.admits>>k&1 == 1 && c.most(n, 1) > 0 {
				return false
			}
		}
	}
	if !used {
		return a.visit(n.next, *left, open, spent)
	}
	rest := *left
	for k, m := range n.put {
		rest[k] -= m
	}
	for l := range a.layers {
		if opens>>l&1 == 1 {
			spent += a.unit[l]
		}
	}
	return a.visit(i+1, rest, a.all, spent)
}
