package allocate

import (
	"math/bits"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// WholeCard is the slice mask of a pod that has a card to itself.
	WholeCard = ^uint64(0)
	// SlicesPerCard is the number of parts a card that is not in MIG mode is cut into for its slice mask.
	SlicesPerCard = 64
	// MilliPerCard is the compute of one card in thousandths.
	MilliPerCard = 1000
)

// CardUse is what pods hold of one card, added up.
type CardUse struct {
	// SliceMask is the union of the holders' masks. On a card in MIG mode bits 0 to 7 are memory slices.
	SliceMask uint64
	// VRAMBytes is the sum of the holders' memory.
	VRAMBytes int64
	// ComputeMilli is the sum of the holders' compute, 0 to MilliPerCard.
	ComputeMilli int32
	// Holders counts the shares on the card; 0 means that it is free.
	Holders int32
}

// Room returns the most bytes that another share may take of a card of the given memory: those that no holder has, and no
// more than fill the slices that no holder has. What this package chose always leaves slices enough for the bytes it
// leaves; a record of others may claim slices that its bytes do not fill, and on a card without a free one there is no
// room. 0 to vram.
func (u CardUse) Room(vram int64) int64 {
	left := max(0, vram-u.VRAMBytes)
	if free := int64(SlicesPerCard - bits.OnesCount64(u.SliceMask)); free == 0 {
		return 0
	} else if free < SlicesPerCard {
		// The most bytes of which free slices are the part of vram, rounded down.
		left = min(left, ((free+1)*vram-1)/SlicesPerCard)
	}
	return left
}

// View is one node at one moment, all that a choice of cards depends on. Read-only once built.
type View struct {
	// Topology is the node's graph.
	Topology *topology.Node
	// Use has one entry a card.
	Use []CardUse
	// Closed are the cards that take no new pod, whatever their use: taken by pods whose cards are not known,
	// gone, or in quarantine. Cards that Topology itself reports unusable need not be listed.
	Closed topology.GPUSet
	// Free are the cards that could be given out whole: nobody holds a part of them, they are usable, not in
	// MIG mode and not closed. It follows from the other fields; whoever builds a View keeps it in step.
	Free topology.GPUSet
}

// CardShare is one pod's part of one card.
type CardShare struct {
	// Index is the card's index on its node.
	Index int
	// UUID is the card's UUID, empty if unknown.
	UUID string
	// SliceMask is WholeCard for a whole card; for a share the parts of 1/64 of the card that it alone fills
	// (vramBytes / (card / 64), rounded down: bytes are what is counted, the mask is their picture);
	// for a MIG instance its memory slices as bits 0 to 7.
	SliceMask uint64
	// VRAMBytes is the memory, all of the card's for a whole card.
	VRAMBytes int64
	// ComputeMilli is the promised compute in thousandths of the card, 0 for a share without a promise.
	ComputeMilli int32
	// MIGProfile is the instance's profile, empty for anything else.
	MIGProfile string
}

// Whole reports whether the share is a whole card.
func (s CardShare) Whole() bool { return s.SliceMask == WholeCard }
