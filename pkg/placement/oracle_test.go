package placement_test

import (
	"math/bits"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The oracle tries everything. It shares no code with the planner and asks no Chooser.

// held is the largest number of members of a role that one node holds, at most limit.
func held(n *placement.Node, role int, r *placement.Role, limit int) int {
	if n.Roles>>role&1 == 0 {
		return 0
	}
	for k, need := range r.Needs {
		byAmount := 0
		for need > 0 && byAmount < limit && n.Free[k] >= need*int64(byAmount+1) {
			byAmount++
		}
		if need > 0 {
			limit = byAmount
		}
	}
	if r.Request == nil || len(r.Request.Claims) == 0 || limit == 0 {
		return limit
	}
	if n.View == nil || n.View.Topology == nil {
		return 0
	}
	switch c := &r.Request.Claims[0]; c.Kind {
	case allocate.KindShare:
		return min(limit, heldShares(n.View, c, limit))
	case allocate.KindMIG:
		return min(limit, freeInstances(n.View, c.Profile)/c.Count)
	default:
		return min(limit, mostSets(n.View, n.View.Free, c.Count, r.Request, map[topology.GPUSet]int{}))
	}
}

// mostSets is the largest number of disjoint sets of so many of the free cards that the policies allow.
func mostSets(v *allocate.View, free topology.GPUSet, size int, r *allocate.Request, known map[topology.GPUSet]int) int {
	if most, ok := known[free]; ok {
		return most
	}
	most := 0
	for set := topology.GPUSet(1); set <= free; set++ {
		if set&^free == 0 && bits.OnesCount64(uint64(set)) == size && allowed(v, set, r) {
			most = max(most, 1+mostSets(v, free&^set, size, r, known))
		}
	}
	known[free] = most
	return most
}

func allowed(v *allocate.View, set topology.GPUSet, r *allocate.Request) bool {
	numa := -2
	for i := range set.All() {
		if r.NIC == allocate.NICRequire && v.Topology.Shape().NearestNIC(i) < topology.LinkPXB {
			return false
		}
		id := v.Topology.Card(i).NUMA
		if r.NUMA == allocate.NUMARequire && set.Len() > 1 && (id == topology.NUMAUnknown || numa != -2 && numa != id) {
			return false
		}
		numa = id
	}
	return true
}

// heldShares puts shares of one card each on the cards one by one.
func heldShares(v *allocate.View, c *allocate.Claim, limit int) int {
	n := 0
	for i := range v.Topology.Len() {
		card, use := v.Topology.Card(i), v.Use[i]
		if !card.Healthy || card.MIGEnabled || v.Closed.Has(i) || card.VRAMBytes == 0 {
			continue
		}
		for n < limit && use.VRAMBytes+c.VRAMBytes <= card.VRAMBytes && use.ComputeMilli+c.ComputeMilli <= 1000 &&
			(c.ComputeMilli > 0 || use.ComputeMilli < 1000) && (c.ComputeMilli < 1000 || use.Holders == 0) {
			use.VRAMBytes += c.VRAMBytes
			use.ComputeMilli += c.ComputeMilli
			use.Holders++
			n++
		}
	}
	return n
}

func freeInstances(v *allocate.View, profile string) int {
	n := 0
	for i := range v.Topology.Len() {
		card := v.Topology.Card(i)
		for _, m := range card.MIG {
			if card.Healthy && card.MIGEnabled && !v.Closed.Has(i) && m.Profile == profile && v.Use[i].SliceMask>>m.Start&1 == 0 {
				n++
			}
		}
	}
	return n
}

// fewestNew is the smallest number of nodes, beside the near ones, that hold want members of role 0; -1 if all do not.
func fewestNew(p *placement.Problem, want int) int {
	best := -1
	for set := range 1 << len(p.Nodes) {
		sum, fresh := 0, 0
		for i := range p.Nodes {
			n := &p.Nodes[i]
			if set>>i&1 == 1 {
				sum += held(n, 0, &p.Roles[0], want)
				if !p.Near[n.Name] {
					fresh++
				}
			}
		}
		if sum >= want && (best < 0 || fresh < best) {
			best = fresh
		}
	}
	return best
}

// mostPlaced is the largest number of members of role 0 that the nodes hold together, at most limit.
func mostPlaced(p *placement.Problem, limit int) int {
	sum := 0
	for i := range p.Nodes {
		sum += held(&p.Nodes[i], 0, &p.Roles[0], limit)
	}
	return min(sum, limit)
}

// fewestMixed is the smallest number of nodes, beside the near ones, that hold so many members of each role, all of
// which ask for plain cards or none; -1 if they cannot all be held.
func fewestMixed(p *placement.Problem, want []int) int {
	type state struct {
		node int
		left string
	}
	known := map[state]int{}
	var place func(i int, left []int) int
	place = func(i int, left []int) int {
		done := true
		key := make([]byte, len(left))
		for k, n := range left {
			done = done && n == 0
			key[k] = byte(n)
		}
		switch {
		case done:
			return 0
		case i == len(p.Nodes):
			return -1
		}
		at := state{i, string(key)}
		if got, ok := known[at]; ok {
			return got
		}
		best := -1
		n := &p.Nodes[i]
		cost := 1
		if p.Near[n.Name] {
			cost = 0
		}
		each(left, func(put []int) {
			total, cards := 0, 0
			rest := make([]int, len(left))
			for k, count := range put {
				total += count
				rest[k] = left[k] - count
				if count > 0 && n.Roles>>k&1 == 0 {
					return
				}
				if r := p.Roles[k].Request; r != nil {
					cards += count * r.Claims[0].Count
				}
			}
			free := 0
			if n.View != nil {
				free = n.View.Free.Len()
			}
			if cards > free || !amountsHold(p, n, put) {
				return
			}
			after := place(i+1, rest)
			if total > 0 && after >= 0 {
				after += cost
			}
			if after >= 0 && (best < 0 || after < best) {
				best = after
			}
		})
		known[at] = best
		return best
	}
	return place(0, want)
}

func amountsHold(p *placement.Problem, n *placement.Node, put []int) bool {
	for r := range p.Resources {
		var need int64
		for k, count := range put {
			need += int64(count) * p.Roles[k].Needs[r]
		}
		if need > 0 && need > n.Free[r] {
			return false
		}
	}
	return true
}

// each yields every way to take at most left of each; the slice is reused.
func each(left []int, yield func([]int)) {
	put := make([]int, len(left))
	var rec func(k int)
	rec = func(k int) {
		if k == len(left) {
			yield(put)
			return
		}
		for put[k] = 0; put[k] <= left[k]; put[k]++ {
			rec(k + 1)
		}
		put[k] = 0
	}
	rec(0)
}

// fitsMixed reports whether any selection of the needed members fits.
func fitsMixed(p *placement.Problem) bool {
	have := make([]int, len(p.Roles))
	for i := range p.Members {
		have[p.Members[i].Role]++
	}
	fits := false
	each(have, func(want []int) {
		total := 0
		for _, n := range want {
			total += n
		}
		if !fits && total == p.Need {
			fits = fewestMixed(p, append([]int(nil), want...)) >= 0
		}
	})
	return fits
}
