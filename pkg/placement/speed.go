package placement

import (
	"math"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// unlimited is the speed of a node that does not limit a ring.
const unlimited topology.Bandwidth = math.MaxInt64

// speeds knows how fast a ring runs in and out of nodes, for members of one class at one level. Thousands of nodes are of
// few kinds, that is, have cards in the same state and as many NICs.
type speeds struct {
	kinds map[speedKind]int32
	// kindOf is the kind of each slot; rates are those of each kind by the number of members less one, as far as it
	// holds any, and most is that number.
	kindOf []int32
	rates  [][]topology.Bandwidth
}

type speedKind struct {
	shape [32]byte
	free  topology.GPUSet
	nics  int
}

// learn sorts the slots into kinds and computes their rates for members of the class in a gang that spans layer root.
func (p *Planner) learn(c *class, root int) {
	y, t, held := &p.speeds, &p.tree, p.knap.held
	y.kinds = map[speedKind]int32{}
	y.kindOf = append(y.kindOf[:0], make([]int32, len(held))...)
	y.rates = y.rates[:0]
	level := t.layers[root].level
	rates := p.rates()
	for s, most := range held {
		if most == 0 {
			continue
		}
		v := p.problem.Nodes[t.slots[s].node].View
		key := speedKind{}
		if v != nil && v.Topology != nil {
			key.shape, key.free = v.Topology.Shape().Fingerprint(), v.Free
			if level > topology.LevelNVLink {
				key.nics = max(1, NICs(v.Topology))
			}
		}
		kind, ok := y.kinds[key]
		if !ok {
			kind = int32(len(y.rates))
			y.kinds[key] = kind
			y.rates = append(y.rates, nil)
		}
		y.kindOf[s] = kind
		for m := len(y.rates[kind]) + 1; m <= int(most); m++ {
			rate := p.places.ring(&c.ask, v, m)
			if rate == 0 {
				rate = unlimited
			}
			if edge := rates.Edge(level, key.nics); edge > 0 {
				rate = min(rate, edge)
			}
			y.rates[kind] = append(y.rates[kind], rate)
		}
	}
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
