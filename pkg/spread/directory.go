package spread

// keepTurns is for how many changes of the list a node that is not on it is remembered. The placements of one pod group make
// some dozens; a node that was deleted goes sooner or later.
const keepTurns = 1000

// Node is what the directory needs to know of a node.
type Node struct {
	Name string
	// Labels are the node's labels. The map is kept and must not change.
	Labels map[string]string
}

// Nodes is the list of the nodes of one scheduling cycle, each once.
type Nodes interface {
	Len() int
	// Generation stands for a node and its pods in one state: a number above 0 that nothing else ever has.
	Generation(i int) int64
	Node(i int) Node
}

// directory gives every node a slot and, by topology key, the number of its domain.
type directory struct {
	rows  []row
	slots dictionary
	// order and generations are the list as it was read last, by position.
	order       []int32
	generations []int64
	columns     map[string]*column
	turn        int
	version     uint64
}

// row is the node of one slot.
type row struct {
	name       string
	labels     map[string]string
	generation int64
	// version is another one whenever the generation or the node is.
	version uint64
	// at is the position on the list, absent if it is not there since turn left.
	at   int32
	left int
}

const absent = -1

func newDirectory() directory {
	return directory{slots: newDictionary(), columns: map[string]*column{}}
}

// read brings the directory in line with the list.
func (d *directory) read(nodes Nodes) {
	n := nodes.Len()
	moved := n != len(d.order)
	d.resize(n)
	for i := range n {
		g := nodes.Generation(i)
		if d.generations[i] == g {
			continue
		}
		d.generations[i] = g
		slot := d.put(g, nodes.Node(i))
		if d.order[i] != slot {
			d.order[i], moved = slot, true
		}
	}
	if moved {
		d.reorder()
	}
}

// resize cuts the list off, or adds positions that hold no node yet.
func (d *directory) resize(n int) {
	if n <= len(d.order) {
		d.order, d.generations = d.order[:n], d.generations[:n]
		return
	}
	for len(d.order) < n {
		d.order, d.generations = append(d.order, absent), append(d.generations, 0)
	}
}

// put enters a node and returns its slot.
func (d *directory) put(generation int64, n Node) int32 {
	slot, known := d.slots.ids[n.Name]
	if !known {
		slot = d.slots.add(n.Name)
		if int(slot) == len(d.rows) {
			d.rows = append(d.rows, row{})
			for _, c := range d.columns {
				c.domains = append(c.domains, absent)
			}
		}
		d.rows[slot] = row{name: n.Name, at: absent, left: d.turn}
	}
	r := &d.rows[slot]
	if r.generation == generation {
		return slot
	}
	d.version++
	r.generation, r.version, r.labels = generation, d.version, n.Labels
	for _, c := range d.columns {
		c.set(slot, n.Labels)
	}
	return slot
}

// reorder notes where every node stands, and drops those that have been away for long.
func (d *directory) reorder() {
	d.turn++
	was := d.rows
	for i := range was {
		if was[i].at != absent {
			was[i].at, was[i].left = absent, d.turn
		}
	}
	for i, slot := range d.order {
		d.rows[slot].at = int32(i)
	}
	for slot := range d.rows {
		if r := &d.rows[slot]; r.at == absent && r.name != "" && d.turn-r.left > keepTurns {
			d.drop(int32(slot))
		}
	}
}

func (d *directory) drop(slot int32) {
	for _, c := range d.columns {
		c.set(slot, nil)
	}
	d.slots.remove(d.rows[slot].name)
	d.version++
	d.rows[slot] = row{at: absent, version: d.version}
}

// use returns the column of a key for one more user.
func (d *directory) use(key string) *column {
	c := d.columns[key]
	if c == nil {
		c = &column{key: key, values: newDictionary(), domains: make([]int32, len(d.rows))}
		c.hold(c.values.add(""))
		for slot := range d.rows {
			c.domains[slot] = absent
			c.set(int32(slot), d.rows[slot].labels)
		}
		d.columns[key] = c
	}
	c.users++
	return c
}

// release is the end of a use.
func (d *directory) release(c *column) {
	if c.users--; c.users == 0 {
		delete(d.columns, c.key)
	}
}

// emptyDomain is the number of the domain whose name is empty: where the key need not be there, nodes without it are in it.
const emptyDomain = 0

// column is one topology key: the domain of every slot, absent for a node without the label.
type column struct {
	key     string
	users   int
	values  dictionary
	domains []int32
	// nodes counts, by domain, the slots in it.
	nodes []int32
}

// set reads the domain of a slot from the labels of its node.
func (c *column) set(slot int32, labels map[string]string) {
	was, now := c.domains[slot], int32(absent)
	if value, ok := labels[c.key]; ok {
		if was != absent && c.values.names[was] == value {
			return
		}
		now = c.values.add(value)
		c.hold(now)
	}
	if was != absent {
		if c.nodes[was]--; c.nodes[was] == 0 {
			c.values.remove(c.values.names[was])
		}
	}
	c.domains[slot] = now
}

// hold counts one more slot in a domain.
func (c *column) hold(domain int32) {
	for int(domain) >= len(c.nodes) {
		c.nodes = append(c.nodes, 0)
	}
	c.nodes[domain]++
}
