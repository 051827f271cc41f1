package ledger

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync/atomic"
)

// parts is the number of parts of a directory: a power of two, so that at 10,000 nodes a part has two or three.
const parts = 4096

// directory maps names to nodes. Readers take no lock: each part is a list that never changes and is replaced as a
// whole. Writers hold Ledger.mu; a write copies one part. It is faster than a sync.Map because a lookup touches one
// list and the node, and what is not in the processor's cache is most of the cost.
type directory struct {
	// seed spreads the names over the parts; nothing but speed depends on it.
	seed  maphash.Seed
	parts [parts]atomic.Pointer[part]
}

// part is the nodes whose names have hashes that are equal modulo parts.
type part struct {
	links []link
	// room is where the first links stand, beside their slice.
	room [6]link
}

// link is one node. Its hash is compared first, so that the names of other nodes need not be read.
type link struct {
	hash uint64
	node *node
}

func (d *directory) hash(name NodeName) uint64 { return maphash.String(d.seed, string(name)) }

// node returns the entry of a name, nil if there is none.
func (d *directory) node(name NodeName) *node {
	hash := d.hash(name)
	p := d.parts[hash%parts].Load()
	if p == nil {
		return nil
	}
	for _, l := range p.links {
		if l.hash == hash && l.node.name == name {
			return l.node
		}
	}
	return nil
}

// add puts in an entry that is not there.
func (d *directory) add(n *node) {
	hash, next := d.hash(n.name), &part{}
	next.links = next.room[:0]
	if p := d.parts[hash%parts].Load(); p != nil {
		next.links = append(next.links, p.links...)
	}
	next.links = append(next.links, link{hash, n})
	d.parts[hash%parts].Store(next)
}

// remove takes the entry of a name out.
func (d *directory) remove(name NodeName) {
	hash := d.hash(name)
	p := d.parts[hash%parts].Load()
	if p == nil {
		return
	}
	next := &part{}
	next.links = next.room[:0]
	for _, l := range p.links {
		if l.node.name != name {
			next.links = append(next.links, l)
		}
	}
	if len(next.links) == 0 {
		next = nil
	}
	d.parts[hash%parts].Store(next)
}

// all yields all entries, in no order.
func (d *directory) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		for i := range d.parts {
			if p := d.parts[i].Load(); p != nil {
				for _, l := range p.links {
					if !yield(l.node) {
						return
					}
				}
			}
		}
	}
}

// names returns all names in ascending order.
func (d *directory) names() []NodeName {
	var names []NodeName
	for n := range d.all() {
		names = append(names, n.name)
	}
	slices.Sort(names)
	return names
}
