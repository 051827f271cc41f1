package placement

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// part is a number of members of one class on one node, an index into Problem.Nodes.
type part struct{ node, count int }

// candidate is a node that holds members of a class.
type candidate struct {
	node int
	// count is how many it holds, ring the bottleneck of their cards, free its free whole cards.
	count, free int
	ring        topology.Bandwidth
	taken       bool
}

// sortCandidates puts those that hold more first, then the faster ring, then the fuller node, then the name.
func sortCandidates(nodes []Node, cs []candidate) {
	slices.SortFunc(cs, func(a, b candidate) int {
		switch {
		case a.count != b.count:
			return cmp.Compare(b.count, a.count)
		case a.ring != b.ring:
			return cmp.Compare(b.ring, a.ring)
		case a.free != b.free:
			return cmp.Compare(a.free, b.free)
		}
		return cmp.Compare(nodes[a.node].Name, nodes[b.node].Name)
	})
}

// pick places want members on the fewest of the sorted candidates and appends the parts to out. It returns how many
// members found no place.
//
// Taking the largest first, and for the rest any one node that holds it, uses the fewest nodes: m nodes hold at most
// what the m largest hold. The node for the rest is the one that holds the least of those that hold it; then larger
// nodes are given back for smaller ones as long as all members keep their places.
func pick(cs []candidate, want int, out []part) ([]part, int) {
	first := len(out)
	for i := range cs {
		if want == 0 {
			break
		}
		if cs[i].count < want {
			out = append(out, part{node: i, count: cs[i].count})
			cs[i].taken = true
			want -= cs[i].count
			continue
		}
		at := tightest(cs, i, want)
		cs[at].taken = true
		out = append(out, part{node: at, count: want})
		tighten(cs, out[first:], cs[at].count-want)
		want = 0
	}
	for i := first; i < len(out); i++ {
		out[i].node = cs[out[i].node].node
	}
	return out, want
}

// tightest returns the first of the candidates from i on, not taken, that hold the least of those that hold want; i holds it.
func tightest(cs []candidate, i, want int) int {
	at := -1
	for j := i; j < len(cs) && cs[j].count >= want; j++ {
		if !cs[j].taken && (at < 0 || cs[j].count < cs[at].count) {
			at = j
		}
	}
	return at
}

// tighten replaces, from the largest on, nodes that are filled by smaller ones while the last one, which has room for
// slack more members, can take the difference. The last of parts is that one; parts name candidates.
func tighten(cs []candidate, parts []part, slack int) {
	last := &parts[len(parts)-1]
	hopeless := 0 // nodes filled with so many members have nothing smaller in their place
	for k := 0; k < len(parts)-1 && slack > 0; k++ {
		full := parts[k].count
		if full == hopeless {
			continue
		}
		at := tightest(cs, parts[k].node, full-slack)
		if at < 0 || cs[at].count >= full {
			hopeless = full
			continue
		}
		lost := full - cs[at].count
		cs[parts[k].node].taken, cs[at].taken = false, true
		parts[k] = part{node: at, count: cs[at].count}
		last.count += lost
		slack -= lost
	}
}

// fill places want members of the class on the nodes: first on those that cost nothing, because the gang uses them
// anyway, then on others. held says how many members a node can hold. It returns the number without a place.
func (p *Planner) fill(c *class, nodes []int, want int, used func(node int) bool, held func(node int) int, out []part) ([]part, int) {
	p.nearby, p.others = p.nearby[:0], p.others[:0]
	for _, i := range nodes {
		count := held(i)
		if count == 0 {
			continue
		}
		n := &p.problem.Nodes[i]
		cand := candidate{node: i, count: count}
		if n.View != nil {
			cand.free = n.View.Free.Len()
			cand.ring = p.places.ring(&c.ask, n.View, min(count, want))
		}
		if used(i) {
			p.nearby = append(p.nearby, cand)
		} else {
			p.others = append(p.others, cand)
		}
	}
	sortCandidates(p.problem.Nodes, p.nearby)
	out, want = pick(p.nearby, want, out)
	if want > 0 {
		sortCandidates(p.problem.Nodes, p.others)
		out, want = pick(p.others, want, out)
	}
	return out, want
}

// fillIn places want members of the class in the domain at hand, with a fabric or without: see fill and fillTree.
func (p *Planner) fillIn(c *class, want int, used func(node int) bool, held func(node int) int) ([]part, int) {
	if p.problem.Fabric != nil {
		return p.fillTree(c, want, held)
	}
	return p.fill(c, p.domain, want, used, held, nil)
}
