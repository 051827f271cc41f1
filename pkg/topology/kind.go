package topology

import (
	"crypto/sha256"
	"encoding/binary"
)

// kind is what the nodes of one kind of machine have in common: all but the UUIDs of their cards. It is immutable, and nodes that
// Like has joined share one.
type kind struct {
	// cards have no UUID: those are Node.uuids.
	cards  []Card
	links  []Link // row-major
	nics   []NIC
	source string
	open   GPUSet
	mig    GPUSet
	models []Model
	shape  *Shape
	id     [32]byte
}

// Kind identifies what the node has in common with others by its content: two nodes with one Kind differ in the UUIDs of their
// cards at most. The UUIDs of MIG instances are part of it.
func (n *Node) Kind() [32]byte { return n.kind.id }

// Like returns a node equal to n that shares the memory of other where both are of one Kind; else it returns n.
func (n *Node) Like(other *Node) *Node {
	if n.kind == other.kind || n.kind.id != other.kind.id {
		return n
	}
	return &Node{kind: other.kind, uuids: n.uuids}
}

// identify sets the id: the hash of the kind's content, written one way for one content. Links are written by the shape too, as
// rates; open, mig and models follow from the cards.
func (k *kind) identify() {
	var room [4096]byte // of a usual node
	b := text(room[:0], k.source)
	b = append(b, k.shape.fingerprint[:]...)
	b = number(b, int64(len(k.cards)))
	for i := range k.cards {
		b = k.cards[i].encode(b)
	}
	for _, l := range k.links {
		b = append(b, byte(l.Type), l.NVLinks)
	}
	b = number(b, int64(len(k.nics)))
	for i := range k.nics {
		b = text(b, k.nics[i].Name)
		for _, l := range k.nics[i].Links {
			b = append(b, byte(l))
		}
	}
	k.id = sha256.Sum256(b)
}

// encode appends the card's content without its UUID.
func (c *Card) encode(b []byte) []byte {
	for _, s := range []string{c.Product, c.BusID, c.PCIeSwitch, c.PCIeRoot, c.Fault} {
		b = text(b, s)
	}
	b = number(number(b, c.VRAMBytes), int64(c.NUMA))
	b = append(b, flag(c.Healthy), flag(c.MIGEnabled))
	b = number(b, int64(len(c.MIG)))
	for i := range c.MIG {
		m := &c.MIG[i]
		b = text(text(b, m.Profile), m.UUID)
		b = number(number(number(b, int64(m.Start)), int64(m.Size)), m.VRAMBytes)
	}
	return b
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func number(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func text(b []byte, s string) []byte { return append(number(b, int64(len(s))), s...) }
