package placement

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// maxLayers is the number of levels from LevelHost to LevelCluster.
const maxLayers = int(topology.LevelCluster) + 1

// tree is the fabric as far as the problem has nodes in it. Every node has a slot, and the slots are in the order of the
// fabric's positions, so that each domain is a range of slots. Nodes that the fabric does not hold come last, by name,
// each alone in a domain of every level but the cluster.
type tree struct {
	fabric *topology.Fabric
	// slots is what is at each slot; slotOf is the slot of each node of the problem.
	slots  []slot
	slotOf []int32
	// layers are the levels that differ from the next narrower one: first the hosts, each a slot, last the widest.
	layers []layer
	// layerOf is the layer that has the domains of each level.
	layerOf [maxLayers]int
	// first and last are the slots of the running part of the gang that are farthest apart, -1 for none.
	first, last int
	// nodes are those that the slots and layers were made from, by their index; empty where something else is in them too.
	nodes []stand
}

// stand is where one node of a problem stands.
type stand struct {
	name     ledger.NodeName
	position int
}

// slot is a node of the problem, or only the place of a running member on another node, whose index is -1.
type slot struct {
	node, position int32
	name           ledger.NodeName
}

// layer is one level of domains.
type layer struct {
	level topology.Level
	// first is the first slot of each domain, and at its end the number of slots; of is the domain of each slot.
	first, of []int32
	// near marks domains that the running part of the gang uses, used those and what a try has taken.
	near, used []bool
}

func (l *layer) domains() int { return len(l.first) - 1 }

// span returns the slots of a domain.
func (l *layer) span(d int) (first, end int) { return int(l.first[d]), int(l.first[d+1]) }

// build makes the tree of a problem with a fabric. What it is made of seldom changes from one problem to the next; then all
// of it stays but for the marks.
func (t *tree) build(p *Problem) error {
	if t.fabric == p.Fabric && t.sameNodes(p) {
		for k := range t.layers {
			clear(t.layers[k].near)
		}
		return nil
	}
	t.fabric, t.nodes = p.Fabric, t.nodes[:0]
	if err := t.fill(p); err != nil {
		return err
	}
	t.slotOf = append(t.slotOf[:0], make([]int32, len(p.Nodes))...)
	for s := range t.slots {
		if i := t.slots[s].node; i >= 0 {
			t.slotOf[i] = int32(s)
		}
	}
	t.cut()
	if len(p.Placed) == 0 {
		for i := range p.Nodes {
			t.nodes = append(t.nodes, stand{p.Nodes[i].Name, p.Nodes[i].Position})
		}
	}
	return nil
}

// sameNodes reports whether the tree was made of the problem's nodes alone. Names of nodes that did not change are usually the
// same string, so that comparing them ends at the pointer.
func (t *tree) sameNodes(p *Problem) bool {
	if len(p.Placed) > 0 || len(p.Nodes) == 0 || len(t.nodes) != len(p.Nodes) {
		return false
	}
	for i := range t.nodes {
		if n := &p.Nodes[i]; t.nodes[i].position != n.Position || t.nodes[i].name != n.Name {
			return false
		}
	}
	return true
}

// fill gives out the slots.
func (t *tree) fill(p *Problem) error {
	const none, running = -1, -2
	at := make([]int32, p.Fabric.Len())
	for i := range at {
		at[i] = none
	}
	var strays []slot
	for i := range p.Nodes {
		n := &p.Nodes[i]
		switch pos := n.Position; {
		case pos == -1:
			strays = append(strays, slot{node: int32(i), position: -1, name: n.Name})
		case pos < -1 || pos >= len(at) || p.Fabric.Name(pos) != string(n.Name) || at[pos] != none:
			return n.fault(i, "position", strconv.Itoa(pos), "must be the node's own position in the fabric, or -1")
		default:
			at[pos] = int32(i)
		}
	}
	for i := range p.Placed {
		m := &p.Placed[i]
		switch {
		case m.Position == -1:
			strays = append(strays, slot{node: -1, position: -1, name: m.Node})
		case at[m.Position] == none:
			at[m.Position] = running
		}
	}
	t.slots = t.slots[:0]
	for pos, i := range at {
		if i != none {
			t.slots = append(t.slots, slot{node: max(-1, i), position: int32(pos), name: ledger.NodeName(p.Fabric.Name(pos))})
		}
	}
	return t.addStrays(strays, at)
}

// addStrays gives slots to the nodes that the fabric does not hold; at is the node of each position.
func (t *tree) addStrays(strays []slot, at []int32) error {
	slices.SortFunc(strays, func(a, b slot) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(b.node, a.node)) })
	for k, s := range strays {
		if k > 0 && s.name == strays[k-1].name {
			if s.node < 0 {
				continue // a member that runs on the node before
			}
			return twice(s.name)
		}
		if pos, ok := t.fabric.Position(string(s.name)); ok && s.node >= 0 && at[pos] >= 0 {
			return twice(s.name)
		}
		t.slots = append(t.slots, s)
	}
	return nil
}

func twice(name ledger.NodeName) error {
	return &InputError{Field: "nodes.name", Value: string(name), Reason: "two nodes have this name"}
}

// cut finds the domains of every level.
func (t *tree) cut() {
	t.layers = t.layers[:0]
	for l := topology.LevelHost; l <= topology.LevelCluster; l++ {
		if l != topology.LevelHost && l != topology.LevelCluster && (t.fabric == nil || !t.fabric.Known(l)) {
			t.layerOf[l] = len(t.layers) - 1
			continue
		}
		n := len(t.layers)
		t.layers = slices.Grow(t.layers, 1)[:n+1]
		y := &t.layers[n]
		y.level, y.first, y.of = l, y.first[:0], y.of[:0]
		t.divide(y)
		if n > 0 && y.domains() == t.layers[n-1].domains() {
			t.layers = t.layers[:n]
			t.layerOf[l] = n - 1
			continue
		}
		t.layerOf[l] = n
		y.near = append(y.near[:0], make([]bool, y.domains())...)
		y.used = append(y.used[:0], make([]bool, y.domains())...)
	}
}

// divide finds the domains of one level.
func (t *tree) divide(y *layer) {
	last := -1
	for s := range t.slots {
		id := s
		if y.level > topology.LevelHost && y.level < topology.LevelCluster {
			id = t.fabric.Index(y.level, int(t.slots[s].position))
		}
		if s == 0 || y.level < topology.LevelCluster && (id < 0 || id != last) {
			y.first = append(y.first, int32(s))
		}
		last = id
		y.of = append(y.of, int32(len(y.first)-1))
	}
	y.first = append(y.first, int32(len(t.slots)))
}

// anchor marks the slots of the running part of the gang.
func (t *tree) anchor(near func(node int) bool, placed []Fixed) {
	t.first, t.last = -1, -1
	mark := func(s int) {
		if t.first < 0 {
			t.first = s
		}
		t.first, t.last = min(t.first, s), max(t.last, s)
		for k := range t.layers {
			t.layers[k].near[t.layers[k].of[s]] = true
		}
	}
	for s := range t.slots {
		if i := int(t.slots[s].node); i >= 0 && near(i) {
			mark(s)
		}
	}
	for i := range placed {
		if s := t.find(&placed[i]); s >= 0 {
			mark(s)
		}
	}
	t.forget()
}

// find returns the slot of a running member.
func (t *tree) find(m *Fixed) int {
	if m.Position >= 0 && t.fabric != nil {
		s, _ := slices.BinarySearchFunc(t.slots, m.Position, func(s slot, pos int) int {
			if s.position < 0 {
				return 1
			}
			return cmp.Compare(int(s.position), pos)
		})
		return s
	}
	return slices.IndexFunc(t.slots, func(s slot) bool { return s.position < 0 && s.name == m.Node })
}

// use marks what a try has taken; forget takes all such marks back.
func (t *tree) use(s int) {
	for k := range t.layers {
		t.layers[k].used[t.layers[k].of[s]] = true
	}
}

func (t *tree) forget() {
	for k := range t.layers {
		copy(t.layers[k].used, t.layers[k].near)
	}
}

// candidates returns the domains of a layer that may hold the whole gang: all, or the one with the running part, or none.
func (t *tree) candidates(k int) (from, to int) {
	y := &t.layers[k]
	switch {
	case t.first < 0:
		return 0, y.domains()
	case y.of[t.first] != y.of[t.last]:
		return 0, 0
	}
	return int(y.of[t.first]), int(y.of[t.first]) + 1
}

// inside returns the domains of a narrower layer that are in domain d of layer k.
func (t *tree) inside(k, d, narrower int) (from, to int) {
	first, end := t.layers[k].span(d)
	return int(t.layers[narrower].of[first]), int(t.layers[narrower].of[end-1]) + 1
}

// domainAt describes the domain of a level that holds the slot.
func (t *tree) domainAt(l topology.Level, s int) topology.Domain {
	at := t.slots[s]
	if l == topology.LevelCluster {
		d := topology.Domain{Level: l}
		if t.fabric != nil {
			d.End = t.fabric.Len()
		}
		return d
	}
	if at.position < 0 {
		return topology.Domain{Level: l, Name: string(at.name), First: -1, End: -1, Unknown: l > topology.LevelHost}
	}
	return t.fabric.Domain(l, int(at.position))
}
