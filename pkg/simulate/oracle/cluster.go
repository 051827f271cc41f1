package oracle

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// MaxCards is the largest node that the oracle takes: it tries every order of the cards.
	MaxCards = 8
	// wholeMask is the slice mask of a whole card, wholeMilli its compute.
	wholeMask  = ^v1alpha1.SliceMask(0)
	wholeMilli = 1000
)

// Fault is a placement, or a record, that is wrong.
type Fault struct {
	// Pod is the pod at fault, Node where it was placed.
	Pod, Node string
	// Reason says what is wrong in one phrase.
	Reason string
}

// Error names pod, node and reason.
func (f *Fault) Error() string { return fmt.Sprintf("pod %s on node %s: %s", f.Pod, f.Node, f.Reason) }

// holding is one pod's share of a card.
type holding struct {
	pod  string
	card v1alpha1.CardRecord
}

// node is one node and what is held of it, by card.
type node struct {
	name     string
	topology *topology.Node
	rings    *rings
	held     [][]holding
}

// Cluster is all nodes at one moment. It is not safe for concurrent use.
type Cluster struct {
	nodes map[string]*node
}

// New returns a cluster of free nodes. A node of more than MaxCards cards is an error.
func New(nodes map[string]*topology.Node) (*Cluster, error) {
	c := &Cluster{nodes: make(map[string]*node, len(nodes))}
	shapes := map[[32]byte]*rings{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		t := nodes[name]
		if t.Len() > MaxCards {
			return nil, fmt.Errorf("node %s: has %d cards, the oracle takes at most %d", name, t.Len(), MaxCards)
		}
		id := t.Shape().Fingerprint()
		if shapes[id] == nil {
			shapes[id] = newRings(t.Shape())
		}
		c.nodes[name] = &node{name: name, topology: t, rings: shapes[id], held: make([][]holding, t.Len())}
	}
	return c, nil
}

// Place adds what a bound pod holds. It returns a *Fault, and changes nothing, where the record does not fit the node
// or takes what another pod holds. The pod must not be placed already.
func (c *Cluster) Place(pod string, r *v1alpha1.Record) error {
	n := c.nodes[r.Node]
	if n == nil {
		return &Fault{Pod: pod, Node: r.Node, Reason: "there is no such node"}
	}
	held := slices.Clone(n.held)
	for i := range r.Cards {
		card := &r.Cards[i]
		if card.Index < 0 || card.Index >= n.topology.Len() {
			return &Fault{Pod: pod, Node: r.Node, Reason: fmt.Sprintf("there is no card %d", card.Index)}
		}
		if reason := n.refuse(held[card.Index], card); reason != "" {
			return &Fault{Pod: pod, Node: r.Node, Reason: fmt.Sprintf("card %d: %s", card.Index, reason)}
		}
		held[card.Index] = append(slices.Clone(held[card.Index]), holding{pod: pod, card: *card})
	}
	n.held = held
	return nil
}

// Remove gives back what a pod holds; a pod that holds nothing is no error.
func (c *Cluster) Remove(pod string) {
	for _, n := range c.nodes {
		for i := range n.held {
			n.held[i] = slices.DeleteFunc(slices.Clone(n.held[i]), func(h holding) bool { return h.pod == pod })
		}
	}
}

// refuse says why a card with these holders cannot take one more share; "" if it can.
func (n *node) refuse(held []holding, r *v1alpha1.CardRecord) string {
	card := n.topology.Card(r.Index)
	switch {
	case !n.topology.Usable().Has(r.Index):
		return "is not usable"
	case r.UUID != card.UUID:
		return fmt.Sprintf("has UUID %q, the record says %q", card.UUID, r.UUID)
	case card.MIGEnabled != (r.MIG != ""):
		return "MIG instances and cards in MIG mode go together"
	case r.MIG != "":
		return refuseInstance(&card, held, r)
	}
	return refusePart(&card, held, r)
}

// refuseInstance is refuse for a MIG instance.
func refuseInstance(card *topology.Card, held []holding, r *v1alpha1.CardRecord) string {
	exists := slices.ContainsFunc(card.MIG, func(m topology.MIGInstance) bool {
		return m.Profile == r.MIG && v1alpha1.SliceMask(m.SliceMask()) == r.SliceMask
	})
	if !exists {
		return fmt.Sprintf("has no instance %s at slices %s", r.MIG, r.SliceMask)
	}
	for _, h := range held {
		if h.card.SliceMask&r.SliceMask != 0 {
			return "instance is sold twice, pod " + h.pod + " has it"
		}
	}
	return ""
}

// refusePart is refuse for a whole card or a part of one.
func refusePart(card *topology.Card, held []holding, r *v1alpha1.CardRecord) string {
	bytes, milli := r.VRAMBytes, r.ComputeMilli
	for _, h := range held {
		if r.SliceMask == wholeMask || h.card.SliceMask == wholeMask {
			return "is sold twice, pod " + h.pod + " has it"
		}
		if h.card.SliceMask&r.SliceMask != 0 {
			return "slices are sold twice, pod " + h.pod + " has them"
		}
		bytes += h.card.VRAMBytes
		milli += h.card.ComputeMilli
	}
	switch {
	case r.SliceMask == wholeMask && r.VRAMBytes != card.VRAMBytes:
		return fmt.Sprintf("all of it is %d bytes, the record says %d", card.VRAMBytes, r.VRAMBytes)
	case r.SliceMask != wholeMask && card.VRAMBytes == 0:
		return "is of unknown memory and goes whole"
	case bytes > card.VRAMBytes:
		return fmt.Sprintf("has %d bytes, %d are sold", card.VRAMBytes, bytes)
	case milli > wholeMilli:
		return fmt.Sprintf("%d thousandths of its compute are sold", milli)
	case r.SliceMask != wholeMask && int64(bits.OnesCount64(uint64(r.SliceMask))) != r.VRAMBytes*slicesPerCard/card.VRAMBytes:
		return fmt.Sprintf("%d bytes are not slices %s", r.VRAMBytes, r.SliceMask)
	}
	return ""
}

// free returns the cards that nobody holds a part of and that could be given out whole.
func (n *node) free() topology.GPUSet {
	free := n.topology.Usable() &^ n.topology.MIGCards()
	for i := range n.held {
		if len(n.held[i]) > 0 {
			free = free.Without(i)
		}
	}
	return free
}

// Free returns the cards of a node that nobody holds a part of and that are not in MIG mode; the empty set for an
// unknown node.
func (c *Cluster) Free(name string) topology.GPUSet {
	n := c.nodes[name]
	if n == nil {
		return 0
	}
	return n.free()
}

// Holder is one pod's hold on one card.
type Holder struct {
	Pod  string
	Card v1alpha1.CardRecord
}

// Holders returns who holds parts of card i of a node, in the order of Place.
func (c *Cluster) Holders(name string, i int) []Holder {
	n := c.nodes[name]
	if n == nil || i < 0 || i >= len(n.held) {
		return nil
	}
	out := make([]Holder, len(n.held[i]))
	for k, h := range n.held[i] {
		out[k] = Holder{Pod: h.pod, Card: h.card}
	}
	return out
}

// Ring returns the fastest ring through a set of cards of a node: its slowest pair and the order of the cards. A single
// card has no ring: 0 and the card. An unknown node has none.
func (c *Cluster) Ring(name string, set topology.GPUSet) (topology.Bandwidth, []int) {
	n := c.nodes[name]
	if n == nil {
		return 0, nil
	}
	best := n.rings.fastestRing(set & n.topology.All())
	return best.slowest, best.order
}
