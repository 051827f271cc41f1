package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// instance is one MIG instance of a node.
type instance struct {
	card, start int
	mask        v1alpha1.SliceMask
}

// instances are some MIG instances of one node, ascending by card and slice.
type instances struct {
	// cards is how many cards they are on, fresh how many of those nobody uses.
	cards, fresh int
	list         []instance
}

// compare returns a negative number if s is better than o.
func (s instances) compare(o instances) int {
	return cmp.Or(
		cmp.Compare(s.cards, o.cards),
		cmp.Compare(s.fresh, o.fresh),
		slices.CompareFunc(s.list, o.list, func(a, b instance) int {
			return cmp.Or(cmp.Compare(a.card, b.card), cmp.Compare(a.start, b.start))
		}),
	)
}

// String lists the instances, for example "card 6 slice 0".
func (s instances) String() string {
	var parts []string
	for _, i := range s.list {
		parts = append(parts, fmt.Sprintf("card %d slice %d", i.card, i.start))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// freeInstances lists the instances of a profile that nobody holds, ascending by card and slice.
func (n *node) freeInstances(profile string) []instance {
	var free []instance
	for i := range n.held {
		if !n.topology.Usable().Has(i) {
			continue
		}
		for _, m := range n.topology.Card(i).MIG {
			mask := v1alpha1.SliceMask(m.SliceMask())
			taken := slices.ContainsFunc(n.held[i], func(h holding) bool { return h.card.SliceMask&mask != 0 })
			if m.Profile == profile && !taken {
				free = append(free, instance{card: i, start: m.Start, mask: mask})
			}
		}
	}
	slices.SortFunc(free, func(a, b instance) int {
		return cmp.Or(cmp.Compare(a.card, b.card), cmp.Compare(a.start, b.start))
	})
	return free
}

// bestInstances returns the best instances for a MIG ask; false where there are too few.
func (n *node) bestInstances(ask Ask) (instances, bool) {
	var best instances
	found := false
	free := n.freeInstances(ask.Profile)
	var pick func(from int, list []instance)
	pick = func(from int, list []instance) {
		if len(list) == ask.Count {
			if s := n.measure(list); !found || s.compare(best) < 0 {
				best, found = s, true
			}
			return
		}
		for i := from; i < len(free); i++ {
			pick(i+1, append(slices.Clone(list), free[i]))
		}
	}
	pick(0, nil)
	return best, found
}

// instancesOf turns the shares of a record into the instances they name.
func instancesOf(n *node, cards []v1alpha1.CardRecord) instances {
	var list []instance
	for i := range cards {
		for _, m := range n.topology.Card(cards[i].Index).MIG {
			if v1alpha1.SliceMask(m.SliceMask()) == cards[i].SliceMask {
				list = append(list, instance{card: cards[i].Index, start: m.Start, mask: cards[i].SliceMask})
			}
		}
	}
	return n.measure(list)
}

func (n *node) measure(list []instance) instances {
	var set topology.GPUSet
	for _, i := range list {
		set = set.With(i.card)
	}
	s := instances{cards: set.Len(), list: list}
	for i := range set.All() {
		if len(n.held[i]) == 0 {
			s.fresh++
		}
	}
	return s
}
