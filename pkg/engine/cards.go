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
	s := setsOf(a)
	return cardCounts{held: s.held.Len(), foreign: s.foreign.Len(), unusable: s.unusable.Len(), closed: s.closed.Len(), free: s.free.Len()}
}

// cardSets are the cards that cardCounts counts.
type cardSets struct{ held, foreign, unusable, closed, free topology.GPUSet }

func setsOf(a *ledger.NodeGPUAllocation) cardSets {
	rest := a.Topology.All()
	take := func(s topology.GPUSet) topology.GPUSet {
		taken := rest & s
		rest &^= taken
		return taken
	}
	var held topology.GPUSet
	for i := range a.Use {
		if a.Use[i].Holders > 0 {
			held = held.With(i)
		}
	}
	var s cardSets
	s.held, s.foreign = take(held), take(a.Foreign)
	s.unusable, s.closed = take(^a.Topology.Usable()), take(a.Closed)
	s.free = rest
	return s
}
