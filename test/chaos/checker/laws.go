package checker

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Stale is how long after the news that a card has left its node, or fallen sick, a bind to it may still come: longer than a
// scheduler can be stopped, or a request held up, in the chaos test.
const Stale = 20 * time.Second

// Laws holds what must be true at all times. It is not safe for concurrent use.
type Laws struct {
	// Heard reports whether every scheduler was told anything of nodes between two moments. Nil for always: a watch that
	// fails again and again is tried once in 30 to 60 seconds only (client-go's tools/cache, defaultBackoffMax).
	Heard func(from, to time.Duration) bool

	pods  map[string]*holder
	nodes map[string]*listing
	// capacity is the memory of every card that was ever listed, by UUID.
	capacity map[string]int64
	// succeeded counts the members of a gang that have succeeded and are gone.
	succeeded map[string]int
}

// holder is a pod that exists.
type holder struct {
	Pod
	// cards is what its record said when it was first seen bound.
	cards []Card
	// damaged is true once the record is no longer that.
	damaged bool
}

// listing is what a node lists, and until when it listed what it does not any more.
type listing struct {
	node    Node
	present bool
	// until maps the UUID of a card to the last moment at which the node was known to list it as healthy.
	until map[string]time.Duration
	// most are the numbers of cards of which a bind may still know, each with the moment at which it was replaced by a smaller one.
	most []past
}

type past struct {
	cards int
	until time.Duration
}

// NewLaws returns Laws of an empty cluster.
func NewLaws() *Laws {
	return &Laws{pods: map[string]*holder{}, nodes: map[string]*listing{}, capacity: map[string]int64{}, succeeded: map[string]int{}}
}

// SeeNode takes in a node as it is from now on. now is the time since any fixed moment; it only grows.
func (l *Laws) SeeNode(n Node, now time.Duration) {
	at := l.nodes[n.Name]
	if at == nil {
		at = &listing{until: map[string]time.Duration{}}
		l.nodes[n.Name] = at
	}
	l.leave(at, now)
	at.node, at.present = n, true
	for _, c := range n.Cards {
		l.capacity[c.UUID] = max(l.capacity[c.UUID], c.VRAMBytes)
	}
}

// GoneNode takes in that a node is gone.
func (l *Laws) GoneNode(name string, now time.Duration) {
	if at := l.nodes[name]; at != nil {
		l.leave(at, now)
		at.present, at.node = false, Node{Name: name}
	}
}

// old reports whether what ended at a moment is known to have ended by whoever binds now.
func (l *Laws) old(until, now time.Duration) bool {
	return now-until > Stale && (l.Heard == nil || l.Heard(until, now-Stale))
}

// leave remembers what was listed until now.
func (l *Laws) leave(at *listing, now time.Duration) {
	if !at.present {
		return
	}
	for _, c := range at.node.Cards {
		if c.Healthy {
			at.until[c.UUID] = now
		}
	}
	at.most = slices.DeleteFunc(at.most, func(p past) bool { return l.old(p.until, now) })
	at.most = append(at.most, past{len(at.node.Cards), now})
}

// lists reports whether the node lists the healthy card, or did so not long ago.
func (l *Laws) lists(at *listing, uuid string, now time.Duration) bool {
	if c, ok := at.node.card(uuid); ok && c.Healthy {
		return true
	}
	until, ever := at.until[uuid]
	return ever && !l.old(until, now)
}

// cards is the largest number of cards that the node listed not long ago.
func (l *Laws) cards(at *listing, now time.Duration) int {
	most := len(at.node.Cards)
	for _, p := range at.most {
		if !l.old(p.until, now) {
			most = max(most, p.cards)
		}
	}
	return most
}

// SeePod takes in a pod as an event shows it, and returns what it breaks. Events of one pod come in order.
func (l *Laws) SeePod(p Pod, now time.Duration) []Violation {
	was := l.pods[p.UID]
	is := &holder{Pod: p}
	l.pods[p.UID] = is
	if was != nil && was.Node != "" {
		is.cards, is.damaged = was.cards, was.damaged || was.Record != p.Record || was.HasRecord != p.HasRecord
		if was.Node != p.Node {
			return []Violation{violated("moved", []string{p.Name, was.Node, p.Node}, "pod %s was bound to node %s and is on %q now", p.Name, was.Node, p.Node)}
		}
		return nil
	}
	if p.Node == "" || p.Cards == 0 {
		return nil
	}
	bad := l.firstRecord(is, now)
	if is.Live() {
		bad = append(bad, l.sold(is)...)
		bad = append(bad, l.counted(p.Node, now)...)
	}
	return bad
}

// GonePod takes in that a pod does not exist any more.
func (l *Laws) GonePod(uid string) {
	if h := l.pods[uid]; h != nil && h.Succeeded && h.Group != "" {
		l.succeeded[h.Group]++
	}
	delete(l.pods, uid)
}

// UIDs returns the pods that exist, ascending.
func (l *Laws) UIDs() []string { return slices.Sorted(maps.Keys(l.pods)) }

// Damaged reports whether the record of a pod was changed after it was bound.
func (l *Laws) Damaged(uid string) bool {
	h := l.pods[uid]
	return h != nil && h.damaged
}

// Cards returns what the pod's record said when it was first seen bound.
func (l *Laws) Cards(uid string) []Card {
	if h := l.pods[uid]; h != nil {
		return h.cards
	}
	return nil
}

// firstRecord reads the record of a pod that was just bound.
func (l *Laws) firstRecord(h *holder, now time.Duration) []Violation {
	about := []string{h.Name, h.Node}
	if !h.HasRecord {
		return []Violation{violated("record", about, "pod %s is bound to node %s without a record", h.Name, h.Node)}
	}
	r, cards, err := readRecord(h.Record)
	if err != nil {
		return []Violation{violated("record", about, "pod %s is bound to node %s with a record that cannot be read: %v", h.Name, h.Node, err)}
	}
	h.cards = cards
	about = append(about, uuids(cards)...)
	if r.Node != h.Node {
		return []Violation{violated("record", about, "pod %s is on node %s, its record says %s", h.Name, h.Node, r.Node)}
	}
	if len(cards) != h.Pod.Cards {
		return []Violation{violated("record", about, "pod %s asks for %d cards, its record names %d", h.Name, h.Pod.Cards, len(cards))}
	}
	var bad []Violation
	at := l.nodes[h.Node]
	seen := map[string]bool{}
	for _, c := range cards {
		reason := l.wrong(h, at, c, now)
		if seen[c.UUID] {
			reason = "is named twice"
		}
		seen[c.UUID] = true
		if reason != "" {
			bad = append(bad, violated("record", about, "pod %s on node %s: card %d (%s) %s", h.Name, h.Node, c.Index, c.UUID, reason))
		}
	}
	return bad
}

// wrong says what is wrong with one card of a first record, "" if nothing is.
func (l *Laws) wrong(h *holder, at *listing, c Card, now time.Duration) string {
	memory := l.capacity[c.UUID]
	switch {
	case at == nil:
		return "is of a node that never was"
	case !l.lists(at, c.UUID, now):
		return "is no healthy card of that node"
	case h.VRAMBytes == 0 && (c.Mask != wholeMask || c.VRAMBytes != memory || c.ComputeMilli != wholeMilli):
		return fmt.Sprintf("is not held whole: slices %#x, %d of %d bytes, %d/1000 of its compute", c.Mask, c.VRAMBytes, memory, c.ComputeMilli)
	case h.VRAMBytes > 0 && c.VRAMBytes != h.VRAMBytes:
		return fmt.Sprintf("is held with %d bytes, %d are asked for", c.VRAMBytes, h.VRAMBytes)
	case h.VRAMBytes > memory:
		return fmt.Sprintf("has %d bytes, %d are asked for", memory, h.VRAMBytes)
	}
	return ""
}

// sold compares a pod that was just bound with every other live one.
func (l *Laws) sold(h *holder) []Violation {
	var bad []Violation
	for _, c := range h.cards {
		bytes, milli, about := c.VRAMBytes, c.ComputeMilli, []string{h.Name, h.Node, c.UUID}
		for _, uid := range l.UIDs() {
			o := l.pods[uid]
			if uid == h.UID || !o.Live() || o.damaged {
				continue
			}
			for _, other := range o.cards {
				if other.UUID != c.UUID {
					continue
				}
				about = append(about, o.Name, o.Node)
				bytes, milli = bytes+other.VRAMBytes, milli+other.ComputeMilli
				if what := overlap(c, other); what != "" {
					bad = append(bad, violated("sold-twice", []string{h.Name, h.Node, c.UUID, o.Name, o.Node},
						"pod %s on node %s and pod %s on node %s both hold %s of card %s", o.Name, o.Node, h.Name, h.Node, what, c.UUID))
				}
			}
		}
		if memory, known := l.capacity[c.UUID]; known && len(bad) == 0 && (bytes > memory || milli > wholeMilli) {
			bad = append(bad, violated("sold-twice", about, "of card %s, which has %d bytes, %d bytes and %d/1000 of its compute are held", c.UUID, memory, bytes, milli))
		}
	}
	return bad
}

// counted compares how many cards are held on a node with how many it lists.
func (l *Laws) counted(node string, now time.Duration) []Violation {
	at := l.nodes[node]
	if at == nil {
		return nil // firstRecord says so
	}
	held, unknown, about := map[string]bool{}, 0, []string{node}
	for _, uid := range l.UIDs() {
		h := l.pods[uid]
		if !h.Live() || h.Node != node || h.Pod.Cards == 0 {
			continue
		}
		about = append(about, h.Name)
		switch {
		case !h.damaged:
			for _, c := range h.cards {
				if l.lists(at, c.UUID, now) {
					held[c.UUID] = true
				}
			}
		case h.VRAMBytes == 0:
			unknown += h.Pod.Cards
		}
	}
	if most := l.cards(at, now); len(held)+unknown > most {
		return []Violation{violated("count", about, "node %s lists %d cards; pods hold %d of them and, under damaged records, %d more", node, most, len(held), unknown)}
	}
	return nil
}
