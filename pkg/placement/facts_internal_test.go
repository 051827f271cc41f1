package placement

import (
	"fmt"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// FloorBreach looks, after a plan, for a domain that holds some number of members, up to want, for less than it is said to cost at least. It says which
// one, "" for none.
func (p *Planner) FloorBreach(want int) string {
	z := &p.knap
	for k := 1; k < len(p.tree.layers); k++ {
		for m := 1; m <= want; m++ {
			p.scaleTo(k, m)
			for d := range p.tree.layers[k].domains() {
				if floor, least := z.floor(k, d, m), z.least(k, d, m); least < never && floor > least {
					return fmt.Sprintf("%d members in domain %d of layer %d: at least %x, but %x do", m, d, k, floor, least)
				}
			}
		}
	}
	return ""
}

// TestFactsForgetKinds: the kinds of a planner that has seen many clusters do not grow without end, and each node has its own kind
// after they were forgotten as before.
func TestFactsForgetKinds(t *testing.T) {
	p := &Problem{Nodes: make([]Node, 3)}
	for i := range p.Nodes[1:] {
		n, err := topology.New(topology.Spec{Cards: []topology.Card{{UUID: "a", VRAMBytes: 1, Healthy: true}, {UUID: "b", VRAMBytes: 1, Healthy: true}}}, topology.DefaultRates())
		if err != nil {
			t.Fatal(err)
		}
		p.Nodes[i+1].View = &allocate.View{Topology: n, Use: make([]allocate.CardUse, 2), Free: topology.FirstN(i + 1)}
	}
	var f facts
	f.keep(p)
	before := append([]fact(nil), f.nodes...)
	for n := range maxKinds {
		key := kind{nics: 2 + n}
		f.known[key], f.kinds = int32(len(f.kinds)), append(f.kinds, key)
	}
	f.keep(p)
	if len(f.kinds) != 3 || len(f.known) != 3 {
		t.Fatalf("%d kinds are kept, want those of the three nodes", len(f.kinds))
	}
	for i := range p.Nodes {
		if f.nodes[i] != before[i] {
			t.Errorf("node %d is %+v, was %+v", i, f.nodes[i], before[i])
		}
	}
}
