package allocate

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// placeShares finds cards for the claims of shares: first for those of sidecars and app containers, which run side by
// side, larger ones first; then for those of plain init containers. Where that order fails on a small case, searchShares looks
// for another arrangement.
func (p *plan) placeShares() *Rejection {
	order := p.steadyShares()
	failed := p.placeSteady(order)
	if failed < 0 {
		failed = p.placeInit()
	}
	if failed < 0 {
		return nil
	}
	rej := p.rejectShare(failed)
	if len(order) > 0 && p.fitsAlone(failed) && p.searchShares(order) {
		return nil
	}
	return rej
}

// fitsAlone reports whether the claim would find cards if the pod claimed no other shares.
func (p *plan) fitsAlone(i int) bool {
	c, n := &p.r.Claims[i], 0
	for k := range (p.allowed &^ p.whole).All() {
		if p.v.shareVerdict(k, c, charge{}) == CauseNone {
			n++
		}
	}
	return n >= c.Count
}

// steadyShares lists the share claims of sidecars and app containers, the one with the most bytes on the largest card first,
// then the most compute, then the most cards, then in order.
func (p *plan) steadyShares() []int {
	var largest int64
	for i := range p.v.Topology.Len() {
		largest = max(largest, p.v.Topology.Card(i).VRAMBytes)
	}
	var order []int
	for i := range p.r.Claims {
		if c := &p.r.Claims[i]; c.Kind == KindShare && c.Phase != PhaseInit {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.r.Claims[a], &p.r.Claims[b]
		return cmp.Or(
			cmp.Compare(y.bytesOn(largest), x.bytesOn(largest)),
			cmp.Compare(y.ComputeMilli, x.ComputeMilli),
			cmp.Compare(y.Count, x.Count),
		)
	})
	return order
}

// placeSteady places the claims in the given order and returns the first that finds no cards, -1 if all do.
func (p *plan) placeSteady(order []int) int {
	for _, i := range order {
		set, ok := p.bestShare(&p.r.Claims[i], p.steady)
		if !ok {
			return i
		}
		p.take(i, set)
	}
	return -1
}

// take charges the cards with a sidecar's or app container's claim.
func (p *plan) take(i int, set topology.GPUSet) {
	p.sets[i] = set
	for k := range set.All() {
		c := &p.r.Claims[i]
		p.steady[k] = p.steady[k].plus(c.bytesOn(p.v.Topology.Card(k).VRAMBytes), c)
		p.peak[k] = p.steady[k]
	}
}

// placeInit places the plain init containers' claims and returns the first that finds no cards, -1 if all do. What
// an init container takes counts beside the sidecars that stand before it, and not beside anything else of the pod.
func (p *plan) placeInit() int {
	sidecars := make([]charge, len(p.peak))
	beside := make([]charge, len(p.peak))
	for i := range p.r.Claims {
		c := &p.r.Claims[i]
		if i == 0 || !p.r.sameContainer(i-1, i) {
			copy(beside, sidecars)
		}
		if c.Kind != KindShare || c.Phase == PhaseMain {
			continue
		}
		set := p.sets[i]
		if c.Phase == PhaseInit {
			var ok bool
			if set, ok = p.bestShare(c, beside); !ok {
				return i
			}
			p.sets[i] = set
		}
		for k := range set.All() {
			bytes := c.bytesOn(p.v.Topology.Card(k).VRAMBytes)
			if c.Phase == PhaseSidecar {
				sidecars[k] = sidecars[k].plus(bytes, c)
				continue
			}
			beside[k] = beside[k].plus(bytes, c)
			p.peak[k] = p.peak[k].most(beside[k])
		}
	}
	return -1
}

// rank orders the cards for one share: a card in use before one that is still free, then the card on which the pod's
// charge grows least. Both add up over a set, so the best set is the first cards of this order, and only cards that
// tie with the last of them are a matter of choice.
type rank struct {
	broken bool
	growth int64
}

func (r rank) compare(o rank) int {
	if r.broken != o.broken {
		if o.broken {
			return -1
		}
		return 1
	}
	return cmp.Compare(r.growth, o.growth)
}

// bestShare returns the best cards for a share beside what else the pod takes at the same time.
func (p *plan) bestShare(c *Claim, beside []charge) (topology.GPUSet, bool) {
	var cards [topology.MaxCards]int
	var ranks [topology.MaxCards]rank
	n := 0
	for i := range (p.allowed &^ p.whole).All() {
		if p.v.shareVerdict(i, c, beside[i]) != CauseNone {
			continue
		}
		vram := p.v.Topology.Card(i).VRAMBytes
		after := beside[i].bytes + c.bytesOn(vram)
		// Growth beyond what the share itself brings: nothing for sidecars and app containers, whose charges add up.
		growth := max(0, after-p.peak[i].bytes)
		if c.Phase != PhaseInit {
			growth = 0
		}
		ranks[i] = rank{broken: p.v.Use[i].Holders == 0 && p.peak[i].claims == 0, growth: growth}
		p.spare[i] = vram - p.v.Use[i].VRAMBytes - max(p.peak[i].bytes, after)
		cards[n] = i
		n++
	}
	if n < c.Count {
		return 0, false
	}
	slices.SortStableFunc(cards[:n], func(a, b int) int { return ranks[a].compare(ranks[b]) })
	last := ranks[cards[c.Count-1]]
	q := &query{free: p.v.Free &^ p.cards(), numa: within(p.r.NUMA), nic: p.r.NIC, spare: p.spare}
	for _, i := range cards[:n] {
		switch order := ranks[i].compare(last); {
		case order < 0:
			q.base = q.base.With(i)
		case order == 0:
			q.pool = q.pool.With(i)
		}
	}
	q.n = c.Count - q.base.Len()
	return p.t.search(q)
}

func (p *plan) rejectShare(failed int) *Rejection {
	c := &p.r.Claims[failed]
	beside := p.besideClaim(failed)
	rej := p.rejection(ReasonShare, *c, func(i int) Cause {
		cause := p.v.shareVerdict(i, c, beside[i])
		if p.whole.Has(i) && cause == CauseNone {
			return CauseOwn
		}
		return cause
	})
	rej.LargestFree = p.v.largestFree(p.whole|^p.allowed, beside)
	return rej
}

// besideClaim returns what the pod takes at the same time as a claim that was not placed.
func (p *plan) besideClaim(failed int) []charge {
	if p.r.Claims[failed].Phase != PhaseInit {
		return p.steady
	}
	beside := make([]charge, len(p.peak))
	for i := range failed {
		c := &p.r.Claims[i]
		if c.Kind != KindShare || c.Phase == PhaseInit && c.Container != p.r.Claims[failed].Container {
			continue
		}
		for k := range p.sets[i].All() {
			beside[k] = beside[k].plus(c.bytesOn(p.v.Topology.Card(k).VRAMBytes), c)
		}
	}
	return beside
}

// fitsSingle says why the node cannot serve a request of one claim, of a share or MIG instances; nil if it can.
func (t *table) fitsSingle(v *View, r *Request) *Rejection {
	c := &r.Claims[0]
	if r.NUMA != NUMARequire {
		if t.serves(v, r, v.Topology.All()) >= c.Count {
			return nil
		}
	} else {
		for _, node := range t.numa {
			if t.serves(v, r, node) >= c.Count {
				return nil
			}
		}
		for i := range t.lone.All() {
			if t.serves(v, r, topology.SetOf(i)) >= c.Count {
				return nil
			}
		}
	}
	_, rej := t.plan(v, r, 0)
	return rej
}

// serves counts the cards of the domain with room for the only claim of r, or its free instances there.
func (t *table) serves(v *View, r *Request, domain topology.GPUSet) int {
	if r.NIC == NICRequire {
		domain &= t.near
	}
	c := &r.Claims[0]
	n := 0
	for i := range domain.All() {
		switch {
		case c.Kind == KindMIG:
			n += v.freeInstances(i, c.Profile, 0)
		case v.shareVerdict(i, c, charge{}) == CauseNone:
			n++
		}
	}
	return n
}
