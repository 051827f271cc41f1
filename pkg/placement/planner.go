package placement

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
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
	// domain are the nodes of the domain at hand, all those of the cluster without domains; seen is the number of the
	// last domain that each node was in.
	domain, all []int
	seen        []int32
	near, far   []candidate
	rooms       rooms
}

// NewPlanner returns a Planner that chooses cards with the given chooser, which it may share with others.
func NewPlanner(chooser *allocate.Chooser) *Planner {
	return &Planner{places: places{chooser: chooser}}
}

// attempt is what came of the try to place the gang in one domain.
type attempt struct {
	domain Domain
	// layout is set where the gang fits.
	layout *layout
	// placeable is how many members could be placed otherwise; blame is the class that is short and wants are how many
	// of each class were to be placed.
	placeable, blame int
	wants            []int
	// together says that each class alone would find its places.
	together bool
}

// layout is a place for each of some members of each class.
type layout struct {
	// parts are the nodes of each class and sums the numbers of members, by class.
	parts [][]part
	sums  []int
	// order is the order of classes in which members take cards on a node.
	order []int
}

// Plan places the gang, or says why it cannot be placed now. An error is an *InputError for a problem that cannot be,
// and else a bug. The problem is not changed.
func (p *Planner) Plan(problem *Problem) (*Plan, *Rejection, error) {
	if err := problem.check(); err != nil {
		return nil, nil, err
	}
	p.problem = problem
	defer func() { p.problem = nil }()
	p.places.reset()
	p.classes(problem)
	p.countAll()
	var nearest *attempt
	number := int32(0)
	for d := range p.domains() {
		number++
		if err := p.enter(d, number); err != nil {
			return nil, nil, err
		}
		plan, try, err := p.planIn(d.Name)
		if err != nil || plan != nil {
			return plan, nil, err
		}
		if nearest == nil || try.placeable > nearest.placeable {
			try.domain = Domain{Name: d.Name, Nodes: append([]int(nil), p.domain...)}
			nearest = &try
		}
	}
	if nearest == nil {
		nearest = &attempt{wants: p.selection(p.members())}
	}
	return nil, p.reject(nearest), nil
}

// planIn plans the gang in the domain at hand, or says how near it came.
func (p *Planner) planIn(name string) (*Plan, attempt, error) {
	try, err := p.try()
	if err != nil || try.layout == nil {
		return nil, try, err
	}
	plan, err := p.assign(name, try.layout)
	if err != nil || plan != nil {
		return plan, attempt{}, err
	}
	try = attempt{placeable: p.problem.Need - 1}
	p.blame(&try, p.alone())
	return nil, try, nil
}

// domains yields the problem's domains, or the whole cluster.
func (p *Planner) domains() iter.Seq[Domain] {
	if p.problem.Domains != nil {
		return p.problem.Domains(p.problem.Nodes)
	}
	return func(yield func(Domain) bool) {
		p.all = p.all[:0]
		for i := range p.problem.Nodes {
			p.all = append(p.all, i)
		}
		yield(Domain{Nodes: p.all})
	}
}

// enter makes a domain the one at hand.
func (p *Planner) enter(d Domain, number int32) error {
	if number == 1 {
		p.seen = append(p.seen[:0], make([]int32, len(p.problem.Nodes))...)
	}
	for k, i := range d.Nodes {
		if i < 0 || i >= len(p.seen) || p.seen[i] == number {
			return &InputError{
				Field: fmt.Sprintf("domain %.64q.nodes[%d]", d.Name, k), Value: strconv.Itoa(i),
				Reason: fmt.Sprintf("must be an index of one of %d nodes, once", len(p.seen)),
			}
		}
		p.seen[i] = number
	}
	p.domain = d.Nodes
	return nil
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
			p.count[k][i] = int32(p.places.onNode(c, &p.problem.Nodes[i], limit))
		}
	}
}

// alone returns how many members of each class the domain at hand holds if it holds nothing else, at most all of the
// class and all that are needed.
func (p *Planner) alone() []int {
	sums := make([]int, len(p.class))
	for k := range p.class {
		limit := min(len(p.class[k].members), p.problem.Need)
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
func (p *Planner) isNear(i int) bool {
	return len(p.problem.Near) > 0 && p.problem.Near[p.problem.Nodes[i].Name]
}
