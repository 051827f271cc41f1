package ledger

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// tally is what derive learns about the cards of a node while it counts the holdings.
type tally struct {
	shared    topology.GPUSet // cards with a holder that is no MIG instance
	whole     topology.GPUSet // cards that a pod holds whole
	instances topology.GPUSet // cards with a MIG instance in use
	twice     topology.GPUSet // cards with a memory slice that two instances claim
	unfit     topology.GPUSet // cards without an instance that a pod holds
	migMask   [topology.MaxCards]uint64
	tangled   bool // slice masks overlap, so that a share cannot be subtracted by its mask
}

// derive builds the state of a node from its cards and what pods hold: base, added up and free of contradictions
// (nil for nothing), and hs. The result is the same for every order of hs. Generation and Pods are left to the caller,
// as are base and extra where the state is not plain.
func derive(name NodeName, t *topology.Node, base []allocate.CardUse, hs []*Holding) *NodeGPUAllocation {
	cards := 0
	if t != nil {
		cards = t.Len()
	}
	a := newAllocation(cards)
	a.Name, a.Topology = name, t
	copy(a.Use, base)
	var c tally
	for i := range a.Use {
		if u := &a.Use[i]; u.Holders > 0 {
			c.note(t, i, allocate.CardShare{SliceMask: u.SliceMask}, t.MIGCards().Has(i))
		}
	}
	var s special
	for _, h := range hs {
		for i := range h.Cards {
			a.count(&c, &s, h, &h.Cards[i])
		}
	}
	foreign := false
	if t != nil {
		a.addCardConflicts(&c, &s, hs)
		a.Closed = c.closed(t)
		foreign = a.setForeignAside(&s, hs)
		a.settle(&s)
	}
	sortMissing(s.missing)
	sortConflicts(s.conflicts)
	s.conflicts = slices.CompactFunc(s.conflicts, Conflict.equal)
	if t == nil || c.tangled || foreign || len(s.missing) > 0 || len(s.conflicts) > 0 {
		kept := s
		a.special = &kept
	}
	return a
}

// count adds one share of a holding to the state.
func (a *NodeGPUAllocation) count(c *tally, sp *special, h *Holding, s *allocate.CardShare) {
	at, where := place(a.Topology, s)
	switch where {
	case gone:
		sp.missing = append(sp.missing, MissingShare{Pod: h.label(), Share: *s})
		return
	case lost:
		sp.missing = append(sp.missing, MissingShare{Pod: h.label(), Share: *s})
		sp.conflicts = append(sp.conflicts, Conflict{Kind: ConflictLost, Card: s.Index, UUID: s.UUID, Pods: []string{h.label()}})
		return
	case here:
	}
	u, taken := &a.Use[at], charge(a.Topology, at, s)
	c.tangled = c.tangled || u.SliceMask&taken.SliceMask != 0
	if c.whole.Has(at) || taken.Whole() && u.Holders > 0 {
		c.twice = c.twice.With(at)
	}
	c.note(a.Topology, at, taken, s.MIGProfile != "")
	allocate.Occupy(u, taken)
}

// note records what kind of share card i has.
func (c *tally) note(t *topology.Node, i int, s allocate.CardShare, mig bool) {
	if !mig {
		c.shared = c.shared.With(i)
		if s.Whole() {
			c.whole = c.whole.With(i)
		}
		return
	}
	c.instances = c.instances.With(i)
	if c.migMask[i]&s.SliceMask != 0 {
		c.twice = c.twice.With(i)
	}
	c.migMask[i] |= s.SliceMask
	if s.MIGProfile != "" && t.MIGCards().Has(i) && !instanceAt(t.Card(i), &s) {
		c.unfit = c.unfit.With(i)
	}
}

// closed returns the cards that a conflict of their own closes.
func (c *tally) closed(t *topology.Node) topology.GPUSet {
	return c.shared&t.MIGCards() | c.instances&^t.MIGCards() | c.unfit
}

// overcommitted reports whether the holders of card i hold more than it has. Memory is compared only where its size
// is known and nobody holds the card whole: then any second holder is one too many.
func (c *tally) overcommitted(t *topology.Node, i int, u allocate.CardUse) bool {
	if c.twice.Has(i) {
		return true
	}
	if !c.shared.Has(i) || c.instances.Has(i) {
		return false
	}
	vram := t.Card(i).VRAMBytes
	return u.ComputeMilli > allocate.MilliPerCard || !c.whole.Has(i) && vram > 0 && u.VRAMBytes > vram
}

// addCardConflicts lists the conflicts of single cards.
func (a *NodeGPUAllocation) addCardConflicts(c *tally, sp *special, hs []*Holding) {
	t := a.Topology
	add := func(kind ConflictKind, i int, involved func(*allocate.CardShare) bool) {
		sp.conflicts = append(sp.conflicts, Conflict{Kind: kind, Card: i, UUID: t.Card(i).UUID, Pods: holders(t, i, hs, involved)})
	}
	every := func(*allocate.CardShare) bool { return true }
	instance := func(s *allocate.CardShare) bool { return s.MIGProfile != "" }
	share := func(s *allocate.CardShare) bool { return s.MIGProfile == "" }
	for i := range (c.shared | c.instances).All() {
		switch mig := t.MIGCards().Has(i); {
		case mig && c.shared.Has(i):
			add(ConflictModeOn, i, share)
		case !mig && c.instances.Has(i):
			add(ConflictModeOff, i, instance)
		}
		if c.overcommitted(t, i, a.Use[i]) {
			add(ConflictOvercommit, i, every)
		}
		if c.unfit.Has(i) {
			card := t.Card(i)
			add(ConflictInstance, i, func(s *allocate.CardShare) bool { return instance(s) && !instanceAt(card, s) })
		}
	}
}

// holders names the pods that hold a matching share of card i, in ascending order.
func holders(t *topology.Node, i int, hs []*Holding, match func(*allocate.CardShare) bool) []string {
	var names []string
	for _, h := range hs {
		for j := range h.Cards {
			if at, where := place(t, &h.Cards[j]); where == here && at == i && match(&h.Cards[j]) {
				names = append(names, h.label())
			}
		}
	}
	return sorted(names)
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// settle sets what follows from use and conflicts: quarantine, the closed cards and the free ones.
func (a *NodeGPUAllocation) settle(sp *special) {
	for i := range sp.conflicts {
		a.Quarantined = a.Quarantined || sp.conflicts[i].Kind.closesNode()
	}
	if a.Quarantined {
		a.Closed = a.Topology.All()
	}
	a.Free = allocate.FreeCards(a.Topology, a.Use, a.Closed)
}

// held returns the cards that somebody is known to hold a part of.
func (a *NodeGPUAllocation) held() topology.GPUSet {
	var s topology.GPUSet
	for i := range a.Use {
		if a.Use[i].Holders > 0 {
			s = s.With(i)
		}
	}
	return s
}
