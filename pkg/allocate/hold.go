package allocate

import (
	"fmt"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// migSlices are the memory slices of a card in MIG mode, as bits of a slice mask.
const migSlices = uint64(0xff)

// HoldError is a share that a node cannot hold now.
type HoldError struct {
	// Index is the card, Reason what stands in the way.
	Index  int
	Reason string
}

// Error names the card and the reason.
func (e *HoldError) Error() string { return fmt.Sprintf("card %d: %s", e.Index, e.Reason) }

// Occupy adds a share to a card's use. It checks nothing: CanHold does.
func Occupy(use *CardUse, s CardShare) {
	use.SliceMask |= s.SliceMask
	use.VRAMBytes += s.VRAMBytes
	use.ComputeMilli += s.ComputeMilli
	use.Holders++
}

// Vacate takes a share that Occupy added out of a card's use again. It is exact while the holders' slice masks are
// disjoint; where pods were bound past each other by others, count the use anew from what is held.
func Vacate(use *CardUse, s CardShare) {
	use.SliceMask &^= s.SliceMask
	use.VRAMBytes -= s.VRAMBytes
	use.ComputeMilli -= s.ComputeMilli
	use.Holders--
}

// CanHold reports whether one pod can take all the shares as things stand; nil if it can, else a *HoldError. Every
// choice made on this view passes. The rules, for each share beside the card's use and the shares before it:
//
//   - the card exists, is usable and not closed, and has the share's UUID where both are known;
//   - slices, bytes and compute are free, and slices enough for the bytes of a share (CardUse.Room); nothing is negative or
//     above one card;
//   - a whole card, and a share that promises all compute, has no other holder;
//   - a share without a promise joins only while some compute is not promised;
//   - a part of a card needs a card that is not in MIG mode and whose memory is known;
//   - a MIG instance exists as it stands on a card in MIG mode.
func (v *View) CanHold(shares []CardShare) error {
	for i := range shares {
		s := &shares[i]
		if v.Topology == nil || s.Index < 0 || s.Index >= v.Topology.Len() || s.Index >= len(v.Use) {
			return &HoldError{Index: s.Index, Reason: "the node has no such card"}
		}
		use := v.Use[s.Index]
		for j := range i {
			if shares[j].Index == s.Index {
				Occupy(&use, shares[j])
			}
		}
		if reason := v.hinder(s, &use); reason != "" {
			return &HoldError{Index: s.Index, Reason: reason}
		}
	}
	return nil
}

// hinder says why a card with this use cannot take the share; "" if it can.
func (v *View) hinder(s *CardShare, use *CardUse) string {
	switch {
	case v.Closed.Has(s.Index):
		return "closed to new pods"
	case !v.Topology.Usable().Has(s.Index):
		return "unhealthy"
	case s.VRAMBytes < 0 || s.ComputeMilli < 0 || s.ComputeMilli > MilliPerCard || use.VRAMBytes < 0 || use.ComputeMilli < 0:
		return "bytes or compute out of range"
	case use.SliceMask&s.SliceMask != 0:
		return "slices in use"
	}
	card := v.Topology.Card(s.Index)
	if s.UUID != "" && card.UUID != "" && s.UUID != card.UUID {
		return "its UUID is " + card.UUID + ", not " + s.UUID
	}
	if s.MIGProfile != "" {
		if !hasInstance(&card, s) {
			return "no such MIG instance"
		}
		return ""
	}
	return partHinder(s, use, &card)
}

// partHinder is hinder for whole cards and parts of cards.
func partHinder(s *CardShare, use *CardUse, card *topology.Card) string {
	whole := s.Whole()
	switch {
	case card.MIGEnabled:
		return "in MIG mode"
	case !whole && card.VRAMBytes <= 0:
		return "its memory is not known"
	case !whole && s.VRAMBytes == 0:
		return "a share without memory"
	case use.Holders != 0 && (whole || s.ComputeMilli == MilliPerCard):
		return "in use"
	case use.VRAMBytes > card.VRAMBytes || s.VRAMBytes > card.VRAMBytes-use.VRAMBytes:
		return "not enough memory left"
	case !whole && s.VRAMBytes > use.Room(card.VRAMBytes):
		return "not enough slices left"
	case s.ComputeMilli > MilliPerCard-use.ComputeMilli,
		s.ComputeMilli == 0 && use.ComputeMilli == MilliPerCard:
		return "not enough compute left"
	}
	return ""
}

// hasInstance reports whether the share is an instance of the card.
func hasInstance(card *topology.Card, s *CardShare) bool {
	if !card.MIGEnabled {
		return false
	}
	for i := range card.MIG {
		m := &card.MIG[i]
		if m.Profile == s.MIGProfile && m.SliceMask() == s.SliceMask && m.SliceMask()&^migSlices == 0 && s.SliceMask != 0 {
			return true
		}
	}
	return false
}
