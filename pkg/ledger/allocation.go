package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// NodeGPUAllocation is the state of one node's cards at one moment. It is immutable: readers share it without a lock,
// and nobody may change what its fields and methods give.
type NodeGPUAllocation struct {
	// View is what a choice of cards depends on. Topology is nil, and Use empty, while nothing is known of the
	// node's GPUs. Use contains known holdings and ForeignMIG; Closed contains Foreign, cards in conflict, and in
	// quarantine every card. A whole card counts with all of its memory and compute, whatever its record says.
	allocate.View
	// Name is the node's name.
	Name NodeName
	// Generation grows with every change of this node that the ledger publishes, also across its removal and
	// return. The copies of With and Without keep it.
	Generation uint64
	// Foreign are the free cards set aside for pods that hold whole cards nobody can name.
	Foreign topology.GPUSet
	// Pods is the number of holdings on the node.
	Pods int32
	// Quarantined says that a conflict closes the whole node; Quarantine says which.
	Quarantined bool

	// special is nil on a plain node, where Use is just the sum of the holdings and nobody need be known by name: most
	// nodes, so that their states stay small. A holding comes to a plain state and leaves it by adding and
	// subtracting its shares.
	special *special
}

// special is the part of a state that only unusual nodes have.
type special struct {
	foreignMIG []allocate.CardShare
	missing    []MissingShare
	conflicts  []Conflict

	// base is what pods without a name here hold, nil for nothing; extra are the other holdings. All else in the
	// state follows from the topology, base and extra.
	base  []allocate.CardUse
	extra []Holding
}

// MissingShare is a share of a card that the node does not list.
type MissingShare struct {
	// Pod is the holder's name, or its UID where it has no name.
	Pod string
	// Share is the share as the pod holds it.
	Share allocate.CardShare
}

// ForeignMIG returns the free instances set aside for pods that hold MIG instances nobody can name, in ascending order
// of profile, then descending order of card and slice.
func (a *NodeGPUAllocation) ForeignMIG() []allocate.CardShare {
	if a.special == nil {
		return nil
	}
	return a.special.foreignMIG
}

// Missing returns the shares of cards that the node does not list now, in ascending order of UUID, index, pod and mask.
// They are charged again when the card returns.
func (a *NodeGPUAllocation) Missing() []MissingShare {
	if a.special == nil {
		return nil
	}
	return a.special.missing
}

// Conflicts returns the contradictions between holdings and cards, in ascending order of kind and card. They end when
// their cause does.
func (a *NodeGPUAllocation) Conflicts() []Conflict {
	if a.special == nil {
		return nil
	}
	return a.special.conflicts
}

// Quarantine returns why the whole node is closed, "" if it is not.
func (a *NodeGPUAllocation) Quarantine() string {
	if !a.Quarantined {
		return ""
	}
	var reasons []string
	for _, c := range a.Conflicts() {
		if c.Kind.closesNode() {
			reasons = append(reasons, c.String())
		}
	}
	return strings.Join(reasons, "; ")
}

// WholeCards returns how many cards a pod may take whole now, and how many it might if nobody held any: none in MIG mode, none
// that is unusable, and none of a node that is not known (a is nil then), without facts or in quarantine.
func (a *NodeGPUAllocation) WholeCards() (free, total int) {
	if a == nil || a.Topology == nil || a.Quarantined {
		return 0, 0
	}
	return a.Free.Len(), wholes(a.Topology).Len()
}

// With returns the state as it would be if the pods also held what is given: the dry run of adding pods. It does not
// ask whether the cards are free; a contradiction shows in Conflicts. The error is an *InvalidError for a holding
// that cannot be true, is of another node, or whose pod the state already contains by name.
func (a *NodeGPUAllocation) With(hs ...Holding) (*NodeGPUAllocation, error) {
	base, extra := a.parts()
	for i := range hs {
		h := &hs[i]
		if err := h.validate(); err != nil {
			return nil, err
		}
		if h.Node != a.Name {
			return nil, &InvalidError{Field: "node", Value: string(h.Node), Reason: "the state is of another node"}
		}
		if findHolding(extra, h.UID) >= 0 {
			return nil, &InvalidError{Field: "uid", Value: string(h.UID), Reason: "the pod stands twice"}
		}
		extra = append(extra, h.clone())
	}
	return a.rebuilt(base, extra, len(hs)), nil
}

// Without returns the state as it would be if the pods held nothing: the dry run of removing pods. Cards set aside
// for foreign pods are chosen anew, and a conflict ends if its cause is gone. The error wraps ErrNotHeld if the state
// does not contain one of the holdings, for example because the pod came or changed after the state was read.
func (a *NodeGPUAllocation) Without(hs ...Holding) (*NodeGPUAllocation, error) {
	base, extra := a.parts()
	for i := range hs {
		h := &hs[i]
		if at := findHolding(extra, h.UID); at >= 0 && h.equal(&extra[at]) {
			extra = slices.Delete(extra, at, at+1)
			continue
		}
		if h.Node != a.Name || !h.known() || len(base) == 0 || !a.vacateAll(base, h.Cards) {
			return nil, fmt.Errorf("node %s, pod %s: %w", a.Name, h.UID, ErrNotHeld)
		}
	}
	return a.rebuilt(base, extra, -len(hs)), nil
}

func findHolding(hs []Holding, uid PodUID) int {
	return slices.IndexFunc(hs, func(h Holding) bool { return h.UID == uid })
}

// vacateAll takes shares out of base; false where base does not contain them.
func (a *NodeGPUAllocation) vacateAll(base []allocate.CardUse, shares []allocate.CardShare) bool {
	for i := range shares {
		at, where := place(a.Topology, &shares[i])
		if where != here {
			return false
		}
		u, s := &base[at], charge(a.Topology, at, &shares[i])
		if u.Holders < 1 || u.SliceMask&s.SliceMask != s.SliceMask || u.VRAMBytes < s.VRAMBytes || u.ComputeMilli < s.ComputeMilli {
			return false
		}
		allocate.Vacate(u, s)
	}
	return true
}

// parts returns copies of what the state is derived from.
func (a *NodeGPUAllocation) parts() ([]allocate.CardUse, []Holding) {
	if a.special == nil {
		return slices.Clone(a.Use), nil
	}
	return slices.Clone(a.special.base), slices.Clone(a.special.extra)
}

// rebuilt derives the state of a changed copy that has so many pods more. It keeps base and extra, so that extra
// stays known by name.
func (a *NodeGPUAllocation) rebuilt(base []allocate.CardUse, extra []Holding, pods int) *NodeGPUAllocation {
	hs := make([]*Holding, len(extra))
	for i := range extra {
		hs[i] = &extra[i]
	}
	out := derive(a.Name, a.Topology, base, hs)
	out.Generation, out.Pods = a.Generation, a.Pods+int32(pods)
	if out.special == nil && len(extra) > 0 {
		out.special = &special{}
	}
	if out.special != nil {
		out.special.base, out.special.extra = base, extra
	}
	return out
}

// add returns a copy of a plain state with a holding whose shares CanHold has admitted at the given places. CanHold
// admits no slice twice, so the state stays plain.
func (a *NodeGPUAllocation) add(shares []allocate.CardShare) *NodeGPUAllocation {
	next := a.copyPlain()
	for i := range shares {
		at := shares[i].Index
		u, s := &next.Use[at], charge(a.Topology, at, &shares[i])
		allocate.Occupy(u, s)
		next.Free = next.Free.Without(at)
	}
	next.Pods++
	return next
}

// remove returns a copy of a plain state without a holding that is part of it. In a plain state every share is here.
func (a *NodeGPUAllocation) remove(h *Holding) *NodeGPUAllocation {
	next := a.copyPlain()
	for i := range h.Cards {
		at, _ := place(a.Topology, &h.Cards[i])
		u := &next.Use[at]
		allocate.Vacate(u, charge(a.Topology, at, &h.Cards[i]))
		if u.Holders == 0 && wholes(a.Topology).Has(at) {
			next.Free = next.Free.With(at)
		}
	}
	next.Pods--
	return next
}

func (a *NodeGPUAllocation) copyPlain() *NodeGPUAllocation {
	next := newAllocation(len(a.Use))
	use := next.Use
	*next = *a
	next.Use = use
	copy(use, a.Use)
	return next
}

// newAllocation returns a state with n unused cards in one piece of memory for the usual sizes.
func newAllocation(n int) *NodeGPUAllocation {
	switch {
	case n <= 8:
		s := new(struct {
			a   NodeGPUAllocation
			use [8]allocate.CardUse
		})
		s.a.Use = s.use[:n:n]
		return &s.a
	case n <= 16:
		s := new(struct {
			a   NodeGPUAllocation
			use [16]allocate.CardUse
		})
		s.a.Use = s.use[:n:n]
		return &s.a
	}
	return &NodeGPUAllocation{View: allocate.View{Use: make([]allocate.CardUse, n)}}
}
