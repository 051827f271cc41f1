package spread

import "slices"

// Trial is Counts and what a dry run changes about them. The zero Trial has no Counts and must not be used.
type Trial struct {
	*Counts
	// changes are few: a dry run moves pods of one node, or of the nodes of one gang.
	changes []change
}

type change struct {
	domain string
	// id is that of the domain, absent if Counts does not know it.
	id   int32
	pods int
	// stands says that the domain has standing, in Counts or by the change.
	stands bool
}

// Try returns a Trial without changes.
func (c *Counts) Try() Trial { return Trial{Counts: c} }

// Clone returns a Trial that changes apart from this one.
func (t Trial) Clone() Trial {
	t.changes = slices.Clone(t.changes)
	return t
}

// Add adds pods to the count of a domain; a negative number takes them away. stands gives standing to a domain that has none.
func (t *Trial) Add(domain string, pods int, stands bool) {
	for i := range t.changes {
		if c := &t.changes[i]; c.domain == domain {
			c.pods += pods
			c.stands = c.stands || stands
			return
		}
	}
	id, ok := t.ids[domain]
	if !ok {
		id = absent
	}
	t.changes = append(t.changes, change{domain, id, pods, stands || ok && t.standing(id)})
}

// Pods returns the count of a domain.
func (t *Trial) Pods(domain string) int {
	n := t.Counts.Pods(domain)
	for i := range t.changes {
		if t.changes[i].domain == domain {
			n += t.changes[i].pods
		}
	}
	return n
}

// Domains returns the number of domains with standing.
func (t *Trial) Domains() int {
	n := t.domains
	for i := range t.changes {
		if c := &t.changes[i]; c.stands && (c.id == absent || !t.standing(c.id)) {
			n++
		}
	}
	return n
}

// Min returns the lowest count of a domain with standing, 0 if there is none.
func (t *Trial) Min() int {
	if len(t.changes) == 0 {
		return t.Counts.Min()
	}
	lowest, found := t.unchangedMin()
	for i := range t.changes {
		c := &t.changes[i]
		if !c.stands {
			continue
		}
		n := c.pods
		if c.id != absent {
			n += t.at(c.id)
		}
		if !found || n < lowest {
			lowest, found = n, true
		}
	}
	return lowest
}

// unchangedMin is the lowest count of the standing domains that the trial does not touch; false if there is none.
func (t *Trial) unchangedMin() (int, bool) {
	for _, id := range t.lowest[:t.kept] {
		if !t.changed(id) {
			return t.at(id), true
		}
	}
	if t.domains <= t.kept {
		return 0, false
	}
	lowest, found := 0, false
	for id := range t.nodes {
		id := int32(id)
		if !t.standing(id) || t.changed(id) {
			continue
		}
		if n := t.at(id); !found || n < lowest {
			lowest, found = n, true
		}
	}
	return lowest, found
}

func (t *Trial) changed(id int32) bool {
	return slices.ContainsFunc(t.changes, func(c change) bool { return c.id == id })
}
