package placement

// groups returns the sizes of the slices that the members, of one class and in rank order, make up: by rank where all have
// one, else counted off. nil without slices.
func (p *Planner) groups(members []int) []int {
	size := p.problem.Slice.Size
	if size < 2 {
		return nil
	}
	var out []int
	last := -1
	for n, m := range members {
		id := n / size
		if p.ranked(members) {
			id = p.rank[m] / size
		}
		if len(out) == 0 || id != last || out[len(out)-1] == size {
			out, last = append(out, 0), id
		}
		out[len(out)-1]++
	}
	return out
}

// ranked reports whether all members, in rank order, have a rank.
func (p *Planner) ranked(members []int) bool {
	return len(members) > 0 && p.rank[members[len(members)-1]] >= 0
}

// seated is members that get certain places.
type seated struct {
	members []int
	parts   []part
}

// complete gives places to members of slices that run in part: beside those that run. It returns the other members, or a
// rejection where there is no room for them.
func (p *Planner) complete(c *class, chosen []int, l *layout, held func(int) int) ([]int, *Rejection) {
	size := p.problem.Slice.Size
	if size < 2 || c.way == noCards || !p.ranked(chosen) || len(p.problem.Placed) == 0 {
		return chosen, nil
	}
	at := p.running(c)
	var rest []int
	taken := map[int]int{}
	left := func(i int) int { return held(i) - taken[i] }
	for first := 0; first < len(chosen); {
		id := p.rank[chosen[first]] / size
		end := first + 1
		for end < len(chosen) && p.rank[chosen[end]]/size == id {
			end++
		}
		members := chosen[first:end]
		first = end
		d, runs := at[id]
		if !runs {
			rest = append(rest, members...)
			continue
		}
		k := p.knap.sliceAt
		p.prepare(c, k, -1, members, left)
		if d < 0 || p.settle(c, k, d, d+1, len(members), k) < 0 {
			return nil, p.rejectSlice(d, id, len(members))
		}
		parts := p.nodes(p.knap.deal(k, d, len(members), nil))
		for _, g := range parts {
			taken[g.node] += g.count
			p.tree.use(int(p.tree.slotOf[g.node]))
		}
		l.seated = append(l.seated, seated{members, parts})
	}
	p.prepare(c, 0, -1, rest, left)
	return rest, nil
}

// running returns the domain that each slice of the class's running members uses, -1 if that is not one.
func (p *Planner) running(c *class) map[int]int {
	y := &p.tree.layers[p.tree.layerOf[p.problem.Slice.Level]]
	at := map[int]int{}
	for i := range p.problem.Placed {
		m := &p.problem.Placed[i]
		if m.Rank < 0 || !p.sameClass(c, m.Role) {
			continue
		}
		id, d := m.Rank/p.problem.Slice.Size, int(y.of[p.tree.find(m)])
		if before, ok := at[id]; ok && before != d {
			d = -1
		}
		at[id] = d
	}
	return at
}

// sameClass reports whether a running member's role is one of the class's.
func (p *Planner) sameClass(c *class, role int) bool {
	if role < 0 {
		return len(p.class) == 1
	}
	a := askOf(&p.problem.Roles[role])
	return role == c.role || p.problem.alike(c.role, role) && c.equal(&a)
}

// rejectSlice says that a slice, of which members run in domain d, has no place there for its other members.
func (p *Planner) rejectSlice(d, id, members int) *Rejection {
	c, slice := &p.class[0], p.problem.Slice
	r := &Rejection{
		Group: p.problem.Group, Need: p.problem.Need, Placeable: p.problem.Need - members, Gap: GapSlice, Role: p.roleName(c), Want: members,
		Slice: slice, Level: slice.Level, FirstRank: id * slice.Size, LastRank: (id+1)*slice.Size - 1,
	}
	if d >= 0 {
		k := p.knap.sliceAt
		p.enter(k, d)
		near := p.area(k, d)
		r.Level, r.Domain, r.Places, r.Nodes = near.level, near.name, p.knap.capacity(k, d), len(near.nodes)
		r.Placeable += r.Places
	}
	return r
}

// split reports whether slices of a gang of several classes run in part. Those are not completed.
func (p *Planner) split() *Rejection {
	if p.problem.Slice.Size < 2 || len(p.problem.Placed) == 0 {
		return nil
	}
	for k := range p.class {
		c := &p.class[k]
		if c.way == noCards {
			continue
		}
		at := p.running(c)
		for _, m := range c.members {
			if rank := p.rank[m]; rank >= 0 {
				if _, runs := at[rank/p.problem.Slice.Size]; runs {
					return p.rejectSlice(-1, rank/p.problem.Slice.Size, 1)
				}
			}
		}
	}
	return nil
}
