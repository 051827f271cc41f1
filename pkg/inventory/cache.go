package inventory

import (
	"reflect"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Cache remembers what Resolve made of each node, so that a node update that changes nothing the sources read (the
// kubelet sends one every few seconds) costs a comparison and no parsing. Nodes that are described in the same words
// and whose cards have no UUIDs share one topology; others that differ in nothing but UUIDs share all else of it. It
// holds one entry for each node name it was asked for and not told to forget.
//
// A Cache is safe for concurrent use; calls for one node must follow the order of its updates.
type Cache struct {
	opts Options

	mu     sync.Mutex // guards everything below
	nodes  map[string]*cached
	shared map[string]*sharedResult
	// kinds has a node of each topology.Node.Kind that entries have, for the others to be like.
	kinds map[[32]byte]*sharedKind
	// scratch holds the inputs of the node asked for; it is kept for its memory.
	scratch inputs
}

// cached is the last answer for one node.
type cached struct {
	// version is the resourceVersion of the node that in was read from.
	version string
	in      inputs
	result  Result
	at      time.Time // the time by which ages were judged
	shared  string    // the key of the shared result in use, empty for one of the node's own
}

// sharedResult is the answer for every node with one set of inputs.
type sharedResult struct {
	result Result
	nodes  int
}

// sharedKind is a node that so many entries are like.
type sharedKind struct {
	node  *topology.Node
	nodes int
}

// NewCache returns an empty cache. o.Now is not used: Resolve is given the time.
func NewCache(o Options) *Cache {
	return &Cache{opts: o, nodes: make(map[string]*cached), shared: make(map[string]*sharedResult), kinds: make(map[[32]byte]*sharedKind)}
}

// Resolve returns what package function Resolve does for the cache's options and the given time. changed is false
// where the result equals the one that the last call for the node returned, Until apart; it is true for a node that
// was not asked for before, and for one that was replaced by another of its name.
func (c *Cache) Resolve(node *v1.Node, slices []*resourcev1.ResourceSlice, now time.Time) (res Result, changed bool) {
	c.mu.Lock()
	in := &c.scratch
	old := c.nodes[node.Name]
	if old != nil && old.of(node, slices) && !old.expired(now) {
		res = old.result
		c.mu.Unlock()
		return res, false
	}
	in.collect(node, slices)
	if old != nil && old.in.equal(in) && !old.expired(now) {
		old.in, c.scratch = c.scratch, old.in // the strings of the new object, so that the old one can go
		old.version = node.ResourceVersion
		res = old.result
		c.mu.Unlock()
		return res, false
	}
	fresh := &cached{version: node.ResourceVersion, in: in.clone(), at: now, shared: in.sharedKey()}
	if s := c.shared[fresh.shared]; s != nil {
		fresh.result = s.result
		changed = c.store(node.Name, fresh)
		c.mu.Unlock()
		return fresh.result, changed
	}
	c.mu.Unlock()

	o := c.opts
	o.Now = now
	fresh.result = Resolve(node, slices, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.store(node.Name, fresh)
	return fresh.result, changed
}

// store puts an entry in place of the node's last one and reports whether they differ.
func (c *Cache) store(name string, fresh *cached) (changed bool) {
	old := c.nodes[name]
	changed = old == nil || old.in.uid != fresh.in.uid || !sameResult(old.result, fresh.result)
	if fresh.shared != "" {
		s := c.shared[fresh.shared]
		if s == nil {
			s = &sharedResult{result: fresh.result}
			c.shared[fresh.shared] = s
		}
		s.nodes++
		fresh.result = s.result
	} else {
		if !changed {
			fresh.result.Topology = old.result.Topology
		}
		fresh.result.Topology = c.join(fresh.result.Topology)
	}
	c.release(old)
	c.nodes[name] = fresh
	return changed
}

// join counts one more entry with a node's kind, and returns the node in the memory of those that there are already.
func (c *Cache) join(t *topology.Node) *topology.Node {
	if t == nil {
		return nil
	}
	s := c.kinds[t.Kind()]
	if s == nil {
		s = &sharedKind{node: t}
		c.kinds[t.Kind()] = s
	}
	s.nodes++
	return t.Like(s.node)
}

// sameResult compares everything but Until.
func sameResult(a, b Result) bool {
	a.Until, b.Until = time.Time{}, time.Time{}
	if a.Topology == b.Topology {
		a.Topology, b.Topology = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// Current reports whether the node was asked for last at this version, so that Resolve would have nothing new to say. It is
// false for a node with ResourceSlices, which may change without the node.
func (c *Cache) Current(node *v1.Node, slices []*resourcev1.ResourceSlice, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.nodes[node.Name]
	return old != nil && old.of(node, slices) && !old.expired(now)
}

// of reports whether the answer is that for this version of a node without ResourceSlices, which need not be read again.
func (e *cached) of(node *v1.Node, slices []*resourcev1.ResourceSlice) bool {
	return e.version != "" && e.version == node.ResourceVersion && e.in.uid == node.UID && len(slices) == 0 && len(e.in.slices) == 0
}

// expired reports whether the answer would be another at this time.
func (e *cached) expired(now time.Time) bool {
	return !e.result.Until.IsZero() && !now.Before(e.result.Until) || now.Before(e.at) && e.judgesAge()
}

// judgesAge reports whether the answer depends on the time. A clock that steps back makes such an answer void.
func (e *cached) judgesAge() bool {
	return e.result.Source == SourceAnnotation && e.in.has(annotationTopologyAt)
}

// Forget drops a node that is gone. A node that is not known is no error.
func (c *Cache) Forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(c.nodes[name])
	delete(c.nodes, name)
}

// release gives up an entry's part of a shared result, or of the kind of its node.
func (c *Cache) release(e *cached) {
	if e == nil {
		return
	}
	if e.shared == "" {
		if t := e.result.Topology; t != nil {
			s := c.kinds[t.Kind()]
			if s.nodes--; s.nodes == 0 {
				delete(c.kinds, t.Kind())
			}
		}
		return
	}
	if s := c.shared[e.shared]; s != nil {
		if s.nodes--; s.nodes == 0 {
			delete(c.shared, e.shared)
		}
	}
}

// Len returns the number of nodes held.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.nodes)
}
