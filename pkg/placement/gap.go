package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// reject says why the gang fits no domain, by the one that came nearest.
func (p *Planner) reject(near *attempt) *Rejection {
	c, want := &p.class[near.blame], near.wants[near.blame]
	at := near.domain
	if len(at.nodes) > 0 {
		at = p.narrowed(near)
	}
	r := &Rejection{
		Group: p.problem.Group, Domain: at.name, Level: at.level, Need: p.problem.Need, Placeable: near.placeable,
		Role: p.roleName(c), Want: want, GPUs: unitOf(c.request), Nodes: len(at.nodes), Slice: p.problem.Slice,
	}
	p.unlabelled(r, c)
	p.tally(r, c, at.nodes)
	r.GPUs.need(c.request, want)
	needed, free := r.GPUs.Needed, r.GPUs.Free
	if near.together && p.rooms.numbers {
		needed, free = p.allCards(near)
	}
	switch {
	case near.apart:
		r.Gap, r.Level = GapApart, p.levelAt(near.layer)
	case r.Excluded == r.Nodes:
		r.Gap = GapNodes
	case r.GPUs.Kind != 0 && needed > free:
		r.Gap = GapTotal
		r.GPUs.Needed, r.GPUs.Free = needed, free
	case near.together:
		r.Gap = GapTogether
		r.GPUs.Needed, r.GPUs.Free = needed, free
	case r.GPUs.Kind != 0 && r.Places < want:
		r.Gap = GapFragments
	case p.problem.Fabric != nil && p.sliced(c) && p.held(near.blame, at.nodes) >= want:
		r.Gap = GapSlices
	default:
		r.Gap = GapResource
	}
	return r
}

// narrowed returns the domain that the rejection is about: where the class to blame has to keep to a narrower level, the
// best of that inside the one that was tried.
func (p *Planner) narrowed(near *attempt) area {
	if p.problem.Fabric == nil || p.limitOfClass(&p.class[near.blame]) >= near.layer || near.together {
		return near.domain
	}
	k := p.limitOfClass(&p.class[near.blame])
	_, d := p.aloneBound(near.blame)
	if from, to := p.inClass(&p.class[near.blame], k); from == to {
		return near.domain
	}
	p.enter(k, d)
	return p.area(k, d)
}

// unlabelled notes a limit to a level of which no node carries a label.
func (p *Planner) unlabelled(r *Rejection, c *class) {
	if f := p.problem.Fabric; f != nil {
		if role := &p.problem.Roles[c.role]; role.HasRequired && !f.Known(role.Required) {
			r.Unlabelled = role.Required
		}
		if p.problem.HasRequired && !f.Known(p.problem.Required) {
			r.Unlabelled = p.problem.Required
		}
	}
}

// held returns how many members of a class the nodes hold, each by itself.
func (p *Planner) held(k int, nodes []int) int {
	n := 0
	for _, i := range nodes {
		n += int(p.count[k][i])
	}
	return n
}

// roleName returns the name that all roles of the class have, "" where they have several.
func (p *Planner) roleName(c *class) string {
	name := p.problem.Roles[c.role].Name
	for _, m := range c.members {
		if p.problem.Roles[p.problem.Members[m].Role].Name != name {
			return ""
		}
	}
	return name
}

// tally counts nodes, places and amounts of the domain for members of the class.
func (p *Planner) tally(r *Rejection, c *class, domain []int) {
	bars := make([]int, len(p.problem.Bars)+1)
	limiting := make([]int, len(p.problem.Resources))
	for _, i := range domain {
		n := &p.problem.Nodes[i]
		if !c.admits(n) {
			r.Excluded++
			if c.role < len(n.Bars) {
				bars[n.Bars[c.role]]++
			}
			continue
		}
		r.GPUs.add(n.View)
		places := p.places.onCards(&c.ask, n.View, max(1, r.Want))
		if places == 0 {
			continue
		}
		if c.way == noCards {
			r.Places += c.within(n.Free, places)
		} else {
			r.CardNodes++
			r.Places += places
		}
		if k, held := c.scarcest(n.Free); held < int64(places) {
			limiting[k]++
		}
	}
	for k, by := range p.problem.Bars {
		if bars[k+1] > 0 {
			r.ExcludedBy = append(r.ExcludedBy, Exclusion{By: by, Nodes: bars[k+1]})
		}
	}
	slices.SortStableFunc(r.ExcludedBy, func(a, b Exclusion) int { return cmp.Compare(b.Nodes, a.Nodes) })
	for k, nodes := range limiting {
		if nodes > r.ResourceNodes {
			r.Resource, r.ResourceNodes = p.problem.Resources[k], nodes
		}
	}
}

// scarcest returns the resource that holds the fewest members, and how many. Without needs the number is very large.
func (a *ask) scarcest(amounts []int64) (at int, members int64) {
	members = 1 << 62
	for k, have := range amounts {
		if need := a.needs[k]; need > 0 && max(0, have)/need < members {
			at, members = k, max(0, have)/need
		}
	}
	return at, members
}

// allCards returns the cards that all wanted members together need, and those that are free on nodes that admit any of
// those who need some.
func (p *Planner) allCards(near *attempt) (needed, free int64) {
	for k, n := range near.wants {
		needed += min(times(int64(n), int64(p.class[k].cards)), math.MaxInt64-needed)
	}
	for _, i := range near.domain.nodes {
		n := &p.problem.Nodes[i]
		for k := range p.class {
			if p.class[k].cards > 0 && near.wants[k] > 0 && p.class[k].admits(n) && n.View != nil {
				free += int64(n.View.Free.Len())
				break
			}
		}
	}
	return needed, free
}

// unitOf returns the amounts of a request with nothing counted yet.
func unitOf(r *allocate.Request) Amounts {
	a := Amounts{}
	if r == nil {
		return a
	}
	a.NUMA, a.NIC = r.NUMA, r.NIC
	for i := range r.Claims {
		c := &r.Claims[i]
		if a.Kind == 0 || c.Kind < a.Kind {
			a.Kind, a.Profile = c.Kind, c.Profile
		}
	}
	return a
}

// add counts a node in.
func (a *Amounts) add(v *allocate.View) {
	if v == nil || v.Topology == nil {
		return
	}
	switch a.Kind {
	case allocate.KindWhole:
		a.Total += int64((v.Topology.All() &^ v.Topology.MIGCards()).Len())
		a.Free += int64(v.Free.Len())
		a.Largest = max(a.Largest, int64(v.Free.Len()))
	case allocate.KindShare:
		a.addMemory(v)
	case allocate.KindMIG:
		a.addInstances(v)
	}
}

// addMemory counts the memory of cards that take shares. Each is the memory of the smallest card until need is called.
func (a *Amounts) addMemory(v *allocate.View) {
	open := v.Topology.Usable() &^ v.Closed
	for i := range (v.Topology.All() &^ v.Topology.MIGCards()).All() {
		vram := v.Topology.Card(i).VRAMBytes
		if vram <= 0 {
			continue
		}
		a.Total += vram
		if left := v.Use[i].Room(vram); open.Has(i) && left > 0 {
			a.Free += left
			a.Largest = max(a.Largest, left)
		}
		if a.Each == 0 || vram < a.Each {
			a.Each = vram
		}
	}
}

// addInstances counts the instances of the profile.
func (a *Amounts) addInstances(v *allocate.View) {
	var free int64
	open := v.Topology.Usable() &^ v.Closed
	for i := range v.Topology.MIGCards().All() {
		for _, m := range v.Topology.Card(i).MIG {
			if m.Profile != a.Profile {
				continue
			}
			a.Total++
			if open.Has(i) && m.SliceMask()&v.Use[i].SliceMask == 0 {
				free++
			}
		}
	}
	a.Free += free
	a.Largest = max(a.Largest, free)
}

// need fills in what members need, once all nodes are counted.
func (a *Amounts) need(r *allocate.Request, members int) {
	if a.Kind == 0 {
		return
	}
	smallest := a.Each
	a.Each, a.Pieces = 0, 1
	whole := allocate.Request{}
	for i := range r.Claims {
		switch c := &r.Claims[i]; {
		case c.Kind != a.Kind:
		case c.Kind == allocate.KindWhole:
			whole.Claims = append(whole.Claims, *c)
		case c.Kind == allocate.KindMIG && c.Profile == a.Profile:
			a.Each = max(a.Each, int64(c.Count))
		case c.Kind == allocate.KindShare && bytesOn(c, smallest) > a.Each:
			a.Each, a.Pieces = bytesOn(c, smallest), c.Count
		}
	}
	if a.Kind == allocate.KindWhole {
		// The pod's peak of whole cards, as package allocate counts it.
		total, _ := whole.Plain()
		a.Each = int64(total)
	}
	a.Needed = times(times(int64(members), a.Each), int64(a.Pieces))
}

// times multiplies two numbers that are not negative; it stops at the largest int64.
func times(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
