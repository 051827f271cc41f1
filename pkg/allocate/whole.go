package allocate

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// fitsWhole says why the node cannot give out need whole cards; nil if it can.
func (t *table) fitsWhole(v *View, r *Request, need int) *Rejection {
	pool := v.Free
	if r.NIC == NICRequire {
		pool &= t.near
	}
	if r.NUMA == NUMARequire {
		pool &= t.fullest(pool)
	}
	if pool.Len() >= need {
		return nil
	}
	return t.rejectWhole(v, r, need)
}

// fullest returns the NUMA node with the most cards of the pool, the first of several; a card of an unknown node is
// a node for itself.
func (t *table) fullest(pool topology.GPUSet) topology.GPUSet {
	var best topology.GPUSet
	if lone := pool & t.lone; lone != 0 {
		best = topology.SetOf(lone.Lowest())
	}
	for _, node := range t.numa {
		if (pool & node).Len() > (pool & best).Len() {
			best = node
		}
	}
	return best
}

func (t *table) rejectWhole(v *View, r *Request, need int) *Rejection {
	rej := &Rejection{Reason: ReasonWhole, Claim: Claim{Kind: KindWhole, Count: need}, NUMA: r.NUMA, NIC: r.NIC}
	verdict := func(i int) Cause {
		cause := v.wholeVerdict(i)
		if cause == CauseNone && r.NIC == NICRequire && !t.near.Has(i) {
			cause = CauseFarNIC
		}
		return cause
	}
	rej.tally(v, t.bestDomain(v, r, verdict), verdict)
	rej.Have = rej.Counts[CauseNone]
	return rej
}

// bestDomain returns the cards among which a request must stay: all, or under NUMARequire the NUMA node with the most
// cards that would serve.
func (t *table) bestDomain(v *View, r *Request, verdict func(i int) Cause) topology.GPUSet {
	if r.NUMA != NUMARequire {
		return v.Topology.All()
	}
	var pool topology.GPUSet
	for i := range v.Topology.Len() {
		if verdict(i) == CauseNone {
			pool = pool.With(i)
		}
	}
	return t.fullest(pool)
}

// chooseWhole serves a request for whole cards alone.
func (t *table) chooseWhole(v *View, r *Request, need int) (Choice, *Rejection) {
	set, ok := t.best(v.Free, need, r.NUMA, r.NIC)
	if !ok {
		return Choice{}, t.rejectWhole(v, r, need)
	}
	choice := Choice{Cards: wholeShares(v, set), Quality: t.quality(v.Free, set, r.NUMA, r.NIC)}
	if len(r.Claims) == 1 {
		choice.Containers = []ContainerShare{{Name: r.Claims[0].Container, Cards: choice.Cards}}
		return choice, nil
	}
	sets := make([]topology.GPUSet, len(r.Claims))
	t.partition(r, set, sets)
	choice.Containers = make([]ContainerShare, 0, r.containers())
	for i := range r.Claims {
		if i > 0 && r.sameContainer(i-1, i) {
			last := &choice.Containers[len(choice.Containers)-1]
			last.Cards = append(last.Cards, wholeShares(v, sets[i])...)
			sortShares(last.Cards)
			continue
		}
		choice.Containers = append(choice.Containers, ContainerShare{Name: r.Claims[i].Container, Cards: wholeShares(v, sets[i])})
	}
	return choice, nil
}

func wholeShares(v *View, set topology.GPUSet) []CardShare {
	shares := make([]CardShare, set.Len())
	k := 0
	for s := set; s != 0; s &= s - 1 {
		card := v.Topology.Card(s.Lowest())
		share := &shares[k]
		share.Index = s.Lowest()
		share.UUID = card.UUID
		share.SliceMask = WholeCard
		share.VRAMBytes = card.VRAMBytes
		share.ComputeMilli = MilliPerCard
		k++
	}
	return shares
}

// sortShares puts shares in ascending order of card, then slices.
func sortShares(shares []CardShare) {
	slices.SortStableFunc(shares, func(a, b CardShare) int {
		switch {
		case a.Index != b.Index:
			return a.Index - b.Index
		case a.SliceMask < b.SliceMask:
			return -1
		case a.SliceMask > b.SliceMask:
			return 1
		}
		return 0
	})
}

// partition deals the pod's whole cards out to its claims of whole cards, each the best part of what is left: first
// to app containers and sidecars, which run side by side, the largest claim first and equal ones in order; then to
// each plain init container out of what the sidecars before it do not hold.
func (t *table) partition(r *Request, whole topology.GPUSet, sets []topology.GPUSet) {
	order := make([]int, 0, len(r.Claims))
	for i := range r.Claims {
		if r.Claims[i].Kind == KindWhole && r.Claims[i].Phase != PhaseInit {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return r.Claims[b].Count - r.Claims[a].Count })
	left := whole
	for _, i := range order {
		sets[i], _ = t.best(left, r.Claims[i].Count, r.NUMA, r.NIC)
		left &^= sets[i]
	}
	left = whole // less the sidecars so far
	var own topology.GPUSet
	for i := range r.Claims {
		if i > 0 && !r.sameContainer(i-1, i) {
			own = 0
		}
		if r.Claims[i].Kind != KindWhole {
			continue
		}
		switch r.Claims[i].Phase {
		case PhaseSidecar:
			left &^= sets[i]
		case PhaseInit:
			sets[i], _ = t.best(left&^own, r.Claims[i].Count, r.NUMA, r.NIC)
			own |= sets[i]
		case PhaseMain:
		}
	}
}
