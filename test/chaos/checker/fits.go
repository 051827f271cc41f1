package checker

import (
	"cmp"
	"slices"
)

// slots is what is free on a clean node.
type slots struct {
	node string
	// cards are the healthy ones.
	cards []slot
	// offered is how many whole cards the kubelet still has to offer, less than there are free where it withholds some.
	offered int
	// closed is true while the kubelet offers none at all.
	closed bool
}

// slot is what is free of one card.
type slot struct {
	free    int64
	milli   int
	holders int
}

// slotsOf counts what is free on a node; false if the node is not clean.
func (r *rest) slotsOf(n *Node) (slots, bool) {
	s := slots{node: n.Name, offered: n.Offered, closed: n.Offered == 0}
	at := map[string]int{}
	for _, c := range n.Cards {
		if c.Healthy {
			at[c.UUID] = len(s.cards)
			s.cards = append(s.cards, slot{free: c.VRAMBytes, milli: wholeMilli})
		}
	}
	for _, p := range r.on[n.Name] {
		if r.laws.Damaged(p.UID) {
			return slots{}, false
		}
		if p.VRAMBytes == 0 {
			s.offered -= p.Cards
		}
		for _, c := range r.laws.Cards(p.UID) {
			if _, listed := n.card(c.UUID); !listed {
				return slots{}, false
			}
			i, healthy := at[c.UUID]
			if !healthy {
				continue
			}
			s.cards[i].holders++
			s.cards[i].free -= c.VRAMBytes
			s.cards[i].milli -= c.ComputeMilli
		}
	}
	return s, true
}

// whole is the number of cards that nobody holds a part of; none while the node is closed.
func (s *slots) whole() int {
	free := 0
	for i := range s.cards {
		if s.cards[i].holders == 0 && !s.closed {
			free++
		}
	}
	return free
}

// take gives a pod its cards and reports whether there are enough; a pod that does not fit takes none.
func (s *slots) take(p *Pod) bool {
	if s.closed || p.VRAMBytes == 0 && s.offered < p.Cards {
		return false
	}
	var fit []int
	for i := range s.cards {
		c := &s.cards[i]
		if p.VRAMBytes == 0 && c.holders == 0 || p.VRAMBytes > 0 && c.free >= p.VRAMBytes && c.milli > 0 {
			fit = append(fit, i)
		}
	}
	if len(fit) < p.Cards {
		return false
	}
	// The fullest first, so that a share breaks no free card where it need not.
	slices.SortStableFunc(fit, func(a, b int) int { return cmp.Compare(s.cards[a].free, s.cards[b].free) })
	for _, i := range fit[:p.Cards] {
		c := &s.cards[i]
		c.holders++
		if p.VRAMBytes == 0 {
			c.free, c.milli = 0, 0
		} else {
			c.free -= p.VRAMBytes
		}
	}
	if p.VRAMBytes == 0 {
		s.offered -= p.Cards
	}
	return true
}

func clone(all []slots) []slots {
	out := slices.Clone(all)
	for i := range out {
		out[i].cards = slices.Clone(out[i].cards)
	}
	return out
}

// place puts pods on nodes greedily, the largest first, each on the first node that has room. It returns where they went;
// nil where one of the first need pods found no room.
func place(all []slots, pods []*Pod, need int) []string {
	work := clone(all)
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *Pod) int { return cmp.Compare(b.Cards, a.Cards) })
	var nodes []string
	for _, p := range sorted {
		for i := range work {
			if work[i].take(p) {
				nodes = append(nodes, work[i].node)
				break
			}
		}
	}
	if len(nodes) < need {
		return nil
	}
	return nodes[:need]
}

// checkFits looks for pods and gangs that wait although there is room.
func (r *rest) checkFits(open []slots) {
	for i := range r.Pods {
		p := &r.Pods[i]
		if !p.Waiting() || p.Cards == 0 || p.Group != "" {
			continue
		}
		if nodes := place(open, []*Pod{p}, 1); nodes != nil {
			r.fail("fits", append(nodes, p.Name), "pod %s (%s) waits for %s, which node %s has free", p.Name, p.UID, describe(p), nodes[0])
		}
	}
	for _, g := range r.Groups {
		var waiting []*Pod
		have := 0
		about := []string{g.Name}
		for i := range r.Pods {
			p := &r.Pods[i]
			switch {
			case p.Group != g.Name:
				continue
			case p.Live() && !p.Terminating, p.Succeeded:
				have++
			case p.Waiting() && p.Cards > 0:
				waiting = append(waiting, p)
			}
			about = append(about, p.Name)
		}
		need := max(g.MinMember-have, 1) // members beyond the quorum go alone
		if len(waiting) < need {
			continue
		}
		if nodes := place(open, waiting, need); nodes != nil {
			r.fail("fits", append(about, nodes...), "gang %s (needs %d, has %d) waits, but %d of its %d waiting members would fit on %v", g.Name, g.MinMember, have, need, len(waiting), nodes)
		}
	}
}
