package placement

import (
	"math"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// unlimited is the speed of a node that does not limit a ring.
const unlimited topology.Bandwidth = math.MaxInt64

// speeds knows how fast a ring runs in and out of nodes, for members of one class at one level.
type speeds struct {
	// kindOf is the kind of each slot; rates are those of each kind by the number of members less one, as far as a slot of
	// the kind holds any.
	kindOf []int32
	rates  [][]topology.Bandwidth
}

// learn computes the rates of the slots' kinds for members of the class in a gang that spans layer root.
func (p *Planner) learn(c *class, root int) {
	y, t, held := &p.speeds, &p.tree, p.knap.held
	y.kindOf = slices.Grow(y.kindOf[:0], len(held))[:len(held)]
	y.rates = slices.Grow(y.rates[:0], len(p.facts.kinds))[:len(p.facts.kinds)]
	for k := range y.rates {
		y.rates[k] = y.rates[k][:0]
	}
	level := t.layers[root].level
	for s, most := range held {
		if most == 0 {
			continue // its kind is not read
		}
		i := t.slots[s].node
		k := p.facts.nodes[i].kind
		y.kindOf[s] = k
		for m := len(y.rates[k]) + 1; m <= int(most); m++ {
			y.rates[k] = append(y.rates[k], p.rateOf(c, level, p.problem.Nodes[i].View, k, m))
		}
	}
}

// rateOf is how fast the ring runs with m members on a node of the kind, which has that view.
func (p *Planner) rateOf(c *class, level topology.Level, v *allocate.View, k int32, m int) topology.Bandwidth {
	rate, nics := p.places.ring(&c.ask, v, m), 0
	if rate == 0 {
		rate = unlimited
	}
	if level > topology.LevelNVLink {
		nics = p.facts.kinds[k].nics
	}
	if edge := p.rates().Edge(level, nics); edge > 0 {
		rate = min(rate, edge)
	}
	return rate
}

// values returns the different rates, ascending.
func (y *speeds) values() []topology.Bandwidth {
	var all []topology.Bandwidth
	for _, rates := range y.rates {
		for _, r := range rates {
			if at, ok := slices.BinarySearch(all, r); !ok {
				all = slices.Insert(all, at, r)
			}
		}
	}
	return all
}

// atLeast writes to out how many of the held members each slot holds at a rate of at least the given one.
func (y *speeds) atLeast(rate topology.Bandwidth, held, out []int32) []int32 {
	out = append(out[:0], held...)
	for s, m := range held {
		if m == 0 {
			continue
		}
		rates := y.rates[y.kindOf[s]]
		m = min(m, int32(len(rates)))
		for m > 0 && rates[m-1] < rate {
			m--
		}
		out[s] = m
	}
	return out
}

// rates returns the problem's rates or the built-in ones.
func (p *Planner) rates() *FabricRates {
	if p.problem.Rates == (FabricRates{}) {
		p.defaults = DefaultFabricRates()
		return &p.defaults
	}
	return &p.problem.Rates
}
