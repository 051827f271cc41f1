package ledger

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// location says whether the card of a share is among the node's cards.
type location uint8

const (
	// here: the card is listed.
	here location = iota
	// gone: the card is not listed; no listed card can be it.
	gone
	// lost: the card is not listed under its index, but a listed card may be it.
	lost
)

// place finds the card of a share on the node as it is now. The UUID decides; the index is only the card's place when
// the share was made. It counts where the share or the card at that index has no UUID, because then nothing shows
// that they differ.
func place(t *topology.Node, s *allocate.CardShare) (int, location) {
	if t == nil {
		return -1, gone
	}
	inRange := s.Index < t.Len()
	if s.UUID == "" {
		if inRange {
			return s.Index, here
		}
		return -1, lost
	}
	var there string
	if inRange {
		there = t.Card(s.Index).UUID
		if there == s.UUID {
			return s.Index, here
		}
	}
	if at := t.IndexOf(s.UUID); at >= 0 {
		return at, here
	}
	if inRange && there == "" {
		return s.Index, here
	}
	for i := range t.Len() {
		if t.Card(i).UUID == "" {
			return -1, lost
		}
	}
	return -1, gone
}

// charge is what a share takes of card at, on which it lies: the numbers that are counted, without the UUID. A whole
// card takes all of the card, whatever size its record names.
func charge(t *topology.Node, at int, s *allocate.CardShare) allocate.CardShare {
	vram, milli := s.VRAMBytes, s.ComputeMilli
	if s.Whole() {
		vram, milli = t.Card(at).VRAMBytes, allocate.MilliPerCard
	}
	return allocate.CardShare{
		Index: at, SliceMask: s.SliceMask, VRAMBytes: vram, ComputeMilli: milli, MIGProfile: s.MIGProfile,
	}
}

// wholes returns the cards that can be given out whole while nobody holds a part of them.
func wholes(t *topology.Node) topology.GPUSet { return t.Usable() &^ t.MIGCards() }

// instanceAt reports whether a card has this MIG instance.
func instanceAt(c topology.Card, s *allocate.CardShare) bool {
	for _, m := range c.MIG {
		if m.Profile == s.MIGProfile && m.SliceMask() == s.SliceMask {
			return true
		}
	}
	return false
}
