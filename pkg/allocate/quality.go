package allocate

import (
	"cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Quality says how good a choice of cards is, in the order in which Compare looks at it.
type Quality struct {
	// Broken counts the cards that nobody used and that the choice takes in part. 0 for whole cards.
	Broken int
	// Bottleneck is the slowest pair of the best ring over the cards (each card once, back to the first), the
	// rate at which a ring collective runs. Two cards are a ring of one pair; a single card has no ring: 0.
	// MIG instances have no peer-to-peer path and stand outside.
	Bottleneck topology.Bandwidth
	// PairSum is the sum over all pairs of the cards.
	PairSum topology.Bandwidth
	// NUMANodes counts the NUMA nodes of the cards, each card of an unknown one for itself; 0 under NUMANone.
	NUMANodes int
	// NearNICs counts the cards with a network adapter at PIX or PXB; 0 under NICNone.
	NearNICs int
	// Remaining is the size of the largest set of cards, among those still free after the choice, whose best ring
	// runs at the node's fastest pair bandwidth; 0 where no pair of them does. On nodes of more than
	// ExhaustiveCards cards it is the largest group joined by fastest pairs, an upper bound.
	Remaining int
	// RemainingSum is the sum over all pairs of the cards still free after the choice.
	RemainingSum topology.Bandwidth
	// SpareBytes is the memory left over on the cards that the choice takes in part.
	SpareBytes int64
	// FreeLeft counts the cards still free after the choice. Compare does not look at it: it is for packing nodes.
	FreeLeft int
}

// Compare returns a positive number if q is the better choice on one node, a negative one if o is, 0 for a tie: fewer
// Broken, then more Bottleneck, PairSum, then fewer NUMANodes, then more NearNICs, Remaining, RemainingSum, then less
// SpareBytes. It is a total order. Between nodes it is one too, but there what remains depends on what was free
// before: to pack nodes, look at FreeLeft.
func (q Quality) Compare(o Quality) int {
	switch {
	case q.Broken != o.Broken:
		return cmp.Compare(o.Broken, q.Broken)
	case q.Bottleneck != o.Bottleneck:
		return cmp.Compare(q.Bottleneck, o.Bottleneck)
	case q.PairSum != o.PairSum:
		return cmp.Compare(q.PairSum, o.PairSum)
	case q.NUMANodes != o.NUMANodes:
		return cmp.Compare(o.NUMANodes, q.NUMANodes)
	case q.NearNICs != o.NearNICs:
		return cmp.Compare(q.NearNICs, o.NearNICs)
	case q.Remaining != o.Remaining:
		return cmp.Compare(q.Remaining, o.Remaining)
	case q.RemainingSum != o.RemainingSum:
		return cmp.Compare(q.RemainingSum, o.RemainingSum)
	}
	return cmp.Compare(o.SpareBytes, q.SpareBytes)
}

// Choice is what a request gets on a node. It is read-only: its parts may share memory.
type Choice struct {
	// Cards is what the pod holds, card by card in ascending Index: of parts of one card the sum, the largest of
	// all phases of the pod; of MIG instances one entry each, by ascending slices.
	Cards []CardShare
	// Containers says what each container that claims gets, in the order of the request. Containers that do not
	// run at the same time may name the same card.
	Containers []ContainerShare
	// Quality is the quality of all cards together.
	Quality Quality
}

// ContainerShare is one container's part of a choice.
type ContainerShare struct {
	Name string
	// Cards has one entry for each card of each claim and for each MIG instance, by ascending Index and slices.
	Cards []CardShare
}

// Set returns the cards of the choice.
func (c Choice) Set() topology.GPUSet {
	var s topology.GPUSet
	for i := range c.Cards {
		s = s.With(c.Cards[i].Index)
	}
	return s
}
