package topology

import "slices"

// newFabric builds the tree of nodes that stand in canonical order.
func newFabric(nodes []*fabricNode, v *vocabulary) *Fabric {
	f := &Fabric{names: make([]string, len(nodes)), positions: make(map[string]int, len(nodes))}
	for pos, n := range nodes {
		f.names[pos] = n.name
		f.positions[n.name] = pos
		for l := range n.labels.values {
			f.known[l] = f.known[l] || n.labels.values[l] != ""
		}
	}
	f.known[LevelHost], f.known[LevelCluster] = true, true
	f.cutDomains(nodes)
	namer := &domainNamer{fabric: f, nodes: nodes}
	for l := levelCount - 1; l > int(LevelHost); l-- {
		namer.nameLabelled(Level(l))
	}
	for l := int(LevelHost) + 1; l < levelCount; l++ {
		namer.nameUnknown(Level(l))
	}
	f.problems = slices.Concat(namer.problems, valueProblems(nodes, v))
	f.keys = levelsOfKeys(nodes, v)
	return f
}

// cutDomains divides the positions into the domains of every level. Names are those of the steps yet.
func (f *Fabric) cutDomains(nodes []*fabricNode) {
	if len(nodes) == 0 {
		return
	}
	var count [levelCount]int
	cut := make([]int8, len(nodes)) // the widest level at which a domain starts here
	for pos := range nodes {
		cut[pos] = int8(levelCount - 1)
		if pos > 0 {
			cut[pos] = int8(divergence(nodes[pos-1], nodes[pos]))
		}
		for l := 0; l <= int(cut[pos]); l++ {
			count[l]++
		}
	}
	index := make([]int32, (levelCount+1)*len(nodes))
	for l := range f.index {
		f.index[l] = index[l*len(nodes) : (l+1)*len(nodes)]
	}
	f.domains[LevelCluster] = []Domain{{Level: LevelCluster, Name: LevelCluster.String(), End: len(nodes)}}
	for l := range count {
		domains := make([]Domain, 0, count[l])
		for pos, n := range nodes {
			if l <= int(cut[pos]) {
				s := n.path[l]
				domains = append(domains, Domain{Level: Level(l), Name: s.name, First: pos, Unknown: s.from != Level(l)})
			}
			f.index[l][pos] = int32(len(domains) - 1)
			domains[len(domains)-1].End = pos + 1
		}
		f.domains[l] = domains
	}
}

// levelsOfKeys finds out which level each label key stands for: see Fabric.LevelOf.
func levelsOfKeys(nodes []*fabricNode, v *vocabulary) map[string]Level {
	var used [maxLevelKeys]Level
	for i := range used {
		used[i] = LevelCluster // not used
	}
	var shadowed keySet
	for _, n := range nodes {
		shadowed.union(n.labels.shadowed)
		for l, i := range n.labels.keys {
			if i != noKey {
				used[i] = min(used[i], Level(l))
			}
		}
	}
	keys := make(map[string]Level, len(v.keys))
	for l := levelCount - 1; l >= 0; l-- { // the narrowest comes last and stays
		for _, i := range v.levels[l] {
			if !shadowed.has(i) && (used[i] == LevelCluster || used[i] == Level(l)) {
				keys[v.keys[i].Key] = Level(l)
			}
		}
	}
	return keys
}

// domainNamer gives the domains of a fabric names that are unique within their level. Values of labels have neither
// "/" nor "(", so that the names of the three kinds never meet.
type domainNamer struct {
	fabric   *Fabric
	nodes    []*fabricNode
	problems []FabricProblem
}

// nameLabelled names the domains of a level that a label names, after those of all wider levels: by the value of the
// label; if that stands under several wider domains, by the wider one and the value. Each such value is a problem,
// unless only a wider value that is split itself tells its domains apart.
func (d *domainNamer) nameLabelled(l Level) {
	domains := d.fabric.domains[l]
	if !d.fabric.known[l] {
		return
	}
	first := make(map[string]int, len(domains)) // the first domain of each value
	split := make(map[string][]int)             // all domains of each value that has several
	var order []string
	for i := range domains {
		value := domains[i].Name
		if domains[i].Unknown {
			continue
		}
		j, ok := first[value]
		switch {
		case !ok:
			first[value] = i
		case split[value] == nil:
			split[value] = []int{j, i}
			order = append(order, value)
		default:
			split[value] = append(split[value], i)
		}
	}
	for _, value := range order {
		d.nameSplit(l, value, split[value])
	}
}

// nameSplit names the domains that share a value, and reports them.
func (d *domainNamer) nameSplit(l Level, value string, split []int) {
	domains := d.fabric.domains[l]
	problem := FabricProblem{Level: l, Name: value}
	told := make(map[step]bool, len(split)) // the different wider values
	taken := make(map[string]bool, len(split))
	clash := false
	wider := make([]Domain, len(split))
	for i, at := range split {
		s, parent := d.parent(l, domains[at].First)
		wider[i] = parent
		if !told[s] {
			told[s] = true
			problem.Parents = append(problem.Parents, describeParent(s))
		}
		clash = clash || taken[parent.Name]
		taken[parent.Name] = true
	}
	for i, at := range split {
		domains[at].Name = under(wider[i], value, clash)
	}
	if len(told) > 1 {
		d.problems = append(d.problems, problem)
	}
}

// parent returns the next wider domain of a node that a label names, and the value of that label; LevelCluster if
// there is none.
func (d *domainNamer) parent(l Level, pos int) (step, Domain) {
	for w := l + 1; w < LevelCluster; w++ {
		if s := d.nodes[pos].path[w]; s.from == w {
			return s, d.fabric.Domain(w, pos)
		}
	}
	return step{from: LevelCluster}, d.fabric.Domain(LevelCluster, pos)
}

// under is the name of a value below a wider domain. Where wider domains of different levels have one name, they are
// told apart by the level.
func under(wider Domain, value string, withLevel bool) string {
	switch {
	case wider.Level == LevelCluster:
		return value
	case withLevel:
		return wider.Level.String() + " " + wider.Name + "/" + value
	}
	return wider.Name + "/" + value
}

// nameUnknown names the domains of a level without a label, after those of all narrower levels: by what they hold.
func (d *domainNamer) nameUnknown(l Level) {
	domains := d.fabric.domains[l]
	for i := range domains {
		if !domains[i].Unknown {
			continue
		}
		inner := d.fabric.Domain(l-1, domains[i].First)
		if inner.Unknown {
			domains[i].Name = inner.Name
			continue
		}
		domains[i].Name = "unknown(" + inner.Level.String() + " " + inner.Name + ")"
	}
}
