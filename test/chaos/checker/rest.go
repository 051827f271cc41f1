package checker

import (
	"fmt"
	"slices"
	"strings"
)

// phaseBroken is what a replica calls a gang that ran and lost members.
const phaseBroken = "broken"

// Group is what the checker reads of a PodGroup.
type Group struct {
	// Name is namespace/name.
	Name      string
	UID       string
	MinMember int
}

// Moment is everything at one moment.
type Moment struct {
	Pods   []Pod
	Nodes  []Node
	Groups []Group
}

// rest is a Moment under comparison.
type rest struct {
	Moment
	laws *Laws
	// holding are the live pods with GPUs, by UID; on are the same by node.
	holding map[string]*Pod
	on      map[string][]*Pod
	bad     []Violation
}

// AtRest returns what keeps the cluster from being at rest and in order: nil when every law of rest holds. laws has seen
// all events up to the moment. Without states only what the API shows is checked.
func AtRest(laws *Laws, m Moment, states []State) []Violation {
	r := &rest{Moment: m, laws: laws, holding: map[string]*Pod{}, on: map[string][]*Pod{}}
	for i := range m.Pods {
		if p := &m.Pods[i]; p.Live() && p.Cards > 0 {
			r.holding[p.UID] = p
			r.on[p.Node] = append(r.on[p.Node], p)
		}
	}
	var leader *State
	leaders := 0
	for i := range states {
		s := &states[i]
		if s.Summary.Leading {
			leader = s
			leaders++
		}
		r.checkReplica(s)
	}
	if len(states) > 0 && leaders != 1 {
		r.fail("replica", nil, "%d replicas lead, want 1", leaders)
	}
	slots := r.checkNodes(states)
	r.checkGangs(leader)
	r.checkFits(slots)
	return r.bad
}

func (r *rest) fail(law string, about []string, format string, args ...any) {
	r.bad = append(r.bad, violated(law, about, format, args...))
}

// checkReplica compares one ledger with the live pods.
func (r *rest) checkReplica(s *State) {
	if !s.Summary.Synced {
		r.fail("replica", nil, "replica %s is not in sync", s.Replica)
	}
	if s.Summary.Suspects != 0 {
		r.fail("replica", nil, "replica %s has %d binds of unknown outcome", s.Replica, s.Summary.Suspects)
	}
	known := map[string]bool{}
	for i := range s.Pods {
		h := &s.Pods[i]
		known[h.UID] = true
		p := r.holding[h.UID]
		switch {
		case p == nil && h.Cooling:
			r.fail("ledger", []string{h.Pod, h.Node}, "replica %s still keeps the cards of pod %s (%s), which is gone, on node %s", s.Replica, h.Pod, h.UID, h.Node)
		case p == nil:
			r.fail("ledger", []string{h.Pod, h.Node}, "replica %s has cards of node %s held by pod %s (%s, %s), which is no live pod with GPUs", s.Replica, h.Node, h.Pod, h.UID, h.Stage)
		case h.Stage != "bound":
			r.fail("ledger", []string{h.Pod, h.Node}, "replica %s has pod %s as %s, it is bound", s.Replica, h.Pod, h.Stage)
		case h.Node != p.Node:
			r.fail("ledger", []string{h.Pod, h.Node, p.Node}, "replica %s has pod %s on node %s, it is on %s", s.Replica, h.Pod, h.Node, p.Node)
		default:
			r.compareCards(s.Replica, p, h)
		}
	}
	for i := range r.Pods {
		if p := &r.Pods[i]; r.holding[p.UID] != nil && !known[p.UID] {
			r.fail("ledger", []string{p.Name, p.Node}, "replica %s does not know that pod %s (%s) holds %d cards of node %s", s.Replica, p.Name, p.UID, p.Cards, p.Node)
		}
	}
}

func (r *rest) compareCards(replica string, p *Pod, h *HeldPod) {
	about := []string{p.Name, p.Node}
	if r.laws.Damaged(p.UID) {
		if have := len(h.Cards) + h.UnknownCards; have != p.Cards {
			r.fail("ledger", about, "replica %s charges pod %s, whose record is damaged, %d cards and %d unknown ones, it asks for %d", replica, p.Name, len(h.Cards), h.UnknownCards, p.Cards)
		}
		return
	}
	have := make([]Card, len(h.Cards))
	for i, c := range h.Cards {
		card, err := c.card()
		if err != nil {
			r.fail("ledger", about, "replica %s, pod %s: %v", replica, p.Name, err)
			return
		}
		have[i] = card
	}
	want := slices.Clone(r.laws.Cards(p.UID))
	for _, list := range [][]Card{have, want} {
		slices.SortFunc(list, func(a, b Card) int { return strings.Compare(a.UUID, b.UUID) })
	}
	if h.UnknownCards != 0 || !slices.Equal(have, want) {
		r.fail("ledger", append(about, uuids(want)...), "replica %s charges pod %s %s and %d unknown ones, its record says %s", replica, p.Name, cardTexts(have), h.UnknownCards, cardTexts(want))
	}
}

// checkNodes compares what replicas say of clean nodes, and returns what is free on them.
func (r *rest) checkNodes(states []State) []slots {
	var open []slots
	for i := range r.Nodes {
		n := &r.Nodes[i]
		s, clean := r.slotsOf(n)
		if !clean {
			continue
		}
		for j := range states {
			r.compareNode(&states[j], n, &s)
		}
		if n.Open {
			open = append(open, s)
		}
	}
	return open
}

func (r *rest) compareNode(s *State, n *Node, have *slots) {
	if len(n.Cards) == 0 {
		return
	}
	at := slices.IndexFunc(s.Nodes, func(h HeldNode) bool { return h.Name == n.Name })
	if at < 0 {
		r.fail("nodes", []string{n.Name}, "replica %s does not know node %s", s.Replica, n.Name)
		return
	}
	h := &s.Nodes[at]
	if h.Quarantine != "" {
		r.fail("nodes", []string{n.Name}, "replica %s has node %s in quarantine (%s), but nothing on it contradicts anything", s.Replica, n.Name, h.Quarantine)
	}
	if free := have.whole(); h.Cards != len(n.Cards) || h.Free != free {
		r.fail("nodes", []string{n.Name}, "replica %s says that node %s has %d cards and %d are free; it has %d and %d are", s.Replica, n.Name, h.Cards, h.Free, len(n.Cards), free)
	}
}

// checkGangs looks for gangs that hold cards for nothing.
func (r *rest) checkGangs(leader *State) {
	for _, g := range r.Groups {
		bound, succeeded := 0, r.laws.succeeded[g.Name]
		about := []string{g.Name}
		for i := range r.Pods {
			p := &r.Pods[i]
			if p.Group != g.Name {
				continue
			}
			about = append(about, p.Name)
			switch {
			case p.Succeeded:
				succeeded++
			case p.Live():
				bound++
				about = append(about, p.Node)
			}
		}
		if bound == 0 || bound+succeeded >= g.MinMember {
			continue
		}
		phase := "unknown"
		if leader != nil {
			for i := range leader.Gangs {
				if leader.Gangs[i].Gang == g.Name {
					phase = leader.Gangs[i].Phase
				}
			}
		}
		if leader == nil || phase != phaseBroken {
			r.fail("gang", about, "gang %s needs %d members: %d are bound and %d have succeeded, and it is not broken but %s", g.Name, g.MinMember, bound, succeeded, phase)
		}
	}
}

// describe names a request.
func describe(p *Pod) string {
	if p.VRAMBytes > 0 {
		return fmt.Sprintf("%d bytes on each of %d cards", p.VRAMBytes, p.Cards)
	}
	return fmt.Sprintf("%d cards", p.Cards)
}
