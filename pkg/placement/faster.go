package placement

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// faster returns a layout on layer k with the same numbers of nodes and domains as the given one, whose slowest node is
// faster on the way out, or the given one. It asks, for one number of NICs after the other, whether the numbers stay the
// same if members with GPUs use only nodes that have as many.
func (p *Planner) faster(k int, best *layout) (*layout, error) {
	if p.tree.layers[k].level <= topology.LevelNVLink {
		return best, nil
	}
	spent, choices := p.spent(best), p.moreNICs(k, p.fewestNICs(best))
	if len(choices) == 0 {
		return best, nil
	}
	counts := p.count
	defer func() { p.count, p.barred = counts, nil }()
	for low, high := 0, len(choices); low < high; {
		middle := (low + high) / 2
		p.bar(counts, choices[middle])
		other, _, err := p.tryLayer(k, false)
		if err != nil {
			return nil, err
		}
		if other != nil && compareLevels(p.spent(other), spent) == 0 {
			best, low = other, middle+1
		} else {
			high = middle
		}
	}
	p.enter(best.root, best.domain)
	return best, nil
}

// edgeNICs is the number of NICs that counts for the way out of a node.
func (p *Planner) edgeNICs(i int) int {
	v := p.problem.Nodes[i].View
	if v == nil {
		return 1
	}
	return max(1, NICs(v.Topology))
}

// fewestNICs returns the smallest number of NICs of the nodes that hold members with GPUs; 0 if there are none.
func (p *Planner) fewestNICs(l *layout) int {
	fewest := 0
	for k, parts := range l.parts {
		if p.class[k].way == noCards {
			continue
		}
		for _, at := range parts {
			if n := p.edgeNICs(at.node); fewest == 0 || n < fewest {
				fewest = n
			}
		}
	}
	return fewest
}

// moreNICs returns the numbers of NICs, ascending and above the given one, of nodes that hold members with GPUs, in domains
// of layer k that may hold the gang; none for 0.
func (p *Planner) moreNICs(k, above int) []int {
	var out []int
	from, to := p.tree.candidates(k)
	if above == 0 || from == to {
		return nil
	}
	first, _ := p.tree.layers[k].span(from)
	_, end := p.tree.layers[k].span(to - 1)
	for s := first; s < end; s++ {
		i := int(p.tree.slots[s].node)
		if i < 0 || !p.holdsCards(i) {
			continue
		}
		if n := p.edgeNICs(i); n > above && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (p *Planner) holdsCards(i int) bool {
	for k := range p.class {
		if p.class[k].way != noCards && p.count[k][i] > 0 {
			return true
		}
	}
	return false
}

// bar keeps members with GPUs from nodes with fewer NICs; counts are the counts without that.
func (p *Planner) bar(counts [][]int32, nics int) {
	p.barred = make([]bool, len(p.problem.Nodes))
	for i := range p.barred {
		p.barred[i] = p.edgeNICs(i) < nics
	}
	p.count = make([][]int32, len(counts))
	for k := range p.class {
		if p.count[k] = counts[k]; p.class[k].way == noCards {
			continue
		}
		p.count[k] = slices.Clone(counts[k])
		for i, barred := range p.barred {
			if barred {
				p.count[k][i] = 0
			}
		}
	}
}

// admits reports whether members of the class may run on the node.
func (p *Planner) admits(c *class, i int) bool {
	return c.admits(&p.problem.Nodes[i]) && (p.barred == nil || c.way == noCards || !p.barred[i])
}
