package topology

import (
	"cmp"
	"slices"
)

// FabricBuilder keeps what the labels of the nodes say and makes a Fabric of it. It serves one caller at a time; the
// Fabrics that it returns are safe for all.
type FabricBuilder struct {
	vocabulary *vocabulary
	nodes      map[string]*fabricNode
	// order is the canonical order of the last Fabric, with nodes that came since at the end and those that left still
	// in place.
	order  []*fabricNode
	fabric *Fabric // nil: something changed
	// versions is the number of fabrics so far.
	versions uint64
}

// fabricNode is one node of a builder.
type fabricNode struct {
	name   string
	labels levelLabels
	path   [levelCount]step
	gone   bool
}

// step names the domain of a node at one level: the name that a label gives and the level of that label. Where the
// node has no label at the level itself, it is the step of the next narrower level. Two nodes share a domain exactly if
// their steps at its level and at all wider ones are equal.
type step struct {
	name string
	from Level
}

// NewFabricBuilder returns a builder without nodes that reads labels by a vocabulary: DefaultLevels if there are no
// levels. What ValidateLevels would refuse is left out.
func NewFabricBuilder(levels []LevelKeys) *FabricBuilder {
	return &FabricBuilder{vocabulary: newVocabulary(levels), nodes: make(map[string]*fabricNode)}
}

// SetNode adds a node, or takes note of its labels as they are now. It reports whether that changes the fabric; labels
// outside the vocabulary do not, and a call that changes nothing allocates nothing. The map is not kept.
func (b *FabricBuilder) SetNode(name string, labels map[string]string) (changed bool) {
	read := b.vocabulary.read(labels)
	n, ok := b.nodes[name]
	switch {
	case !ok:
		n = &fabricNode{name: name}
		b.nodes[name] = n
		b.order = append(b.order, n)
	case n.labels == read:
		return false
	}
	n.setLabels(read)
	b.fabric = nil
	return true
}

// setLabels derives the path from the labels.
func (n *fabricNode) setLabels(labels levelLabels) {
	n.labels = labels
	n.path[LevelHost] = step{name: n.name, from: LevelHost}
	for l := int(LevelHost) + 1; l < levelCount; l++ {
		n.path[l] = n.path[l-1]
		if v := labels.values[l]; v != "" {
			n.path[l] = step{name: v, from: Level(l)}
		}
	}
}

// RemoveNode removes a node, and reports whether the builder held it.
func (b *FabricBuilder) RemoveNode(name string) bool {
	n, ok := b.nodes[name]
	if !ok {
		return false
	}
	n.gone = true
	delete(b.nodes, name)
	b.fabric = nil
	return true
}

// Fabric returns the tree of the present nodes. It depends on the nodes and their labels alone, not on the calls that
// brought them there, and is the same pointer until something changes.
func (b *FabricBuilder) Fabric() *Fabric {
	if b.fabric != nil {
		return b.fabric
	}
	b.order = slices.DeleteFunc(b.order, func(n *fabricNode) bool { return n.gone })
	slices.SortFunc(b.order, comparePaths)
	b.fabric = newFabric(b.order, b.vocabulary)
	b.versions++
	b.fabric.version = b.versions
	return b.fabric
}

// comparePaths is the canonical order: by the steps from wide to narrow. The last step is the name of the node, so that
// different nodes are never equal.
func comparePaths(a, b *fabricNode) int {
	if l := divergence(a, b); l >= 0 {
		x, y := &a.path[l], &b.path[l]
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.from, y.from))
	}
	return 0
}

// divergence returns the widest level at which the paths of two nodes differ, and -1 if there is none.
func divergence(a, b *fabricNode) int {
	for l := levelCount - 1; l >= 0; l-- {
		if a.path[l] != b.path[l] {
			return l
		}
	}
	return -1
}
