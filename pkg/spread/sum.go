package spread

// sum is one constraint's counts by domain.
type sum struct {
	// pods counts what matches, nodes the nodes that give standing, domains those with any. The slices are copied before they
	// change once they were lent to Counts.
	pods, nodes         []int32
	podsLent, nodesLent bool
	domains             int
	// groups counts the pods of each group in each domain, nil where pods are counted.
	groups map[place]int32
	// counts is what was handed out last, with the names of edition; nil if the sums have changed since.
	counts  *Counts
	edition uint64
}

// place is a group in a domain.
type place struct {
	domain int32
	group  string
}

// writable returns a slice that may be written and has an entry for the domain.
func writable(list []int32, lent *bool, domain int32) []int32 {
	n := max(len(list), int(domain)+1)
	if *lent {
		list, *lent = append(make([]int32, 0, n), list...), false
	}
	for len(list) < n {
		list = append(list, 0)
	}
	return list
}

func (s *sum) add(domain, pods int32) {
	if pods == 0 {
		return
	}
	s.pods = writable(s.pods, &s.podsLent, domain)
	s.pods[domain] += pods
	s.counts = nil
}

func (s *sum) addGroup(at place, pods int32) {
	was := s.groups[at]
	now := was + pods
	if now == 0 {
		delete(s.groups, at)
	} else {
		s.groups[at] = now
	}
	switch {
	case was == 0 && now != 0:
		s.add(at.domain, 1)
	case was != 0 && now == 0:
		s.add(at.domain, -1)
	}
}

func (s *sum) stand(domain, nodes int32) {
	s.nodes = writable(s.nodes, &s.nodesLent, domain)
	was := s.nodes[domain]
	s.nodes[domain] += nodes
	s.counts = nil
	switch {
	case was == 0:
		s.domains++
	case s.nodes[domain] == 0:
		s.domains--
	}
}

// lend returns the sums as they are now. What was handed out before serves as long as no sum has changed, with other names if
// domains came or went since then: the number of one that went may be another one's now.
func (s *sum) lend(of *column, cache *Cache) *Counts {
	switch {
	case s.counts == nil:
		s.podsLent, s.nodesLent = true, true
		s.counts = &Counts{cache: cache, groups: s.groups, ids: of.values.lend(), pods: s.pods, nodes: s.nodes, domains: s.domains}
		s.counts.sort()
	case s.edition != of.values.edition:
		renamed := *s.counts
		renamed.ids = of.values.lend()
		s.counts = &renamed
	}
	s.edition = of.values.edition
	return s.counts
}
