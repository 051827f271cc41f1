package allocate

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// instance is one MIG instance of a card.
type instance struct {
	card  int
	mask  uint64
	bytes int64
}

// freeInstances counts the instances of a profile on card i that neither other pods nor, by held, the pod itself hold;
// none on a card that takes no pods.
func (v *View) freeInstances(i int, profile string, held uint64) int {
	if v.migVerdict(i, profile, held) != CauseNone {
		return 0
	}
	_, _, n := v.instances(i, profile, held)
	return n
}

// placeMIG finds instances for the MIG claims: for sidecars and app containers, which run side by side, new ones; for
// a plain init container those that the pod takes anyway and that no sidecar before it holds, then new ones.
func (p *plan) placeMIG() *Rejection {
	for i := range p.r.Claims {
		c := &p.r.Claims[i]
		if c.Kind == KindMIG && c.Phase != PhaseInit && !p.takeInstances(i, c.Count) {
			return p.rejectMIG(i)
		}
	}
	for i := range p.r.Claims {
		c := &p.r.Claims[i]
		if c.Kind != KindMIG || c.Phase != PhaseInit {
			continue
		}
		p.instances[i] = p.reuseInstances(i)
		if !p.takeInstances(i, c.Count-len(p.instances[i])) {
			return p.rejectMIG(i)
		}
	}
	return nil
}

// takeInstances gives claim i n more instances. Instances of one claim are packed: on cards that no earlier claim of the
// pod uses if that is enough, else on any; then on the fewest cards, then on cards in use, then with a near adapter
// under NICPrefer, then on the lowest. On each card the lowest slices go first.
func (p *plan) takeInstances(i, n int) bool {
	if n == 0 {
		return true
	}
	profile := p.r.Claims[i].Profile
	var free [topology.MaxCards]int
	var fresh, all []int
	freshSum, sum := 0, 0
	for k := range p.allowed.All() {
		free[k] = p.v.freeInstances(k, profile, p.held[k])
		if free[k] == 0 {
			continue
		}
		all, sum = append(all, k), sum+free[k]
		if p.held[k] == 0 {
			fresh, freshSum = append(fresh, k), freshSum+free[k]
		}
	}
	if sum < n {
		return false
	}
	cards := all
	if freshSum >= n {
		cards = fresh
	}
	for _, k := range p.fewest(cards, &free, n) {
		take := min(n, free[k])
		p.takeFrom(i, k, take)
		n -= take
	}
	slices.SortFunc(p.instances[i], func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.card, b.card), cmp.Compare(a.mask, b.mask))
	})
	return true
}

// fewest returns the smallest set of cards with n free instances together, the most preferred of such sets, in the order
// of preference. The number of cards comes from the fullest ones; then each card in order of preference is taken if
// the fullest of the others could still make up the rest.
func (p *plan) fewest(cards []int, free *[topology.MaxCards]int, n int) []int {
	slices.SortFunc(cards, p.compareMIG)
	byFree := slices.Clone(cards)
	slices.SortStableFunc(byFree, func(a, b int) int { return free[b] - free[a] })
	count := 0
	for sum := 0; sum < n; count++ {
		sum += free[byFree[count]]
	}
	var out []int
	for _, k := range cards {
		if len(out) == count {
			break
		}
		sum, left := free[k], count-len(out)-1
		for _, o := range byFree {
			if left > 0 && o != k && !slices.Contains(out, o) {
				sum += free[o]
				left--
			}
		}
		for _, o := range out {
			sum += free[o]
		}
		if sum >= n {
			out = append(out, k)
		}
	}
	return out
}

// compareMIG orders cards for instances: in use first, then with a near adapter under NICPrefer, then by index.
func (p *plan) compareMIG(a, b int) int {
	if x, y := p.v.Use[a].Holders > 0, p.v.Use[b].Holders > 0; x != y {
		if x {
			return -1
		}
		return 1
	}
	if x, y := p.t.near.Has(a), p.t.near.Has(b); p.r.NIC == NICPrefer && x != y {
		if x {
			return -1
		}
		return 1
	}
	return a - b
}

// takeFrom gives claim i the n lowest free instances of its profile on the card.
func (p *plan) takeFrom(i, card, n int) {
	list := slices.Clone(p.v.Topology.Card(card).MIG)
	slices.SortStableFunc(list, func(a, b topology.MIGInstance) int { return a.Start - b.Start })
	for k := range list {
		mask := list[k].SliceMask()
		if n == 0 || list[k].Profile != p.r.Claims[i].Profile || mask == 0 || mask&(p.v.Use[card].SliceMask|p.held[card]) != 0 {
			continue
		}
		p.instances[i] = append(p.instances[i], instance{card: card, mask: mask, bytes: list[k].VRAMBytes})
		p.held[card] |= mask
		n--
	}
}

// reuseInstances returns up to the claim's count of instances of its profile that the pod takes already, less those
// of sidecars before it and of the container's own other claims.
func (p *plan) reuseInstances(i int) []instance {
	c := &p.r.Claims[i]
	var pool, busy []instance
	for j := range p.r.Claims {
		o := &p.r.Claims[j]
		if j == i || o.Profile != c.Profile {
			continue
		}
		pool = append(pool, p.instances[j]...)
		if j < i && (o.Phase == PhaseSidecar || o.Container == c.Container) {
			busy = append(busy, p.instances[j]...)
		}
	}
	slices.SortFunc(pool, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.card, b.card), cmp.Compare(a.mask, b.mask))
	})
	pool = slices.Compact(pool)
	pool = slices.DeleteFunc(pool, func(x instance) bool { return slices.Contains(busy, x) })
	return slices.Clip(pool[:min(len(pool), c.Count)])
}

func (p *plan) rejectMIG(failed int) *Rejection {
	c := p.r.Claims[failed]
	rej := p.rejection(ReasonMIG, c, func(i int) Cause { return p.v.migVerdict(i, c.Profile, p.held[i]) })
	rej.Have = len(p.instances[failed])
	for i := range p.allowed.All() {
		rej.Have += p.v.freeInstances(i, c.Profile, p.held[i])
	}
	return rej
}
