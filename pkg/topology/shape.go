package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Shape is the part of a node that card choice depends on: pair bandwidths, which cards share a NUMA node, and NIC
// distance. Two nodes with equal Fingerprint have equal shapes, and get the same choice for the same free cards:
// UUIDs, bus ids, sizes, health and the numbers that a host gives its NUMA nodes are no part of it. Immutable.
type Shape struct {
	n           int
	pairs       []Bandwidth
	numa        []int
	nic         []LinkType
	fingerprint [32]byte
}

// Len returns the number of cards.
func (s *Shape) Len() int { return s.n }

// Pair returns the bandwidth between cards i and j; 0 for i == j.
func (s *Shape) Pair(i, j int) Bandwidth { return s.pairs[i*s.n+j] }

// NUMA returns the NUMA node of card i, or NUMAUnknown. Nodes are numbered 0, 1, ... in the order of their first
// card; the host's own id is Card.NUMA.
func (s *Shape) NUMA(i int) int { return s.numa[i] }

// NearestNIC returns the best connection of card i to any network adapter, LinkUnknown without one.
func (s *Shape) NearestNIC(i int) LinkType { return s.nic[i] }

// Fingerprint identifies the shape by its content.
func (s *Shape) Fingerprint() [32]byte { return s.fingerprint }

func newShape(k *kind, rates Rates) *Shape {
	count := len(k.cards)
	s := &Shape{n: count, pairs: make([]Bandwidth, count*count), numa: make([]int, count), nic: make([]LinkType, count)}
	perCard := make([]cardRates, count)
	var hostIDs []int
	for i := range k.cards {
		perCard[i] = rates.of(k.cards[i].Product)
		s.numa[i] = NUMAUnknown
		if id := k.cards[i].NUMA; id != NUMAUnknown {
			at := slices.Index(hostIDs, id)
			if at < 0 {
				at = len(hostIDs)
				hostIDs = append(hostIDs, id)
			}
			s.numa[i] = at
		}
		for _, nic := range k.nics {
			s.nic[i] = max(s.nic[i], nic.Links[i])
		}
		for j := range i {
			l := k.links[i*count+j]
			b := min(rates.link(perCard[i], l), rates.link(perCard[j], l))
			s.pairs[i*count+j], s.pairs[j*count+i] = b, b
		}
	}
	var room [1024]byte // of eight cards
	s.fingerprint = sha256.Sum256(s.encode(room[:0]))
	return s
}

// encode appends the shape's content, one way for one content: n, then the pairs below the diagonal, then NUMA and
// NIC distance of every card, each number as 8 bytes.
func (s *Shape) encode(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.n))
	for i := range s.n {
		for j := range i {
			b = binary.BigEndian.AppendUint64(b, uint64(s.Pair(i, j)))
		}
	}
	for i := range s.n {
		b = binary.BigEndian.AppendUint64(b, uint64(int64(s.numa[i])))
		b = binary.BigEndian.AppendUint64(b, uint64(s.nic[i]))
	}
	return b
}
