package allocate

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// plan is one try to serve a request of any mix of claims: whole cards first, then shares, then MIG instances.
type plan struct {
	t *table
	v *View
	r *Request
	// allowed are the cards that the policies leave: those of one NUMA node under NUMARequire, those with a near
	// adapter under NICRequire.
	allowed topology.GPUSet
	// domain is allowed without regard to the adapters.
	domain topology.GPUSet
	// whole are the pod's whole cards.
	whole topology.GPUSet
	// sets are the cards of each claim of whole cards or shares, instances those of each MIG claim.
	sets      []topology.GPUSet
	instances [][]instance
	// steady is what sidecars and app containers take of each card in shares, peak the most in any phase.
	steady, peak []charge
	// held are the slices of each card in MIG mode that the pod takes.
	held []uint64
	// spare is scratch for search.
	spare []int64
}

// plan serves the request in the best of the domains that its NUMA policy allows, or says why the fullest cannot.
func (t *table) plan(v *View, r *Request, need int) (*plan, *Rejection) {
	var best *plan
	var reason *Rejection
	for _, domain := range t.domains(r.NUMA) {
		p := t.newPlan(v, r, domain)
		rej := p.fill(need)
		switch {
		case rej != nil:
			if reason == nil || rej.Have > reason.Have {
				reason = rej
			}
		case best == nil || p.beats(best):
			best = p
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, reason
}

// domains returns the sets of cards of which one must hold the whole pod.
func (t *table) domains(numa NUMAPolicy) []topology.GPUSet {
	all := topology.FirstN(t.shape.Len())
	if numa != NUMARequire || all == 0 {
		return []topology.GPUSet{all}
	}
	out := slices.Clone(t.numa)
	for i := range t.lone.All() {
		out = append(out, topology.SetOf(i))
	}
	return out
}

func (t *table) newPlan(v *View, r *Request, domain topology.GPUSet) *plan {
	n := t.shape.Len()
	p := &plan{
		t: t, v: v, r: r, domain: domain, allowed: domain,
		sets:      make([]topology.GPUSet, len(r.Claims)),
		instances: make([][]instance, len(r.Claims)),
		steady:    make([]charge, n),
		peak:      make([]charge, n),
		held:      make([]uint64, n),
		spare:     make([]int64, n),
	}
	if r.NIC == NICRequire {
		p.allowed &= t.near
	}
	return p
}

// fill finds cards for every claim, or says which one it finds none for. need is the pod's number of whole cards.
func (p *plan) fill(need int) *Rejection {
	if need > 0 {
		var ok bool
		if p.r.NUMA == NUMARequire {
			p.whole, ok = p.t.search(&query{free: p.v.Free, pool: p.v.Free & p.domain, n: need, numa: NUMAPrefer, nic: p.r.NIC})
		} else {
			p.whole, ok = p.t.best(p.v.Free, need, p.r.NUMA, p.r.NIC)
		}
		if !ok {
			return p.rejectWhole(need)
		}
		p.t.partition(p.r, p.whole, p.sets)
	}
	if rej := p.placeShares(); rej != nil {
		return rej
	}
	return p.placeMIG()
}

// within is the policy inside one domain: NUMARequire is met by it.
func within(numa NUMAPolicy) NUMAPolicy {
	if numa == NUMARequire {
		return NUMAPrefer
	}
	return numa
}

// beats reports whether p is better than o; both serve the request.
func (p *plan) beats(o *plan) bool {
	if order := p.quality().Compare(o.quality()); order != 0 {
		return order > 0
	}
	return p.cards() < o.cards()
}

// shared are the cards of which the pod takes shares, opened those in MIG mode of which it takes instances.
func (p *plan) shared() (shared, opened topology.GPUSet) {
	for i := range p.peak {
		if p.peak[i].claims > 0 {
			shared = shared.With(i)
		}
		if p.held[i] != 0 {
			opened = opened.With(i)
		}
	}
	return shared, opened
}

// cards are all cards of which the pod takes anything.
func (p *plan) cards() topology.GPUSet {
	shared, opened := p.shared()
	return p.whole | shared | opened
}

// quality measures the plan.
func (p *plan) quality() Quality {
	shared, opened := p.shared()
	q := p.t.quality(p.v.Free, p.whole|shared, p.r.NUMA, p.r.NIC)
	if opened != 0 && p.r.NUMA != NUMANone {
		q.NUMANodes = p.t.nodes(p.whole | shared | opened)
	}
	if p.r.NIC != NICNone {
		q.NearNICs = (p.cards() & p.t.near).Len()
	}
	for i := range (shared | opened).All() {
		if p.v.Use[i].Holders == 0 {
			q.Broken++
		}
	}
	for i := range shared.All() {
		q.SpareBytes += p.v.Topology.Card(i).VRAMBytes - p.v.Use[i].VRAMBytes - p.peak[i].bytes
	}
	return q
}

// verdict overlays what the policies say on a card that would serve otherwise; tally adds the NUMA part.
func (p *plan) verdict(i int, cause Cause) Cause {
	switch {
	case cause != CauseNone && cause != CauseOwn:
		return cause
	case p.r.NIC == NICRequire && !p.t.near.Has(i):
		return CauseFarNIC
	}
	return cause
}

func (p *plan) rejection(reason string, claim Claim, verdict func(i int) Cause) *Rejection {
	rej := &Rejection{Reason: reason, Claim: claim, NUMA: p.r.NUMA, NIC: p.r.NIC}
	if p.r.containers() == 1 {
		rej.Claim.Container = ""
	}
	rej.tally(p.v, p.domain, func(i int) Cause { return p.verdict(i, verdict(i)) })
	rej.Have = rej.Counts[CauseNone]
	return rej
}

func (p *plan) rejectWhole(need int) *Rejection {
	return p.rejection(ReasonWhole, Claim{Kind: KindWhole, Count: need}, p.v.wholeVerdict)
}
