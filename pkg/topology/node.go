package topology

import (
	"fmt"
	"slices"
)

// Spec describes a node's cards before they are checked. A source fills it in, New checks it.
type Spec struct {
	// Cards stands in index order: Cards[i] is the card that the node calls index i.
	Cards []Card
	// Links is the matrix of connections, one row and one column a card; nil where no source knows any.
	Links [][]Link
	// NVSwitch says that every pair of cards is joined through NVSwitches, whatever Links says.
	NVSwitch bool
	// NICs lists the network adapters.
	NICs []NIC
	// Source names where the description came from, for logs and `topology show`.
	Source string
}

// SpecError is a description that cannot be used: the field at fault, its value and what is wrong with it.
type SpecError struct {
	Field, Value, Reason string
}

// Error names the field, the value and the reason.
func (e *SpecError) Error() string {
	return fmt.Sprintf("%s: %.64q: %s", e.Field, e.Value, e.Reason)
}

// Node is the GPU graph of one node. It never changes once built and is safe for concurrent readers.
type Node struct {
	kind *kind
	// uuids are the UUIDs of the cards.
	uuids []string
}

// Model is the cards of a node that are of one product.
type Model struct {
	// Product is as in Card, "" for unknown.
	Product string
	Cards   GPUSet
}

// Len returns the number of cards, usable or not.
func (n *Node) Len() int { return len(n.uuids) }

// Card returns card i, 0 <= i < Len().
func (n *Node) Card(i int) Card {
	c := n.kind.cards[i]
	c.UUID = n.uuids[i]
	return c
}

// UUID returns the UUID of card i, 0 <= i < Len(), "" if it has none.
func (n *Node) UUID(i int) string { return n.uuids[i] }

// Link returns the connection of cards i and j.
func (n *Node) Link(i, j int) Link { return n.kind.links[i*len(n.uuids)+j] }

// NICs returns the network adapters; the caller must not change them.
func (n *Node) NICs() []NIC { return n.kind.nics }

// Source names where the description came from.
func (n *Node) Source() string { return n.kind.source }

// All returns the set of all cards, usable or not.
func (n *Node) All() GPUSet { return FirstN(len(n.uuids)) }

// Usable returns the cards that are healthy and without fault, in MIG mode or not.
func (n *Node) Usable() GPUSet { return n.kind.open }

// MIGCards returns the cards in MIG mode.
func (n *Node) MIGCards() GPUSet { return n.kind.mig }

// Models returns the cards by product, those with the lowest card first; nearly every node has one. The caller must not
// change them.
func (n *Node) Models() []Model { return n.kind.models }

// Shape returns what decides the quality of a set of cards: nodes of one shape share one answer.
func (n *Node) Shape() *Shape { return n.kind.shape }

// IndexOf returns the index of the card with this UUID, -1 where there is none.
func (n *Node) IndexOf(uuid string) int {
	if uuid == "" {
		return -1
	}
	return slices.Index(n.uuids, uuid)
}
