package backlog

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

const (
	// MaxKinds is how many kinds of request are kept at a time. Each costs a comparison for every node that changes.
	MaxKinds = 64
	// ParkedMost is how long a pod stays parked: as long as kube-scheduler leaves a pod that it could not place
	// (--pod-max-in-unschedulable-pods-duration). The try that follows also is the one that may preempt.
	ParkedMost = 5 * time.Minute
	// turn is the time between two turns of a kind while places are left, and wokenLeast how many pods are let go in the first.
	turn       = 200 * time.Millisecond
	wokenLeast = 8
)

// Pod is a pod that waits.
type Pod struct {
	UID ledger.PodUID
	// Namespace and Name say where its object is found.
	Namespace, Name string
	// Priority is the pod's, and Created when it was made, in nanoseconds since 1970: the order in which pods are woken.
	Priority int32
	Created  int64
	// since is when the pod was parked.
	since time.Time
}

// before is the order in which pods are woken.
func (p *Pod) before(q *Pod) int {
	return cmp.Or(cmp.Compare(q.Priority, p.Priority), cmp.Compare(p.Created, q.Created), cmp.Compare(p.UID, q.UID))
}

// Fits says whether the free cards of a node can meet a request.
type Fits func(*allocate.View, *allocate.Request) bool

// Backlog holds the parked pods. Use New.
type Backlog struct {
	fits Fits
	// nodes are those with free cards, as they were told last.
	nodes map[ledger.NodeName]*ledger.NodeGPUAllocation
	kinds map[string]*kind
	// pods are the parked ones.
	pods map[ledger.PodUID]*parked
}

// parked is a pod and what it asks for.
type parked struct {
	Pod
	kind *kind
}

// New returns a Backlog that knows no node.
func New(fits Fits) *Backlog {
	b := &Backlog{fits: fits, kinds: map[string]*kind{}, pods: map[ledger.PodUID]*parked{}}
	b.Reset()
	return b
}

// Len returns the number of parked pods.
func (b *Backlog) Len() int { return len(b.pods) }

// Reset makes all nodes unknown: Set is called next, for each.
func (b *Backlog) Reset() {
	b.nodes = map[ledger.NodeName]*ledger.NodeGPUAllocation{}
	for _, k := range b.kinds {
		clear(k.places)
	}
}

// Set says how a node is now; nil for one that is not known any more.
func (b *Backlog) Set(name ledger.NodeName, a *ledger.NodeGPUAllocation) {
	if a == nil || a.Topology == nil || a.Quarantined {
		delete(b.nodes, name)
		for _, k := range b.kinds {
			delete(k.places, name)
		}
		return
	}
	b.nodes[name] = a
	for _, k := range b.kinds {
		k.look(b.fits, name, a)
	}
}

// Park keeps a pod that asks for r, and could not be placed, from being tried. It returns false, and the pod is not parked, where
// a node has the cards that it asks for, or more kinds of request wait than are kept. A pod that is parked already is parked anew.
func (b *Backlog) Park(p Pod, r *allocate.Request, now time.Time) bool {
	b.Forget(p.UID)
	key := keyOf(r)
	k := b.kinds[key]
	if k == nil {
		if len(b.kinds) >= MaxKinds {
			return false
		}
		k = newKind(key, r)
		for name, a := range b.nodes {
			k.look(b.fits, name, a)
		}
	}
	if len(k.places) > 0 {
		return false
	}
	b.kinds[key] = k
	p.since = now
	entry := &parked{p, k}
	b.pods[p.UID] = entry
	k.add(entry)
	return true
}

// Parked reports whether a pod that asks for r stays parked. It does not if some node has its cards, if its time is up, or if it
// asks for something else than when it was parked: it is not parked any more then.
func (b *Backlog) Parked(uid ledger.PodUID, r *allocate.Request, now time.Time) bool {
	p := b.pods[uid]
	if p == nil {
		return false
	}
	if len(p.kind.places) == 0 && now.Sub(p.since) < ParkedMost && r != nil && keyOf(r) == p.kind.key {
		return true
	}
	b.Forget(uid)
	return false
}

// Has reports whether a pod is parked.
func (b *Backlog) Has(uid ledger.PodUID) bool { return b.pods[uid] != nil }

// Forget ends what is known of a pod.
func (b *Backlog) Forget(uid ledger.PodUID) {
	p := b.pods[uid]
	if p == nil {
		return
	}
	delete(b.pods, uid)
	p.kind.remove(p)
	b.drop(p.kind)
}

// drop ends a kind that nobody asks for any more.
func (b *Backlog) drop(k *kind) {
	if len(k.pods) == 0 {
		delete(b.kinds, k.key)
	}
}

// Wake returns pods that are to be tried now, the first in the queue first; they are not parked any more. Where there is more to
// do without anything that happens, more says in how long to call it again; it is 0 where there is not.
func (b *Backlog) Wake(now time.Time) (pods []Pod, more time.Duration) {
	for _, k := range b.kinds {
		woken, wait := k.wake(now)
		for _, p := range woken {
			delete(b.pods, p.UID)
			pods = append(pods, p.Pod)
		}
		if wait > 0 && (more == 0 || wait < more) {
			more = wait
		}
		b.drop(k)
	}
	slices.SortFunc(pods, func(p, q Pod) int { return p.before(&q) })
	return pods, more
}

// Keep forgets the parked pods for which keep is false.
func (b *Backlog) Keep(keep func(*Pod) bool) {
	for uid, p := range b.pods {
		if !keep(&p.Pod) {
			b.Forget(uid)
		}
	}
}
