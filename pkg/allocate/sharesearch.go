package allocate

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// searchClaims is the largest number of share claims of sidecars and app containers, on a node of at most
	// ExhaustiveCards cards, for which other arrangements are looked for when placing the larger ones first fails.
	searchClaims = 8
	// searchSteps bounds that search: the number of cards tried for a claim. It takes a fraction of a millisecond.
	searchSteps = 5000
)

// shareSearch looks through the arrangements of shares on cards, depth first, and stops at the first that works.
type shareSearch struct {
	*plan
	order []int
	steps int
}

// searchShares arranges the claims of the order anew so that all of them, and the plain init containers' after them,
// find cards. Cards that are alike and bear nothing of the pod yet are tried once. A false answer is certain unless
// searchSteps ran out. The plan must hold no shares that are to be kept.
func (p *plan) searchShares(order []int) bool {
	clear(p.steady)
	clear(p.peak)
	if len(order) > searchClaims || len(p.steady) > ExhaustiveCards || p.overfull(order) {
		return false
	}
	s := shareSearch{plan: p, order: order, steps: searchSteps}
	return s.place(0)
}

// overfull reports whether the claims' bytes add up to more than all cards together have left.
func (p *plan) overfull(order []int) bool {
	var left, smallest int64
	for i := range (p.allowed &^ p.whole).All() {
		vram := p.v.Topology.Card(i).VRAMBytes
		if vram > 0 {
			left += max(0, vram-p.v.Use[i].VRAMBytes)
			if smallest == 0 || vram < smallest {
				smallest = vram
			}
		}
	}
	for _, i := range order {
		c := &p.r.Claims[i]
		for range min(c.Count, len(p.steady)+1) {
			bytes := c.bytesOn(smallest)
			if bytes > left {
				return true
			}
			left -= bytes
		}
	}
	return false
}

// place finds cards for the claims of the order from k on.
func (s *shareSearch) place(k int) bool {
	if k == len(s.order) {
		return s.placeInit() < 0
	}
	c := &s.r.Claims[s.order[k]]
	var cards []int
	for i := range (s.allowed &^ s.whole).All() {
		if s.v.shareVerdict(i, c, s.steady[i]) == CauseNone {
			cards = append(cards, i)
		}
	}
	slices.SortStableFunc(cards, func(a, b int) int {
		x, y := s.idle(a), s.idle(b)
		switch {
		case x && !y:
			return 1
		case y && !x:
			return -1
		}
		return cmp.Compare(s.left(a), s.left(b))
	})
	return s.choose(k, cards, 0)
}

// choose completes set with cards of the list and goes on with the next claim.
func (s *shareSearch) choose(k int, cards []int, set topology.GPUSet) bool {
	i := s.order[k]
	missing := s.r.Claims[i].Count - set.Len()
	if missing == 0 {
		var saved [ExhaustiveCards]charge
		copy(saved[:], s.steady)
		s.take(i, set)
		if s.place(k + 1) {
			return true
		}
		copy(s.steady, saved[:])
		copy(s.peak, saved[:])
		return false
	}
	for j := 0; j <= len(cards)-missing; j++ {
		if j > 0 && s.alike(cards[j-1], cards[j]) {
			continue // the same was tried with the card before
		}
		if s.steps == 0 {
			return false
		}
		s.steps--
		if s.choose(k, cards[j+1:], set.With(cards[j])) {
			return true
		}
	}
	return false
}

// idle reports whether nobody uses the card.
func (s *shareSearch) idle(i int) bool {
	return s.v.Use[i].Holders == 0 && s.steady[i].claims == 0
}

// left returns the bytes left on the card.
func (s *shareSearch) left(i int) int64 {
	return s.v.Topology.Card(i).VRAMBytes - s.v.Use[i].VRAMBytes - s.steady[i].bytes
}

// room returns the bytes that a share could take on the card if the pod took nothing there.
func (s *shareSearch) room(i int) int64 { return s.v.Use[i].Room(s.v.Topology.Card(i).VRAMBytes) }

// alike reports whether two cards are interchangeable for every claim.
func (s *shareSearch) alike(a, b int) bool {
	x, y := &s.v.Use[a], &s.v.Use[b]
	return s.steady[a].claims == 0 && s.steady[b].claims == 0 &&
		s.v.Topology.Card(a).VRAMBytes == s.v.Topology.Card(b).VRAMBytes &&
		x.VRAMBytes == y.VRAMBytes && x.ComputeMilli == y.ComputeMilli && s.room(a) == s.room(b) && (x.Holders == 0) == (y.Holders == 0)
}
