package spread

import (
	"maps"
	"slices"
)

// lowestKept is how many of the lowest domains Counts keeps at hand.
const lowestKept = 4

// Counts are the counts of one constraint by domain, at one moment. They never change; methods are safe for concurrent
// callers.
type Counts struct {
	cache  *Cache
	groups map[place]int32 // guarded by the cache's mutex
	ids    map[string]int32
	pods   []int32
	// nodes has, by domain, the nodes that give standing.
	nodes   []int32
	domains int
	// lowest are the standing domains with the lowest counts, ascending by count, then by number; kept of them are in use.
	lowest [lowestKept]int32
	kept   int
}

// Domains returns the number of domains with standing.
func (c *Counts) Domains() int { return c.domains }

// Pods returns the count of a domain, 0 for one that is not known.
func (c *Counts) Pods(domain string) int {
	id, ok := c.ids[domain]
	if !ok {
		return 0
	}
	return c.at(id)
}

func (c *Counts) at(id int32) int {
	if int(id) >= len(c.pods) {
		return 0
	}
	return int(c.pods[id])
}

func (c *Counts) standing(id int32) bool { return int(id) < len(c.nodes) && c.nodes[id] > 0 }

// Min returns the lowest count of a domain with standing, 0 if there is none.
func (c *Counts) Min() int {
	if c.kept == 0 {
		return 0
	}
	return c.at(c.lowest[0])
}

// sort fills in lowest.
func (c *Counts) sort() {
	bar := 0
	for id, n := range c.nodes {
		if n <= 0 {
			continue
		}
		count := c.at(int32(id))
		if c.kept == lowestKept && count >= bar {
			continue
		}
		at := min(c.kept, lowestKept-1)
		for at > 0 && c.at(c.lowest[at-1]) > count {
			c.lowest[at] = c.lowest[at-1]
			at--
		}
		c.lowest[at] = int32(id)
		c.kept = min(c.kept+1, lowestKept)
		bar = c.at(c.lowest[c.kept-1])
	}
}

// All calls f for every domain with standing, in no order.
func (c *Counts) All(f func(domain string, pods int)) {
	for domain, id := range c.ids {
		if c.standing(id) {
			f(domain, c.at(id))
		}
	}
}

// GroupDomains returns the domains that hold a pod of the group, ascending: as the last cycle left them, not as they were
// when the Counts were taken.
func (c *Counts) GroupDomains(group string) []string {
	var out []string
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	for _, domain := range slices.Sorted(maps.Keys(c.ids)) {
		if c.groups[place{c.ids[domain], group}] > 0 {
			out = append(out, domain)
		}
	}
	return out
}

// GroupPods returns the number of the group's pods in a domain, as the last cycle left it.
func (c *Counts) GroupPods(domain, group string) int {
	id, ok := c.ids[domain]
	if !ok {
		return 0
	}
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	return int(c.groups[place{id, group}])
}
