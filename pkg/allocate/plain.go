package allocate

import "github.com/gputopology/gpu-topology-scheduler/pkg/topology"

// Plain returns the number of cards of a request that any set of that many free cards meets: whole cards only, with no
// policy that a set could fail. It is false for every other request. total is the number of whole cards that the pod
// holds, as FitsPlain wants it.
func (r *Request) Plain() (total int, ok bool) {
	if len(r.Claims) == 0 || r.NUMA == NUMARequire || r.NIC == NICRequire {
		return 0, false
	}
	total, ok = r.wholeCards()
	return total, ok && total > 0
}

// FitsPlain is Fits for a Plain request of total cards, without the account of every card: a cluster is full of nodes that
// refuse. Of the Rejection only what Short needs is set, and Permanent. The view must not contradict itself (View.Check).
func FitsPlain(v *View, total int) (have int, permanent, fits bool) {
	have = v.Free.Len()
	if have >= total {
		return have, false, true
	}
	could := v.Topology.Usable() &^ v.Topology.MIGCards()
	return have, could.Len() < total, false
}

// AssessPlain is Assess for a Plain request of total cards with these policies; false where the node has too few free cards.
// The view must have a topology and not contradict itself (View.Check): Choose, which gives cards out, sees to that again.
func (c *Chooser) AssessPlain(v *View, total int, numa NUMAPolicy, nic NICPolicy) (topology.GPUSet, Quality, bool) {
	t := c.table(v.Topology.Shape())
	set, ok := t.best(v.Free, total, numa, nic)
	if !ok {
		return 0, Quality{}, false
	}
	return set, t.quality(v.Free, set, numa, nic), true
}

// AssessKnown is Assess for who asks about many nodes and has called Plain once: plain is the total that it returned, 0 for a
// request that is not Plain. false where the node has no set of cards to give.
func (c *Chooser) AssessKnown(v *View, r *Request, plain int) (topology.GPUSet, Quality, bool, error) {
	if plain > 0 {
		set, quality, ok := c.AssessPlain(v, plain, r.NUMA, r.NIC)
		return set, quality, ok, nil
	}
	set, quality, rejection, err := c.Assess(v, r)
	return set, quality, err == nil && rejection == nil, err
}

// PlainShort is what Short says of a node that has only so many of the free cards that a Plain request wants.
func PlainShort(have, total int) string {
	r := Rejection{Reason: ReasonWhole, Claim: Claim{Kind: KindWhole, Count: total}, Have: have}
	return r.Short()
}
