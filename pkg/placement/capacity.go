package placement

import (
	"encoding/binary"
	"math/bits"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Capacity returns how many members of a role the node holds beside each other, at most limit: as it is, or, if empty
// is set, as if there were no pods on it. It does not look at Node.Roles. Neither the role nor the view, if any, may
// contradict itself (allocate.Request.Validate, allocate.View.Check): on such input the answer is 0. Safe for
// concurrent use.
//
// The number is exact for whole cards, for a share of one card and for instances of one MIG profile; for other requests
// members are placed one after the other, which may hold fewer than another arrangement would.
func Capacity(c *allocate.Chooser, n *Node, r *Role, empty bool, limit int) int {
	a := askOf(r)
	v, amounts := n.View, n.Free
	if empty {
		amounts = n.Total
		if v != nil && v.Topology != nil {
			clean := &allocate.View{Topology: v.Topology, Use: make([]allocate.CardUse, v.Topology.Len())}
			clean.Free = allocate.FreeCards(clean.Topology, clean.Use, clean.Closed)
			v = clean
		}
	}
	if limit = a.within(amounts, limit); limit == 0 {
		return 0
	}
	switch a.way {
	case noCards:
		return limit
	case plainCards:
		return min(limit, a.plain(v))
	case oneShare:
		return a.shares(v, limit)
	case byTrial:
	}
	var s scratch
	count, _ := s.trial(c, v, a.request, limit)
	return count
}

// within returns how many members the amounts hold, at most limit. Amounts that are not known hold any number.
func (a *ask) within(amounts []int64, limit int) int {
	limit = max(0, limit)
	for k, have := range amounts {
		if need := a.needs[k]; need > 0 {
			if have < need {
				return 0
			}
			limit = int(min(int64(limit), have/need))
		}
	}
	return limit
}

// plain returns how many members the free cards hold.
func (a *ask) plain(v *allocate.View) int {
	if v == nil || v.Topology == nil {
		return 0
	}
	return v.Free.Len() / a.cards
}

// shares returns how many shares of one card the cards hold, at most limit. Shares of one size on one card are
// interchangeable, so the cards' numbers add up. The rules are those of package allocate.
func (a *ask) shares(v *allocate.View, limit int) int {
	if v == nil || v.Topology == nil {
		return 0
	}
	claim, n := &a.request.Claims[0], 0
	for i := range (v.Topology.Usable() &^ v.Topology.MIGCards() &^ v.Closed).All() {
		if n >= limit {
			break
		}
		if a.request.NIC == allocate.NICRequire && v.Topology.Shape().NearestNIC(i) < topology.LinkPXB {
			continue
		}
		n += sharesOn(claim, v.Topology.Card(i).VRAMBytes, &v.Use[i], limit-n)
	}
	return n
}

// sharesOn returns how many shares one card holds, at most limit.
func sharesOn(c *allocate.Claim, vram int64, use *allocate.CardUse, limit int) int {
	bytes := bytesOn(c, vram)
	left := use.Room(vram)
	if vram <= 0 || left < bytes {
		return 0
	}
	n := int(min(int64(limit), left/bytes))
	switch milli := int(allocate.MilliPerCard - use.ComputeMilli); {
	case c.ComputeMilli == allocate.MilliPerCard:
		if use.Holders != 0 {
			return 0
		}
		return min(n, 1)
	case milli <= 0:
		return 0
	case c.ComputeMilli > 0:
		return min(n, milli/int(c.ComputeMilli))
	}
	return n
}

// bytesOn returns a share's bytes on a card of the given memory: as claimed, or the fraction rounded up.
func bytesOn(c *allocate.Claim, vram int64) int64 {
	if c.FractionPPB == 0 {
		return c.VRAMBytes
	}
	hi, lo := bits.Mul64(uint64(max(0, vram)), uint64(c.FractionPPB))
	lo, carry := bits.Add64(lo, allocate.WholePPB-1, 0)
	quotient, _ := bits.Div64(hi+carry, lo, allocate.WholePPB)
	return int64(quotient)
}

// scratch is a node's cards to try things on.
type scratch struct {
	view allocate.View
}

// load makes the scratch a copy of v.
func (s *scratch) load(v *allocate.View) {
	use := s.view.Use[:0]
	use = append(use, v.Use...)
	s.view = *v
	s.view.Use = use
}

// choose chooses cards for one more member and takes them; ok is false where there are none.
func (s *scratch) choose(c *allocate.Chooser, r *allocate.Request) (choice allocate.Choice, ok bool, err error) {
	choice, rej, err := c.Choose(&s.view, r)
	if err != nil || rej != nil {
		return allocate.Choice{}, false, err
	}
	s.take(&choice)
	return choice, true, nil
}

// take takes the cards of a choice.
func (s *scratch) take(choice *allocate.Choice) {
	for i := range choice.Cards {
		s.view.Free = s.view.Free.Without(choice.Cards[i].Index)
		allocate.Occupy(&s.view.Use[choice.Cards[i].Index], choice.Cards[i])
	}
}

// release gives back what choose took.
func (s *scratch) release(choice *allocate.Choice, free topology.GPUSet) {
	for i := range choice.Cards {
		allocate.Vacate(&s.view.Use[choice.Cards[i].Index], choice.Cards[i])
	}
	s.view.Free = free
}

// trial places members on a copy of v until the next finds no cards, at most limit. It returns their number and the
// cards of all together.
func (s *scratch) trial(c *allocate.Chooser, v *allocate.View, r *allocate.Request, limit int) (int, topology.GPUSet) {
	if v == nil || v.Topology == nil {
		return 0, 0
	}
	s.load(v)
	var set topology.GPUSet
	for n := range limit {
		choice, ok, err := s.choose(c, r)
		if !ok || err != nil {
			return n, set
		}
		set |= choice.Set()
	}
	return limit, set
}

// trialKey is what a trial depends on.
func trialKey(b []byte, v *allocate.View, wholeOnly bool) []byte {
	fingerprint := v.Topology.Shape().Fingerprint()
	b = append(b, fingerprint[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(v.Free))
	if wholeOnly {
		return b
	}
	b = binary.BigEndian.AppendUint64(b, uint64(v.Topology.Usable()&^v.Closed))
	b = binary.BigEndian.AppendUint64(b, uint64(v.Topology.MIGCards()))
	for i := range v.Use {
		u := &v.Use[i]
		b = binary.BigEndian.AppendUint64(b, u.SliceMask)
		b = binary.BigEndian.AppendUint64(b, uint64(u.VRAMBytes))
		b = binary.BigEndian.AppendUint32(b, uint32(u.ComputeMilli))
		b = binary.BigEndian.AppendUint32(b, uint32(u.Holders))
		b = binary.BigEndian.AppendUint64(b, uint64(v.Topology.Card(i).VRAMBytes))
	}
	for i := range v.Topology.MIGCards().All() {
		instances := v.Topology.Card(i).MIG
		b = binary.BigEndian.AppendUint32(b, uint32(len(instances)))
		for _, m := range instances {
			b = binary.BigEndian.AppendUint64(b, m.SliceMask())
			b = binary.BigEndian.AppendUint64(b, uint64(m.VRAMBytes))
			b = binary.BigEndian.AppendUint32(b, uint32(len(m.Profile)))
			b = append(b, m.Profile...)
		}
	}
	return b
}

// wholeOnly reports whether the request is for whole cards alone.
func wholeOnly(r *allocate.Request) bool {
	for i := range r.Claims {
		if r.Claims[i].Kind != allocate.KindWhole {
			return false
		}
	}
	return true
}
