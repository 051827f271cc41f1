package spread

import (
	"container/list"
	"sync"
)

// Cache keeps the counts of the constraint sets that were used last. It is safe for concurrent use; the lists of nodes that
// it is shown should be those of one scheduler, or it reads more than it need.
type Cache struct {
	// mu guards all that follows. A Source is called while it is held.
	mu        sync.Mutex
	directory directory
	limit     int
	sets      map[string]*list.Element
	// recent has the entries, the one used last in front.
	recent *list.List
	reads  uint64
}

type entry struct {
	key string
	set *set
}

// NewCache returns an empty cache of at most limit sets; at least one is kept.
func NewCache(limit int) *Cache {
	return &Cache{directory: newDirectory(), limit: max(limit, 1), sets: map[string]*list.Element{}, recent: list.New()}
}

// Allow raises the limit to at least the given one.
func (c *Cache) Allow(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = max(c.limit, limit)
}

// Stats says what a Cache holds and did.
type Stats struct {
	// Sets and Nodes are held now; Nodes counts those that are remembered, too.
	Sets, Nodes int
	// Reads is how often a node was read for a set.
	Reads uint64
}

// Stats returns the present numbers.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Sets: len(c.sets), Nodes: len(c.directory.slots.ids), Reads: c.reads}
}

// Counts returns the counts of each constraint of a set for the nodes of the source. Equal keys must mean equal specs, and
// that the source reads every node equally; spec is called for a key that is not known.
func (c *Cache) Counts(key []byte, spec func() Spec, from Source) []*Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sync(key, spec, from)
	out := make([]*Counts, len(s.sums))
	for i := range s.sums {
		out[i] = s.sums[i].lend(s.columns[i], c)
	}
	return out
}

// Scores returns the points of candidates by a set, as Counts finds it. weights has an entry for each constraint.
func (c *Cache) Scores(key []byte, spec func() Spec, from Source, candidates Candidates, weights []Weight) *Scores {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sync(key, spec, from).scores(&c.directory, candidates, weights)
}

// sync returns the set of a key, in line with the source. The caller holds mu.
func (c *Cache) sync(key []byte, spec func() Spec, from Source) *set {
	c.directory.read(from)
	at := c.sets[string(key)]
	if at == nil {
		for len(c.sets) >= c.limit {
			c.evict()
		}
		e := &entry{key: string(key), set: newSet(spec(), &c.directory)}
		at = c.recent.PushFront(e)
		c.sets[e.key] = at
	}
	c.recent.MoveToFront(at)
	s := entryOf(at).set
	c.reads += uint64(s.sync(&c.directory, from))
	return s
}

// evict drops the set that was not used for longest.
func (c *Cache) evict() {
	last := c.recent.Back()
	e := entryOf(last)
	c.recent.Remove(last)
	delete(c.sets, e.key)
	for _, column := range e.set.columns {
		c.directory.release(column)
	}
}

func entryOf(at *list.Element) *entry {
	return at.Value.(*entry) //nolint:errcheck // the list holds nothing else
}
