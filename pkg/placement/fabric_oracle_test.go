package placement_test

import (
	"math"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The fabric oracle tries every set of nodes, and writes down what a placement is worth as a list of numbers, smaller ones
// first. It shares no code with the planner; of package allocate it asks for rings.
type fabricOracle struct {
	p      *placement.Problem
	ask    *placement.Role
	levels []topology.Level
	held   []int
	// rate is the speed of a ring through so many members on a node, inside and out at each level.
	rates map[[3]int]int64
	// running are the nodes of the running part, as indices of nodes or as -1 - the index of a running member.
	running []int
}

const noLimit = math.MaxInt64

func newFabricOracle(p *placement.Problem) *fabricOracle {
	o := newDomainOracle(p)
	for i := range p.Nodes {
		o.held = append(o.held, held(&p.Nodes[i], 0, o.ask, p.Need))
	}
	return o
}

// newDomainOracle knows the domains and what runs, and not what nodes hold.
func newDomainOracle(p *placement.Problem) *fabricOracle {
	o := &fabricOracle{p: p, ask: &p.Roles[0], rates: map[[3]int]int64{}}
	for i := range p.Nodes {
		if p.Near[p.Nodes[i].Name] {
			o.running = append(o.running, i)
		}
	}
	for i := range p.Placed {
		at := slices.IndexFunc(p.Nodes, func(n placement.Node) bool { return n.Name == p.Placed[i].Node })
		if at < 0 {
			at = -1 - i
		}
		o.running = append(o.running, at)
	}
	domains := 0
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		seen := map[string]bool{}
		for i := range p.Nodes {
			seen[o.domain(l, i)] = true
		}
		for i := range p.Placed {
			seen[o.domain(l, -1-i)] = true
		}
		// A level that divides the nodes like the one before says nothing new.
		if l == topology.LevelHost || p.Fabric.Known(l) && len(seen) != domains {
			o.levels = append(o.levels, l)
		}
		domains = len(seen)
	}
	return o
}

// domain names the domain of a node, or of a running member.
func (o *fabricOracle) domain(l topology.Level, at int) string {
	var name string
	var pos int
	if at >= 0 {
		name, pos = string(o.p.Nodes[at].Name), o.p.Nodes[at].Position
	} else {
		name, pos = string(o.p.Placed[-1-at].Node), o.p.Placed[-1-at].Position
	}
	if pos < 0 || l == topology.LevelHost {
		return "host " + name
	}
	return o.p.Fabric.Domain(l, pos).Name
}

// rate is the speed of a ring through m members on node i of a gang that spans the level.
func (o *fabricOracle) rate(i, m int, span topology.Level) int64 {
	key := [3]int{i, m, int(span)}
	if r, ok := o.rates[key]; ok {
		return r
	}
	rate, v := int64(noLimit), o.p.Nodes[i].View
	if o.ask.Request == nil {
		return rate
	}
	c := allocate.NewChooser()
	if claim := o.ask.Request.Claims[0]; claim.Kind == allocate.KindWhole {
		set := oneByOne(c, v, o.ask.Request, m)
		if total, plain := o.ask.Request.Plain(); plain {
			set, _, _, _ = c.Assess(v, whole(m*total))
		}
		if r := c.QualityOf(v, set).Bottleneck; r > 0 {
			rate = int64(r)
		}
	}
	switch {
	case span == topology.LevelNVLink:
		rate = min(rate, 721_800)
	case span > topology.LevelNVLink:
		nics := 0
		for _, nic := range v.Topology.NICs() {
			if slices.ContainsFunc(nic.Links, func(l topology.LinkType) bool { return l == topology.LinkPIX || l == topology.LinkPXB }) {
				nics++
			}
		}
		over := map[topology.Level]float64{topology.LevelLeaf: 1, topology.LevelSpine: 1.2, topology.LevelCore: 2, topology.LevelZone: 4, topology.LevelRegion: 8, topology.LevelCluster: 16}
		rate = min(rate, int64(math.Round(50_000*float64(max(1, nics))/over[span])))
	}
	o.rates[key] = rate
	return rate
}

// oneByOne is the cards of m members that choose one after the other.
func oneByOne(c *allocate.Chooser, v *allocate.View, r *allocate.Request, m int) topology.GPUSet {
	left := *v
	left.Use = slices.Clone(v.Use)
	for range m {
		choice, _, _ := c.Choose(&left, r)
		for _, share := range choice.Cards {
			left.Free = left.Free.Without(share.Index)
			allocate.Occupy(&left.Use[share.Index], share)
		}
	}
	return v.Free &^ left.Free
}

// span is the narrowest level of which the nodes and the running part use one domain.
func (o *fabricOracle) span(nodes []int) topology.Level {
	return o.spanOf(append(slices.Clone(nodes), o.running...))
}

func (o *fabricOracle) spanOf(nodes []int) topology.Level {
	for _, l := range o.levels {
		seen := map[string]bool{}
		for _, i := range nodes {
			seen[o.domain(l, i)] = true
		}
		if len(seen) == 1 {
			return l
		}
	}
	return topology.LevelCluster
}

// allowed reports whether the gang may use the nodes. What is near is not known to be of the role.
func (o *fabricOracle) allowed(nodes []int) bool {
	own := slices.Clone(nodes)
	for i := range o.p.Placed {
		own = append(own, -1-i)
	}
	return o.allows(o.span(nodes)) && (!o.ask.HasRequired || o.within(o.spanOf(own), o.ask.Required))
}

// allows reports whether the gang may span the level.
func (o *fabricOracle) allows(span topology.Level) bool {
	return (!o.p.HasRequired || o.within(span, o.p.Required)) &&
		(!o.p.HasCeiling || !o.p.Fabric.Known(o.p.Ceiling) || o.within(span, o.p.Ceiling))
}

// within reports whether a level is as narrow as the limit.
func (o *fabricOracle) within(span, limit topology.Level) bool {
	// A level without labels is as narrow as the widest known level below.
	for limit > topology.LevelHost && !o.p.Fabric.Known(limit) {
		limit--
	}
	return span <= limit
}

// worth is the list of numbers of a placement on these nodes whose slowest part runs at the rate.
func (o *fabricOracle) worth(nodes []int, rate int64) []int64 {
	span := o.span(nodes)
	out := []int64{int64(span)}
	near := func(l topology.Level, d string) bool {
		return slices.ContainsFunc(o.running, func(at int) bool { return o.domain(l, at) == d })
	}
	var free []int64
	for _, l := range o.levels {
		if l > span {
			break
		}
		seen := map[string]bool{}
		for _, i := range nodes {
			if d := o.domain(l, i); !near(l, d) || l == topology.LevelHost {
				seen[d] = true
			}
		}
		count, sum := int64(0), int64(0)
		for d := range seen {
			if !near(l, d) {
				count++
			}
			for i := range o.p.Nodes {
				if o.domain(l, i) == d {
					sum += o.free(i)
				}
			}
		}
		if l < span {
			out = append(out, count)
		}
		free = append(free, sum)
	}
	out = append(out, -rate, o.crossings(nodes))
	slices.Reverse(free)
	return append(out, free...)
}

// free is what is free on a node: whole cards, or places for requests that share cards or have none.
func (o *fabricOracle) free(i int) int64 {
	if r := o.ask.Request; r == nil || r.Claims[0].Kind == allocate.KindShare {
		return int64(o.held[i])
	}
	if v := o.p.Nodes[i].View; v != nil {
		return int64(v.Free.Len())
	}
	return 0
}

// crossings is the number of boundaries to both neighbours of a single member that comes to a running gang.
func (o *fabricOracle) crossings(nodes []int) int64 {
	if len(o.p.Placed) == 0 || o.p.Need != 1 || o.p.Members[0].Rank < 0 {
		return 0
	}
	rank, n := o.p.Members[0].Rank, int64(0)
	before, after, lowest, highest := -1, -1, -1, -1
	for i, m := range o.p.Placed {
		better := func(at int, less bool) bool { return at < 0 || (m.Rank < o.p.Placed[at].Rank) == less }
		if m.Rank <= rank && better(before, false) {
			before = i
		}
		if m.Rank > rank && better(after, true) {
			after = i
		}
		if better(lowest, true) {
			lowest = i
		}
		if better(highest, false) {
			highest = i
		}
	}
	if before < 0 {
		before = highest
	}
	if after < 0 {
		after = lowest
	}
	for _, at := range []int{before, after} {
		for _, l := range o.levels {
			if o.domain(l, nodes[0]) != o.domain(l, -1-at) {
				n++
			}
		}
		// The cluster is one.
	}
	return n
}

// best is the smallest list of all placements on nodes of the set; nil if there is none.
func (o *fabricOracle) best(of int) []int64 {
	var best []int64
	for set := 1; set < 1<<len(o.p.Nodes); set++ {
		if set&^of != 0 {
			continue
		}
		var nodes []int
		sum := 0
		for i := range o.p.Nodes {
			if set>>i&1 == 1 {
				nodes = append(nodes, i)
				sum += o.held[i]
			}
		}
		if sum < o.p.Need || !o.allowed(nodes) {
			continue
		}
		rate, ok := o.fastest(nodes)
		if !ok {
			continue
		}
		if w := o.worth(nodes, rate); best == nil || slices.Compare(w, best) < 0 {
			best = w
		}
	}
	return best
}

// fastest is the rate of the fastest ring through the members on these nodes, each of which has some.
func (o *fabricOracle) fastest(nodes []int) (int64, bool) {
	span := o.span(nodes)
	var rates []int64
	for _, i := range nodes {
		for m := 1; m <= o.held[i]; m++ {
			rates = append(rates, o.rate(i, m, span))
		}
	}
	slices.Sort(rates)
	for k := len(rates) - 1; k >= 0; k-- {
		sum, all := 0, true
		for _, i := range nodes {
			m := o.held[i]
			for m > 0 && o.rate(i, m, span) < rates[k] {
				m--
			}
			sum += m
			all = all && m > 0
		}
		if all && sum >= o.p.Need && sum-o.p.Need <= sum-len(nodes) {
			return rates[k], true
		}
	}
	return 0, false
}

// around are the nodes that share the domains that a plan uses, of the narrowest level above the nodes.
func (o *fabricOracle) around(plan *placement.Plan) int {
	if len(o.levels) < 2 {
		return -1
	}
	used := map[string]bool{}
	for _, at := range o.running {
		used[o.domain(o.levels[1], at)] = true
	}
	for _, i := range o.nodesOf(plan) {
		used[o.domain(o.levels[1], i)] = true
	}
	set := 0
	for i := range o.p.Nodes {
		if used[o.domain(o.levels[1], i)] {
			set |= 1 << i
		}
	}
	return set
}

// nodesOf are the nodes of each assignment.
func (o *fabricOracle) nodesOf(plan *placement.Plan) []int {
	var out []int
	for _, a := range plan.Assignments {
		out = append(out, slices.IndexFunc(o.p.Nodes, func(n placement.Node) bool { return n.Name == a.Node }))
	}
	return out
}

// worthOf is the list of numbers of a plan.
func (o *fabricOracle) worthOf(plan *placement.Plan) []int64 {
	on := map[int]int{}
	for _, i := range o.nodesOf(plan) {
		on[i]++
	}
	var nodes []int
	for i := range on {
		nodes = append(nodes, i)
	}
	slices.Sort(nodes)
	rate, span := int64(noLimit), o.span(nodes)
	for i, m := range on {
		rate = min(rate, o.rate(i, m, span))
	}
	return o.worth(nodes, rate)
}
