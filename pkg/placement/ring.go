package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// stop is a member on the gang's way through the cluster: its rank, and the slot of its node.
type stop struct {
	rank, slot int
	gpus       bool
}

// describe fills in what a plan says about domains, the ring and the layout.
func (p *Planner) describe(plan *Plan, seats []seat, assignments []Assignment) {
	if p.problem.Fabric == nil {
		p.plainTree(seats)
	}
	stops := make([]stop, 0, len(seats)+len(p.problem.Placed))
	for i := range seats {
		stops = append(stops, stop{assignments[i].Rank, p.slotOf(seats[i].node), len(assignments[i].Choice.Cards) > 0})
	}
	for i := range p.problem.Placed {
		m := &p.problem.Placed[i]
		gpus := m.Role < 0 || p.problem.Roles[m.Role].Request != nil
		stops = append(stops, stop{m.Rank, p.tree.find(m), gpus})
	}
	slices.SortStableFunc(stops, func(a, b stop) int {
		if a.rank < 0 || b.rank < 0 {
			return cmp.Compare(b.rank, a.rank)
		}
		return cmp.Compare(a.rank, b.rank)
	})
	p.describeDomains(plan, stops)
	p.describeRing(plan, stops)
	plan.Ring.Bottleneck = p.bottleneck(stops, seats, assignments)
	p.describeLayout(plan, stops)
}

func (p *Planner) slotOf(node int) int { return int(p.tree.slotOf[node]) }

// known returns the layer of a level below the cluster, false for one that no node carries a label of.
func (p *Planner) known(l topology.Level) (*layer, bool) {
	if f := p.problem.Fabric; l > topology.LevelHost && (f == nil || !f.Known(l)) {
		return nil, false
	}
	return &p.tree.layers[p.tree.layerOf[l]], true
}

// describeDomains counts the domains that are used and finds the narrowest that holds all.
func (p *Planner) describeDomains(plan *Plan, stops []stop) {
	first, last := p.tree.first, p.tree.last
	for _, s := range stops {
		if first < 0 {
			first, last = s.slot, s.slot
		}
		first, last = min(first, s.slot), max(last, s.slot)
	}
	plan.LCA.Level = topology.LevelCluster
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		y, ok := p.known(l)
		if !ok {
			continue
		}
		seen := slices.Clone(y.near)
		for _, s := range stops {
			seen[y.of[s.slot]] = true
		}
		for _, used := range seen {
			if used {
				plan.Domains[l]++
			}
		}
		if y.of[first] == y.of[last] && plan.LCA.Level == topology.LevelCluster {
			plan.LCA.Level = l
		}
	}
	plan.LCA = p.tree.domainAt(plan.LCA.Level, first)
}

// describeRing counts the crossings.
func (p *Planner) describeRing(plan *Plan, stops []stop) {
	ring := ringOf(stops)
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		y, ok := p.known(l)
		if !ok {
			continue
		}
		seen := map[int32]bool{}
		for i := range ring {
			from, to := y.of[ring[i].slot], y.of[ring[(i+1)%len(ring)].slot]
			seen[from] = true
			if from != to {
				plan.Ring.Crossings[l]++
			}
		}
		if len(seen) > 1 {
			plan.Ring.OptimalCrossings[l] = len(seen)
		}
	}
}

// ringOf returns the members that the ring runs through: those with GPUs, or all if none has.
func ringOf(stops []stop) []stop {
	if !slices.ContainsFunc(stops, func(s stop) bool { return s.gpus }) {
		return stops
	}
	out := make([]stop, 0, len(stops))
	for _, s := range stops {
		if s.gpus {
			out = append(out, s)
		}
	}
	return out
}

// bottleneck returns the rate of the slowest part of the ring. Inside a node there is a part of it where all members ask for
// whole cards: what a share gets may be all of a card, but nodes are not compared by that.
func (p *Planner) bottleneck(stops []stop, seats []seat, assignments []Assignment) topology.Bandwidth {
	least, nics := unlimited, math.MaxInt
	for first := 0; first < len(seats); {
		var set topology.GPUSet
		whole, end := true, first
		for ; end < len(seats) && seats[end].node == seats[first].node; end++ {
			set |= assignments[end].Choice.Set()
			if len(assignments[end].Choice.Cards) > 0 {
				whole = whole && wholeOnly(p.problem.Roles[assignments[end].Role].Request)
			}
		}
		n := &p.problem.Nodes[seats[first].node]
		if !set.Empty() {
			nics = min(nics, NICs(n.View.Topology))
			if whole {
				if rate := p.insideOf(n, set, assignments[first:end]); rate > 0 {
					least = min(least, rate)
				}
			}
		}
		first = end
	}
	if nics == math.MaxInt {
		return 0
	}
	if level := p.spanOf(ringOf(stops)); level > topology.LevelHost {
		least = min(least, p.rates().Edge(level, nics))
	}
	if least == unlimited {
		return 0
	}
	return least
}

// insideOf returns the bottleneck of the ring over the cards of members on one node.
func (p *Planner) insideOf(n *Node, set topology.GPUSet, on []Assignment) topology.Bandwidth {
	if len(on) == 1 {
		return on[0].Choice.Quality.Bottleneck
	}
	return p.places.chooser.QualityOf(n.View, set).Bottleneck
}

// spanOf returns the narrowest level of which the members of the ring, and whatever else runs on Problem.Near, use one
// domain.
func (p *Planner) spanOf(ring []stop) topology.Level {
	first, last := ring[0].slot, ring[0].slot
	if len(p.problem.Near) > 0 && p.tree.first >= 0 {
		first, last = min(first, p.tree.first), max(last, p.tree.last)
	}
	for _, s := range ring {
		first, last = min(first, s.slot), max(last, s.slot)
	}
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		if y, ok := p.known(l); ok && y.of[first] == y.of[last] {
			return l
		}
	}
	return topology.LevelCluster
}

// describeLayout lists the ranks of each domain.
func (p *Planner) describeLayout(plan *Plan, stops []stop) {
	for len(stops) > 0 && stops[len(stops)-1].rank < 0 {
		stops = stops[:len(stops)-1]
	}
	for l := topology.LevelRegion; ; l-- {
		if y, ok := p.known(l); ok {
			for first := 0; first < len(stops); {
				end := first + 1
				for end < len(stops) && y.of[stops[end].slot] == y.of[stops[first].slot] && stops[end].rank <= stops[end-1].rank+1 {
					end++
				}
				name := p.tree.domainAt(l, stops[first].slot).Name
				plan.Layout = append(plan.Layout, LayoutRange{Level: l, Name: name, FirstRank: stops[first].rank, LastRank: stops[end-1].rank})
				first = end
			}
		}
		if l == topology.LevelHost {
			return
		}
	}
}

// plainTree makes the tree of a cluster without a fabric, as far as the plan needs it: the nodes that the gang uses.
func (p *Planner) plainTree(seats []seat) {
	t := &p.tree
	at := map[ledger.NodeName]int{}
	t.fabric, t.slots = nil, t.slots[:0]
	add := func(name ledger.NodeName, node int) {
		if _, ok := at[name]; !ok {
			at[name] = len(t.slots)
			t.slots = append(t.slots, slot{node: int32(node), position: -1, name: name})
		}
	}
	for i := range p.problem.Nodes {
		if p.isNear(i) {
			add(p.problem.Nodes[i].Name, i)
		}
	}
	for i := range p.problem.Placed {
		add(p.problem.Placed[i].Node, -1)
	}
	running := len(t.slots)
	for _, s := range seats {
		add(p.problem.Nodes[s.node].Name, s.node)
	}
	t.slotOf = append(t.slotOf[:0], make([]int32, len(p.problem.Nodes))...)
	for _, s := range seats {
		t.slotOf[s.node] = int32(at[p.problem.Nodes[s.node].Name])
	}
	t.cut()
	t.first, t.last = -1, -1
	if running > 0 {
		t.first, t.last = 0, running-1
	}
	for s := range running {
		t.layers[0].near[s] = true
	}
}
