package engine

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// cardCounts are the cards of a node by state. Each card is in one: the first of these that is true.
type cardCounts struct {
	// held cards have a holder, of a part or of the whole; foreign ones are set aside for pods whose cards nobody can name.
	held, foreign int
	// unusable cards are sick or faulty; closed ones are kept from new pods for another reason.
	unusable, closed int
	// free cards can be given to a pod, whole or, in MIG mode, by instance.
	free int
}

func (c cardCounts) all() int { return c.held + c.foreign + c.unusable + c.closed + c.free }

func countCards(a *ledger.NodeGPUAllocation) cardCounts {
	if a.Topology == nil {
		return cardCounts{}
	}
	rest := a.Topology.All()
	take := func(s topology.GPUSet) int {
		taken := rest & s
		rest &^= taken
		return taken.Len()
	}
	var c cardCounts
	c.held, c.foreign = take(heldCards(a)), take(a.Foreign)
	c.unusable, c.closed = take(^a.Topology.Usable()), take(a.Closed)
	c.free = rest.Len()
	return c
}

func heldCards(a *ledger.NodeGPUAllocation) topology.GPUSet {
	var held topology.GPUSet
	for i := range a.Use {
		if a.Use[i].Holders > 0 {
			held = held.With(i)
		}
	}
	return held
}
