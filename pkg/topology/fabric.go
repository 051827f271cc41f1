package topology

// Domain is the set of nodes that share one part of the fabric: the nodes at positions First to End-1.
type Domain struct {
	Level Level
	// Name is unique among the domains of the level, for users to read. It is the value of the label; where one value
	// stands under several wider domains, with the name of the wider one in front ("spine-1/leaf-007"); and for an
	// unknown domain what it holds ("unknown(leaf leaf-007)").
	Name string
	// First and End delimit the positions of the nodes: First <= position < End.
	First, End int
	// Unknown says that the nodes carry no label of this level: the domain is just as narrow as that of the next
	// narrower level.
	Unknown bool
}

// Len returns the number of nodes.
func (d Domain) Len() int { return d.End - d.First }

// Contains reports whether the node at the position is in the domain.
func (d Domain) Contains(pos int) bool { return pos >= d.First && pos < d.End }

// Fabric is the tree of domains of a cluster. Every node has a position, and positions are given out so that every
// domain of every level is a range of positions. A Fabric never changes; all methods are safe for concurrent callers.
// Slices that methods return are shared and must not be written.
type Fabric struct {
	names     []string
	positions map[string]int
	// domains and index are indexed by Level: domains in order of First, and per position the domain it is in.
	domains  [levelCount + 1][]Domain
	index    [levelCount + 1][]int32
	known    [levelCount + 1]bool
	keys     map[string]Level
	problems []FabricProblem
	version  uint64
}

// Version tells the trees of one FabricBuilder apart: 1 for its first, and one more for each after it.
func (f *Fabric) Version() uint64 { return f.version }

// Len returns the number of nodes.
func (f *Fabric) Len() int { return len(f.names) }

// Position returns the position of a node, from 0 to Len()-1; false if the fabric does not hold the node.
func (f *Fabric) Position(name string) (int, bool) {
	pos, ok := f.positions[name]
	return pos, ok
}

// Name returns the name of the node at a position, "" if there is none.
func (f *Fabric) Name(pos int) string {
	if pos < 0 || pos >= len(f.names) {
		return ""
	}
	return f.names[pos]
}

// Domain returns the domain of a level that holds the node at a position; the zero Domain, which holds nothing, if the
// position or the level does not exist.
func (f *Fabric) Domain(l Level, pos int) Domain {
	if i := f.Index(l, pos); i >= 0 {
		return f.domains[l][i]
	}
	return Domain{}
}

// Domains returns the domains of a level in order of First; together they hold every position once.
func (f *Fabric) Domains(l Level) []Domain {
	if l > LevelCluster {
		return nil
	}
	return f.domains[l]
}

// Index returns where Domains(l) lists the domain that holds the node at a position, -1 if the position or the level
// does not exist.
func (f *Fabric) Index(l Level, pos int) int {
	if l > LevelCluster || pos < 0 || pos >= len(f.names) {
		return -1
	}
	return int(f.index[l][pos])
}

// Known reports whether any node carries a label of the level. A level that no node carries is transparent: each of
// its domains is one of the next narrower level, and a limit to one domain of it says nothing about the cluster.
// LevelHost and LevelCluster are always known.
func (f *Fabric) Known(l Level) bool { return l <= LevelCluster && f.known[l] }

// Problems returns what is wrong with the labels, each thing once, in a fixed order.
func (f *Fabric) Problems() []FabricProblem { return f.problems }

// LevelOf finds the level that a user means with the name of a level ("leaf", "rack") or with a label key of the
// vocabulary in use. A key that serves different levels on different nodes means the narrowest of them. A key that
// stands back on some node for a better key with another value means no level: a domain of the level is not what the
// key asks for. A key that no node carries means the narrowest level that the vocabulary lists it for.
func (f *Fabric) LevelOf(nameOrKey string) (Level, bool) {
	if l, err := ParseLevel(nameOrKey); err == nil {
		return l, true
	}
	l, ok := f.keys[nameOrKey]
	return l, ok
}
