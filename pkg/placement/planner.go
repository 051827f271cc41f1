package placement

import (
	"fmt"
	"math"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Planner plans gangs. It keeps memory between plans and nothing else: a plan depends on its problem alone. One caller
// at a time.
type Planner struct {
	places  places
	problem *Problem
	// class are the classes of members, order their indices from the largest ask to the smallest.
	class []class
	order []int
	// count says for each class how many members each node holds by itself, at most all of the class.
	count [][]int32
	// rank is the rank of each member; unranked says that the problem gives none.
	rank     []int
	unranked bool
	// near says of each node whether the running part of the gang uses it.
	near []bool
	// barred are nodes that are kept from members with GPUs for the moment; nil for none.
	barred []bool
	// domain are the nodes of the domain at hand, which is domain rootDomain of layer root of the tree where there is one.
	domain, within   []int
	root, rootDomain int

	// nearby and others are memory for fill, rooms is what a try for several classes takes, budget the steps left to search.
	nearby, others []candidate
	rooms          rooms
	arranger       arranger
	budget         int

	tree     tree
	knap     knapsack
	speeds   speeds
	fixed    []fixed
	defaults FabricRates
	// facts are what is known of the nodes from the last problem.
	facts facts
}

// NewPlanner returns a Planner that chooses cards with the given chooser, which it may share with others.
func NewPlanner(chooser *allocate.Chooser) *Planner {
	return &Planner{places: places{chooser: chooser}}
}

// area is a domain as rejections tell of it: its name, "" for the whole cluster, and its nodes.
type area struct {
	level topology.Level
	name  string
	nodes []int
}

// attempt is what came of the try to place the gang in one domain.
type attempt struct {
	domain area
	layer  int
	// layout is set where the gang fits.
	layout *layout
	// placeable is how many members could be placed otherwise; blame is the class that is short and wants are how many
	// of each class were to be placed.
	placeable, blame int
	wants            []int
	// together says that each class alone would find its places, sliced that slices are what does not fit, apart that the
	// running part of the gang uses several domains of the level.
	together, sliced, apart bool
}

// layout is a place for each of some members of each class.
type layout struct {
	// parts are the nodes of each class and sums the numbers of members, by class.
	parts [][]part
	sums  []int
	// seated are members of the first class whose places are not among the parts.
	seated []seated
	// order is the order of classes in which members take cards on a node.
	order []int
	// root and domain are the domain of the tree in which the layout is.
	root, domain int
}

// Plan places the gang, or says why it cannot be placed now. An error is an *InputError for a problem that cannot be,
// and else a bug. The problem is not changed.
func (p *Planner) Plan(problem *Problem) (*Plan, *Rejection, error) {
	if err := problem.check(&p.facts); err != nil {
		return nil, nil, err
	}
	p.facts.keep(problem)
	p.problem = problem
	defer func() { p.problem = nil }()
	p.places.reset()
	p.classes(problem)
	p.takeRanks()
	p.countAll()
	p.takeNear()
	if problem.Fabric == nil {
		return p.planFlat()
	}
	if err := p.tree.build(problem); err != nil {
		return nil, nil, err
	}
	p.tree.anchor(p.isNear, problem.Placed)
	p.takeFixed()
	if len(p.class) > 1 || p.tree.first >= 0 && p.limitOfClass(&p.class[0]) < p.limitOf() {
		return p.planMany()
	}
	return p.planOne()
}

// planFlat plans the gang on a cluster without a fabric.
func (p *Planner) planFlat() (*Plan, *Rejection, error) {
	p.within = p.within[:0]
	for i := range p.problem.Nodes {
		p.within = append(p.within, i)
	}
	p.domain, p.fixed, p.budget = p.within, p.fixed[:0], math.MaxInt
	try, err := p.try()
	if err != nil {
		return nil, nil, err
	}
	if try.layout != nil {
		plan, err := p.assign(try.layout)
		if err != nil || plan != nil {
			return plan, nil, err
		}
		try = attempt{placeable: p.problem.Need - 1}
		p.blame(&try, p.alone())
	}
	try.domain.nodes = p.domain
	return nil, p.reject(&try), nil
}

// takeNear notes the nodes that the running part of the gang uses.
func (p *Planner) takeNear() {
	p.near = append(p.near[:0], make([]bool, len(p.problem.Nodes))...)
	placed := map[ledger.NodeName]bool{}
	for i := range p.problem.Placed {
		placed[p.problem.Placed[i].Node] = true
	}
	if len(placed)+len(p.problem.Near) == 0 {
		return
	}
	for i := range p.near {
		name := p.problem.Nodes[i].Name
		p.near[i] = p.problem.Near[name] || placed[name]
	}
}

// countAll counts, for each class, the members that each node holds by itself.
func (p *Planner) countAll() {
	n := len(p.problem.Nodes)
	for len(p.count) < len(p.class) {
		p.count = append(p.count, nil)
	}
	for k := range p.class {
		if cap(p.count[k]) < n {
			p.count[k] = make([]int32, n)
		}
		p.count[k] = p.count[k][:n]
		c := &p.class[k]
		limit := min(len(c.members), p.problem.Need)
		for i := range n {
			p.count[k][i] = int32(p.onNode(c, i, limit))
		}
	}
}

// onNode returns how many members of the class the node holds, at most limit.
func (p *Planner) onNode(c *class, i, limit int) int {
	n := &p.problem.Nodes[i]
	if !c.admits(n) {
		return 0
	}
	if c.way == plainCards {
		limit = min(limit, int(p.facts.nodes[i].free)/c.cards)
	}
	if limit = c.within(n.Free, limit); limit == 0 || c.way == plainCards {
		return limit
	}
	return p.places.onCards(&c.ask, n.View, limit)
}

// alone returns how many members of each class the domain at hand holds if it holds nothing else, at most all of the
// class and all that are needed.
func (p *Planner) alone() []int {
	sums := make([]int, len(p.class))
	for k := range p.class {
		limit := min(len(p.class[k].members), p.problem.Need)
		if p.bound(&p.class[k]) {
			most, _ := p.aloneBound(k)
			sums[k] = min(limit, most)
			continue
		}
		for _, i := range p.domain {
			if sums[k] += int(p.count[k][i]); sums[k] >= limit {
				sums[k] = limit
				break
			}
		}
	}
	return sums
}

// try places the gang in the domain at hand.
func (p *Planner) try() (attempt, error) {
	if len(p.class) > 1 {
		return p.tryMixed()
	}
	need := p.problem.Need
	if held := p.alone()[0]; held < need {
		return attempt{placeable: held, wants: []int{need}}, nil
	}
	parts, left := p.fill(&p.class[0], p.domain, need, p.isNear, func(i int) int { return int(p.count[0][i]) }, nil)
	if left > 0 {
		return attempt{}, fmt.Errorf("placement: %d members counted on %d nodes, %d found no place", need, len(p.domain), left)
	}
	return attempt{layout: &layout{parts: [][]part{parts}, sums: []int{need}, order: p.order}}, nil
}

// isNear reports whether the running part of the gang uses the node.
func (p *Planner) isNear(i int) bool { return p.near[i] }
