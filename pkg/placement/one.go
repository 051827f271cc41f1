package placement

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// planOne plans a gang of one class on the fabric: in one domain of the narrowest level that has a domain with room, and
// there in the one that costs the least.
func (p *Planner) planOne() (*Plan, *Rejection, error) {
	c, need := &p.class[0], p.problem.Need
	chosen := p.firstMembers(c, need)
	held := func(i int) int { return int(p.count[0][i]) }
	p.prepare(c, 0, -1, chosen, held)
	l := &layout{parts: make([][]part, 1), sums: []int{need}, order: p.order}
	rest, gap := p.complete(c, chosen, l, held)
	if gap != nil {
		return nil, gap, nil
	}
	limit := min(p.limitOf(), p.limitOfClass(c))
	for k := 0; k <= limit && len(rest) > 0; k++ {
		from, to := p.tree.candidates(k)
		p.scaleTo(k, len(rest))
		d := p.settle(c, k, from, to, len(rest), k)
		if d < 0 {
			continue
		}
		l.parts[0] = p.nodes(p.knap.deal(k, d, len(rest), p.groups(rest)))
		break
	}
	if len(rest) > 0 && l.parts[0] == nil {
		return nil, p.reject(p.nearestOf(limit, need-len(rest))), nil
	}
	plan, err := p.assign(l)
	return plan, nil, err
}

// firstMembers returns the members of the class that are placed, in rank order.
func (p *Planner) firstMembers(c *class, need int) []int {
	chosen := slices.Clone(c.members[:need])
	p.giveRanks(chosen)
	p.sortByRank(chosen)
	return chosen
}

// nodes turns parts by slot into parts by node.
func (p *Planner) nodes(parts []part) []part {
	for i := range parts {
		parts[i].node = int(p.tree.slots[parts[i].node].node)
	}
	return parts
}

// nearestOf says how near the gang comes to fit in one domain of the layer; bound of its members have places already.
func (p *Planner) nearestOf(k, bound int) *attempt {
	from, to := p.tree.candidates(k)
	if from == to {
		return &attempt{wants: []int{p.problem.Need}, apart: len(p.tree.slots) > 0, layer: k}
	}
	most, at := -1, from
	for d := from; d < to; d++ {
		if n := p.knap.capacity(k, d); n > most {
			most, at = n, d
		}
	}
	p.enter(k, at)
	out := &attempt{domain: p.area(k, at), placeable: min(bound+most, p.problem.Need-1), wants: []int{p.problem.Need}, layer: k}
	out.sliced = p.knap.slice > 1 && k > p.knap.sliceAt
	return out
}

// enter makes a domain the one at hand.
func (p *Planner) enter(k, d int) {
	p.root, p.rootDomain = k, d
	p.within = p.within[:0]
	first, end := p.tree.layers[k].span(d)
	for s := first; s < end; s++ {
		if i := p.tree.slots[s].node; i >= 0 {
			p.within = append(p.within, int(i))
		}
	}
	p.domain = p.within
}

// area describes a domain for rejections.
func (p *Planner) area(k, d int) area {
	out := area{level: p.levelAt(k), nodes: p.domain}
	if k < len(p.tree.layers)-1 || p.tree.layers[k].domains() > 1 {
		out.name = p.tree.domainAt(out.level, int(p.tree.layers[k].first[d])).Name
	}
	return out
}

// levelAt returns the level of a layer: of those with the same domains, the one that the gang is limited to.
func (p *Planner) levelAt(k int) topology.Level {
	out := p.tree.layers[k].level
	if l := p.problem.Ceiling; p.problem.HasCeiling && p.problem.Fabric.Known(l) && p.tree.layerOf[l] == k {
		out = l
	}
	if l := p.problem.Required; p.problem.HasRequired && p.problem.Fabric.Known(l) && p.tree.layerOf[l] == k {
		out = l
	}
	return out
}
