package placement_test

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// mixedOracle finds the best level and numbers of domains for a gang of several roles that ask for plain cards or none.
type mixedOracle struct {
	*fabricOracle
	want []int
	// order are the nodes in the order of the fabric.
	order []int
	// barred, if set, keeps members with GPUs from a node.
	barred func(node int) bool
	// gaveUp says that a search did.
	gaveUp bool
}

func newMixedOracle(p *placement.Problem) *mixedOracle {
	o := &mixedOracle{fabricOracle: newDomainOracle(p), want: make([]int, len(p.Roles))}
	for _, m := range p.Members {
		o.want[m.Role]++
	}
	for i := range p.Nodes {
		o.order = append(o.order, i)
	}
	slices.SortFunc(o.order, func(a, b int) int {
		x, y := &p.Nodes[a], &p.Nodes[b]
		if x.Position < 0 || y.Position < 0 {
			return cmp.Or(cmp.Compare(y.Position, x.Position), cmp.Compare(x.Name, y.Name))
		}
		return cmp.Compare(x.Position, y.Position)
	})
	return o
}

// best is the smallest list of level and numbers of domains, nil if the gang fits nowhere.
func (o *mixedOracle) best() []int64 {
	for k, l := range append(slices.Clone(o.levels), topology.LevelCluster) {
		if !o.allows(l) {
			break
		}
		var best []int64
		for _, root := range o.roots(l) {
			if cost, ok := o.inside(root, k); ok {
				w := []int64{int64(l)}
				for j := range k {
					w = append(w, int64(cost[j]))
				}
				if best == nil || slices.Compare(w, best) < 0 {
					best = w
				}
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// roots are the nodes of each domain of a level that has all of the running part.
func (o *mixedOracle) roots(l topology.Level) [][]int {
	of := map[string][]int{}
	name := func(at int) string {
		if l == topology.LevelCluster {
			return ""
		}
		return o.domain(l, at)
	}
	var names []string
	for _, i := range o.order {
		d := name(i)
		if of[d] == nil {
			names = append(names, d)
		}
		of[d] = append(of[d], i)
	}
	var out [][]int
	for _, d := range names {
		if !slices.ContainsFunc(o.running, func(at int) bool { return name(at) != d }) {
			out = append(out, of[d])
		}
	}
	return out
}

// inside finds the least numbers of domains of the first levels in one domain, whose nodes are given.
func (o *mixedOracle) inside(nodes []int, levels int) (bnbCost, bool) {
	b := &bnb{gangs: 1, layers: levels}
	var groups []topology.Level
	for r := range o.p.Roles {
		c := bnbKind{want: o.want[r], needs: o.p.Roles[r].Needs}
		if a := o.p.Roles[r].Request; a != nil {
			c.cards = a.Claims[0].Count
			if o.p.Slice.Size > 1 {
				b.rules = append(b.rules, bnbRule{len(groups), o.p.Slice.Size, []int{r}})
				groups = append(groups, o.p.Slice.Level)
			}
		}
		if o.p.Roles[r].HasRequired {
			b.rules = append(b.rules, bnbRule{len(groups), 0, []int{r}})
			groups = append(groups, o.p.Roles[r].Required)
		}
		b.kinds = append(b.kinds, c)
	}
	for _, i := range nodes {
		b.nodes = append(b.nodes, o.node(i, o.levels[:levels], groups))
	}
	cost, ok := b.solve()
	o.gaveUp = o.gaveUp || b.exhausted()
	return cost, ok
}

// node is a node for the search; the domains of the levels cost something, those of the groups are for rules.
func (o *mixedOracle) node(i int, levels, groups []topology.Level) bnbNode {
	n := bnbNode{amounts: o.p.Nodes[i].Free, admits: o.p.Nodes[i].Roles}
	if v := o.p.Nodes[i].View; v != nil {
		n.cards = v.Free.Len()
	}
	for r := range o.p.Roles {
		if o.barred != nil && o.p.Roles[r].Request != nil && o.barred(i) || !o.besideRunning(r, i) {
			n.admits &^= 1 << r
		}
	}
	id := func(l topology.Level) int {
		for l > topology.LevelHost && l < topology.LevelCluster && !o.p.Fabric.Known(l) {
			l--
		}
		if l == topology.LevelCluster {
			return 0
		}
		return slices.IndexFunc(o.order, func(j int) bool { return o.domain(l, i) == o.domain(l, j) })
	}
	for _, l := range levels {
		n.domain = append(n.domain, id(l))
		n.near = append(n.near, slices.ContainsFunc(o.running, func(at int) bool { return o.domain(l, at) == o.domain(l, i) }))
	}
	for _, l := range groups {
		n.groups = append(n.groups, id(l))
	}
	return n
}

// besideRunning reports whether the node is in the one domain of the role's level with the role's running members.
func (o *mixedOracle) besideRunning(r, i int) bool {
	if !o.p.Roles[r].HasRequired {
		return true
	}
	own := []int{i}
	for k := range o.p.Placed {
		if o.p.Placed[k].Role == r {
			own = append(own, -1-k)
		}
	}
	return o.within(o.spanOf(own), o.p.Roles[r].Required)
}
