package spread

import "slices"

// Spec says what is counted.
type Spec struct {
	Constraints []Constraint
	// AllKeys leaves out nodes that lack any of the topology keys. Without it, nodes that lack a key are in the domain with the
	// empty name.
	AllKeys bool
}

// Constraint is one constraint of a set.
type Constraint struct {
	// Key is the node label whose values name the domains.
	Key string
	// Groups counts groups instead of pods.
	Groups bool
}

// Reading is what a Source says of one node, by constraint. The slices have the length of Spec.Constraints.
type Reading struct {
	// Pods is the number of matching pods on the node; where groups are counted, only of those without a group.
	Pods []int32
	// Groups has, where groups are counted, the group of each other matching pod.
	Groups [][]string
	// Counts says that the constraint counts the node's pods, Stands that the node gives its domain standing: the minimum is
	// over domains with such a node. Both are ignored for nodes that AllKeys leaves out.
	Counts, Stands []bool
}

// Source is the list of nodes of a cycle, as a constraint set sees them.
type Source interface {
	Nodes
	// Read fills in a zeroed Reading of the node at a position.
	Read(i int, into *Reading)
}

// set is one constraint set: what was read of each node, and the sums by domain.
type set struct {
	spec    Spec
	columns []*column
	// versions says by slot which version of the node the parts are of, in whether they are in the sums.
	versions []uint64
	in       []bool
	// parts and groups are by slot and constraint: [slot*len(sums)+constraint]. groups is nil where none are counted.
	parts  []part
	groups [][]string
	sums   []sum
	into   Reading
}

// part is what one node adds to one constraint.
type part struct {
	// place is the number of the node's domain and, above it, the bits that follow.
	place uint32
	// pods are the matching pods, whether they count or not.
	pods int32
}

const (
	placeCounts = 1 << 31 // the node's pods count
	placeStands = 1 << 30 // the node gives its domain standing
	placeLacks  = 1 << 29 // the node lacks the key
	placeDomain = placeLacks - 1
)

func (p part) domain() int32 { return int32(p.place & placeDomain) }
func (p part) counts() bool  { return p.place&placeCounts != 0 }
func (p part) stands() bool  { return p.place&placeStands != 0 }
func (p part) lacks() bool   { return p.place&placeLacks != 0 }

func newSet(spec Spec, d *directory) *set {
	n := len(spec.Constraints)
	s := &set{
		spec: spec, sums: make([]sum, n),
		into: Reading{Pods: make([]int32, n), Groups: make([][]string, n), Counts: make([]bool, n), Stands: make([]bool, n)},
	}
	for i, c := range spec.Constraints {
		s.columns = append(s.columns, d.use(c.Key))
		if c.Groups {
			s.sums[i].groups = map[place]int32{}
			s.groups = [][]string{}
		}
	}
	return s
}

// sync brings the set in line with the directory, which has just read the source, and returns the number of nodes read.
func (s *set) sync(d *directory, from Source) (read int) {
	s.grow(len(d.rows))
	for slot := range d.rows {
		r, in := &d.rows[slot], s.in[slot]
		present, same := r.at != absent, s.versions[slot] == r.version
		if in == present && (same || !present) {
			continue
		}
		s.in[slot] = present
		if same || !present { // what is known of the node leaves the sums, or comes back
			for i := range s.sums {
				s.put(slot*len(s.sums)+i, i, present)
			}
			continue
		}
		read++
		s.read(int(r.at), from)
		for i := range s.sums {
			s.replace(slot, i, in)
		}
		s.versions[slot] = r.version
	}
	return read
}

func (s *set) grow(slots int) {
	if more := slots - len(s.versions); more > 0 {
		s.versions = append(s.versions, make([]uint64, more)...)
		s.in = append(s.in, make([]bool, more)...)
		s.parts = append(s.parts, make([]part, more*len(s.sums))...)
		if s.groups != nil {
			s.groups = append(s.groups, make([][]string, more*len(s.sums))...)
		}
	}
}

func (s *set) read(at int, from Source) {
	clear(s.into.Pods)
	clear(s.into.Groups)
	clear(s.into.Counts)
	clear(s.into.Stands)
	from.Read(at, &s.into)
}

// lacksKey reports whether AllKeys leaves a slot out.
func (s *set) lacksKey(slot int) bool {
	return s.spec.AllKeys && slices.ContainsFunc(s.columns, func(c *column) bool { return c.domains[slot] == absent })
}

// replace puts what was read of a node in the place of what is known of it, which is in the sums if in says so.
func (s *set) replace(slot, i int, in bool) {
	at, sum := slot*len(s.sums)+i, &s.sums[i]
	now := part{pods: s.into.Pods[i]}
	if domain := s.columns[i].domains[slot]; domain == absent {
		now.place = emptyDomain | placeLacks
	} else {
		now.place = uint32(domain)
	}
	if !s.lacksKey(slot) {
		if s.into.Counts[i] {
			now.place |= placeCounts
		}
		if s.into.Stands[i] {
			now.place |= placeStands
		}
	}
	was := s.parts[at]
	if in && was.place == now.place && sum.groups == nil {
		s.parts[at] = now
		if was.counts() {
			sum.add(was.domain(), now.pods-was.pods)
		}
		return
	}
	if in {
		s.put(at, i, false)
	}
	s.parts[at] = now
	if sum.groups != nil {
		s.groups[at] = slices.Clone(s.into.Groups[i])
	}
	s.put(at, i, true)
}

// put adds a part to its sum, or takes it away.
func (s *set) put(at, i int, in bool) {
	p, sum, sign := s.parts[at], &s.sums[i], int32(-1)
	if in {
		sign = 1
	}
	if p.stands() {
		sum.stand(p.domain(), sign)
	}
	if !p.counts() {
		return
	}
	sum.add(p.domain(), sign*p.pods)
	if sum.groups != nil {
		for _, group := range s.groups[at] {
			sum.addGroup(place{p.domain(), group}, sign)
		}
	}
}
