package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// score is what a set of cards is worth on its node; see the package documentation.
type score struct {
	broken int
	ring   topology.Bandwidth
	pairs  topology.Bandwidth
	numa   int
	fast   int
	left   topology.Bandwidth
	spare  int64
	mask   topology.GPUSet
}

// compare returns a negative number if s is better than o.
func (s *score) compare(o *score) int {
	return cmp.Or(
		cmp.Compare(s.broken, o.broken),
		cmp.Compare(o.ring, s.ring),
		cmp.Compare(o.pairs, s.pairs),
		cmp.Compare(s.numa, o.numa),
		cmp.Compare(o.fast, s.fast),
		cmp.Compare(o.left, s.left),
		cmp.Compare(s.spare, o.spare),
		cmp.Compare(s.mask, o.mask),
	)
}

// String says the score for a reader who compares two of them.
func (s *score) String() string {
	return fmt.Sprintf("cards %v (breaks %d, ring %v, pairs %v, %d NUMA nodes, leaves a fast ring of %d and pairs of %v, %d bytes over)",
		s.mask, s.broken, s.ring, s.pairs, s.numa, s.fast, s.left, s.spare)
}

// Judge compares where and how a pod was placed with what would have been best, given the pods placed before it; the
// pod itself must not be placed yet. candidates are the nodes that the pod may run on. It returns nil or a *Fault.
func (c *Cluster) Judge(pod string, ask Ask, candidates []string, r *v1alpha1.Record) error {
	fault := func(format string, args ...any) error {
		return &Fault{Pod: pod, Node: r.Node, Reason: fmt.Sprintf(format, args...)}
	}
	n := c.nodes[r.Node]
	if n == nil || !slices.Contains(candidates, r.Node) {
		return fault("the pod may not run there")
	}
	if reason := n.matches(ask, r.Cards); reason != "" {
		return fault("asked for %s: %s", ask, reason)
	}
	if ask.Kind == MIG {
		if best, ok := n.bestInstances(ask); !ok || best.compare(instancesOf(n, r.Cards)) != 0 {
			return fault("asked for %s: the best free ones are %v", ask, best)
		}
		return nil
	}
	var set topology.GPUSet
	for i := range r.Cards {
		set = set.With(r.Cards[i].Index)
	}
	best, ok := n.best(ask)
	if !ok {
		return fault("asked for %s: no cards of the node can meet that", ask)
	}
	if best.mask != set {
		chosen := n.score(ask, set)
		return fault("asked for %s: got %v; better: %v", ask, &chosen, &best)
	}
	for _, name := range candidates {
		other, ok := c.nodes[name].best(ask)
		switch {
		case !ok:
		case other.broken < best.broken:
			return fault("asked for %s: breaks %d unused cards, on node %s it would break %d", ask, best.broken, name, other.broken)
		case ask.Kind == Whole && other.ring > best.ring:
			return fault("asked for %s: ring of %v, node %s offers %v", ask, best.ring, name, other.ring)
		}
	}
	return nil
}

// Fitting returns those candidates that could hold the pod now, in their order.
func (c *Cluster) Fitting(ask Ask, candidates []string) []string {
	var fitting []string
	for _, name := range candidates {
		n := c.nodes[name]
		if n == nil {
			continue
		}
		var ok bool
		if ask.Kind == MIG {
			_, ok = n.bestInstances(ask)
		} else {
			_, ok = n.best(ask)
		}
		if ok {
			fitting = append(fitting, name)
		}
	}
	return fitting
}

// Room returns, for the candidate with the most of them, how many cards (or MIG instances) could each meet the ask by
// themselves: how near a pod that does not fit is to fitting.
func (c *Cluster) Room(ask Ask, candidates []string) int {
	most := 0
	for _, name := range candidates {
		if n := c.nodes[name]; n != nil {
			most = max(most, n.room(ask))
		}
	}
	return most
}

func (n *node) room(ask Ask) int {
	if ask.Kind == MIG {
		return len(n.freeInstances(ask.Profile))
	}
	return n.able(ask).Len()
}

// able returns the cards that could each take their part of the ask.
func (n *node) able(ask Ask) topology.GPUSet {
	if ask.Kind == Whole {
		return n.free()
	}
	var able topology.GPUSet
	for i := range n.held {
		card := n.topology.Card(i)
		if !n.topology.Usable().Has(i) || card.MIGEnabled || card.VRAMBytes == 0 {
			continue
		}
		bytes, milli, whole := n.used(i)
		fits := ask.bytesOn(&card) <= card.VRAMBytes-bytes && milli+ask.ComputeMilli <= wholeMilli
		// Who promises nothing still needs compute that nobody was promised; who is promised all shares with nobody.
		if ask.ComputeMilli == 0 && milli == wholeMilli || ask.ComputeMilli == wholeMilli && len(n.held[i]) > 0 {
			fits = false
		}
		if fits && !whole {
			able = able.With(i)
		}
	}
	return able
}

// used adds up what is held of card i; whole says that one pod has all of it.
func (n *node) used(i int) (bytes int64, milli int32, whole bool) {
	for _, h := range n.held[i] {
		bytes += h.card.VRAMBytes
		milli += h.card.ComputeMilli
		whole = whole || h.card.SliceMask == wholeMask
	}
	return bytes, milli, whole
}

// best returns the best set of cards for an ask that is not MIG; false where there is none.
func (n *node) best(ask Ask) (score, bool) {
	var best score
	found := false
	for set := range subsets(n.able(ask)) {
		if set.Len() != ask.Count {
			continue
		}
		s := n.score(ask, set)
		if !found || s.compare(&best) < 0 {
			best, found = s, true
		}
	}
	return best, found
}

// score measures one set.
func (n *node) score(ask Ask, set topology.GPUSet) score {
	free := n.free()
	left := free &^ set
	s := score{
		ring: n.rings.ring(set), pairs: n.rings.pairs(set), numa: n.rings.numa(set),
		fast: n.rings.fast(left), left: n.rings.pairs(left), mask: set,
	}
	if ask.Kind == Whole {
		return s
	}
	s.broken = (set & free).Len()
	for i := range set.All() {
		card := n.topology.Card(i)
		bytes, _, _ := n.used(i)
		s.spare += card.VRAMBytes - bytes - ask.bytesOn(&card)
	}
	return s
}

// matches says why the shares of a record are not what was asked for; "" if they are.
func (n *node) matches(ask Ask, cards []v1alpha1.CardRecord) string {
	if len(cards) != ask.Count {
		return fmt.Sprintf("got %d", len(cards))
	}
	for i := range cards {
		r := &cards[i]
		if r.Index < 0 || r.Index >= n.topology.Len() {
			return fmt.Sprintf("there is no card %d", r.Index)
		}
		card := n.topology.Card(r.Index)
		if reason := n.refuse(n.held[r.Index], r); reason != "" {
			return fmt.Sprintf("card %d %s", r.Index, reason)
		}
		wrong := false
		switch ask.Kind {
		case Whole:
			wrong = r.SliceMask != wholeMask || r.ComputeMilli != wholeMilli || r.MIG != ""
		case Share:
			wrong = r.MIG != "" || r.VRAMBytes != ask.bytesOn(&card) || r.ComputeMilli != ask.ComputeMilli
		case MIG:
			wrong = r.MIG != ask.Profile
		}
		if wrong {
			return fmt.Sprintf("got of card %d slices %s, %d bytes, %d thousandths of the compute, MIG %q",
				r.Index, r.SliceMask, r.VRAMBytes, r.ComputeMilli, r.MIG)
		}
	}
	return ""
}
