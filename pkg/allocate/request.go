package allocate

import "slices"

// Kind is the way in which a claim takes cards.
type Kind uint8

// The kinds of claim.
const (
	// KindWhole takes cards whole.
	KindWhole Kind = iota + 1
	// KindShare takes a part of one or more cards.
	KindShare
	// KindMIG takes instances of cards in MIG mode.
	KindMIG
)

// Phase is the part of a pod's life in which a container holds what it claims.
type Phase uint8

// The phases.
const (
	// PhaseMain is an app container: it holds its cards with every other app container and sidecar.
	PhaseMain Phase = iota
	// PhaseInit is an init container that ends before the next one starts.
	PhaseInit
	// PhaseSidecar is a restartable init container: it holds its cards from its place in the init order to the end of the pod.
	PhaseSidecar
)

// NUMAPolicy says what a request wants of the NUMA nodes of its cards.
type NUMAPolicy uint8

// The NUMA policies.
const (
	// NUMAPrefer picks the set on fewer NUMA nodes among sets of equal bandwidth. It is the default.
	NUMAPrefer NUMAPolicy = iota
	// NUMANone ignores NUMA nodes.
	NUMANone
	// NUMARequire accepts only cards of one NUMA node.
	NUMARequire
)

// NICPolicy says how near the cards' network adapters must be.
type NICPolicy uint8

// The NIC policies.
const (
	// NICNone ignores network adapters. It is the default.
	NICNone NICPolicy = iota
	// NICPrefer picks cards with an adapter at PIX or PXB among sets of equal bandwidth.
	NICPrefer
	// NICRequire accepts only cards with an adapter at PIX or PXB.
	NICRequire
)

// Claim is what one container asks for.
type Claim struct {
	// Container is the container's name.
	Container string
	Phase     Phase
	Kind      Kind
	// Count is the number of cards (whole and shares) or instances (MIG), >= 1.
	Count int
	// VRAMBytes is a share's memory on each card, > 0; or 0 where FractionPPB says it.
	VRAMBytes int64
	// FractionPPB is a share's part of each card's memory in parts per billion, 1 to 1e9; 0 where VRAMBytes says it.
	// Its bytes on a card are the card's memory times FractionPPB / 1e9, rounded up.
	FractionPPB int64
	// ComputeMilli is a share's promised compute on each card, 0 to MilliPerCard; 0 promises nothing.
	ComputeMilli int32
	// Profile is a MIG profile, for example "1g.10gb".
	Profile string
}

// Request is what one pod asks for: its containers' claims in the order of their start (init containers and
// sidecars in declared order, then app containers). The zero Request asks for nothing.
type Request struct {
	Claims []Claim
	NUMA   NUMAPolicy
	NIC    NICPolicy
}

// Alike reports whether two requests ask for the same in the same way, container by container, whatever these are called. A node
// has the same to give to both.
func (r *Request) Alike(other *Request) bool {
	return r.NUMA == other.NUMA && r.NIC == other.NIC && slices.EqualFunc(r.Claims, other.Claims, func(a, b Claim) bool {
		a.Container = b.Container
		return a == b
	})
}
