package backlog

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

const (
	// MaxRequests is how many different requests are kept at a time. Each costs a comparison for every node that changes.
	MaxRequests = 64
	// MaxKinds is how many kinds are kept at a time: requests, each by who admits those that ask for it.
	MaxKinds = 1024
	// ParkedMost is how long a pod stays parked: as long as kube-scheduler leaves a pod that it could not place
	// (--pod-max-in-unschedulable-pods-duration). It is for what nobody thought of.
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
	// Patient pods preempt nobody, whatever their priority is.
	Patient bool
	// since is when the pod was parked.
	since time.Time
}

// before is the order in which pods are woken.
func (p *Pod) before(q *Pod) int {
	return cmp.Or(cmp.Compare(q.Priority, p.Priority), cmp.Compare(p.Created, q.Created), cmp.Compare(p.UID, q.UID))
}

// Want is what decides which nodes can take a pod.
type Want struct {
	Request *allocate.Request
	// Class names what else than cards decides: pods of one class are admitted by the same nodes.
	Class string
	// Admits reports whether a node may take a pod of the class at all. Who changes its answer for a node calls Touch.
	Admits func(ledger.NodeName) bool
}

// Fits says whether the free cards of a node can meet a request.
type Fits func(*allocate.View, *allocate.Request) bool

// Backlog holds the parked pods. Use New.
type Backlog struct {
	fits Fits
	// nodes are those that can give cards out, as they were told last.
	nodes    map[ledger.NodeName]*ledger.NodeGPUAllocation
	requests map[string]*request
	kinds    map[kindKey]*kind
	// pods are the parked ones.
	pods map[ledger.PodUID]*parked
	// lowest is the lowest priority of a pod that holds cards; lowered says that it fell since the last Wake.
	lowest  int32
	lowered bool
	// changes counts the calls of Set.
	changes uint64
}

// parked is a pod and what it asks for.
type parked struct {
	Pod
	kind *kind
}

// New returns a Backlog that knows no node and nobody who holds cards.
func New(fits Fits) *Backlog {
	b := &Backlog{
		fits: fits, requests: map[string]*request{}, kinds: map[kindKey]*kind{}, pods: map[ledger.PodUID]*parked{}, lowest: math.MaxInt32,
	}
	b.Reset()
	return b
}

// Len returns the number of parked pods.
func (b *Backlog) Len() int { return len(b.pods) }

// Has reports whether a pod is parked.
func (b *Backlog) Has(uid ledger.PodUID) bool { return b.pods[uid] != nil }

// Reset makes all nodes unknown: Set is called next, for each.
func (b *Backlog) Reset() {
	b.nodes = map[ledger.NodeName]*ledger.NodeGPUAllocation{}
	for _, k := range b.kinds {
		clear(k.places)
	}
}

// Set says how a node is now; nil for one that is not known any more.
func (b *Backlog) Set(name ledger.NodeName, a *ledger.NodeGPUAllocation) {
	b.changes++
	if a == nil || a.Topology == nil || a.Quarantined {
		delete(b.nodes, name)
		for _, k := range b.kinds {
			delete(k.places, name)
		}
		return
	}
	b.nodes[name] = a
	for _, r := range b.requests {
		n := r.room(b.fits, a)
		for k := range r.kinds {
			k.look(name, n, b.changes)
		}
	}
}

// Touch says that a node may admit others than before.
func (b *Backlog) Touch(name ledger.NodeName) {
	if a := b.nodes[name]; a != nil {
		b.Set(name, a)
	}
}

// SetLowest says what the lowest priority of a pod is that holds cards; math.MaxInt32 where nobody holds any. It reports whether it
// fell: then pods that are parked may preempt, which Wake lets go.
func (b *Backlog) SetLowest(priority int32) (fell bool) {
	fell = priority < b.lowest
	b.lowest, b.lowered = priority, b.lowered || fell
	return fell
}

// mayPreempt reports whether a pod may come to its cards by preemption, for which none need be free.
func (b *Backlog) mayPreempt(p *Pod) bool { return !p.Patient && p.Priority > b.lowest }

// Park keeps a pod that could not be placed from being tried. It returns false, and the pod is not parked, where a node that
// admits it has the cards that it asks for, where it may preempt, or where more is kept already than may be. A pod that is parked
// already is parked anew.
func (b *Backlog) Park(p Pod, w *Want, now time.Time) bool {
	b.Forget(p.UID)
	if b.mayPreempt(&p) {
		return false
	}
	k := b.kindOf(w)
	if k == nil || len(k.places) > 0 {
		return false
	}
	p.since = now
	entry := &parked{p, k}
	b.pods[p.UID] = entry
	k.add(entry)
	return true
}

// kindOf returns the kind of a pod, a new one that no node has room for where there is none; nil where there may be no new one.
func (b *Backlog) kindOf(w *Want) *kind {
	key := kindKey{keyOf(w.Request), w.Class}
	if k := b.kinds[key]; k != nil {
		return k
	}
	r := b.requests[key.request]
	if len(b.kinds) >= MaxKinds || r == nil && len(b.requests) >= MaxRequests {
		return nil
	}
	if r == nil {
		r = newRequest(w.Request)
	}
	if len(b.placesOf(r, w.Admits, 1)) > 0 {
		return nil
	}
	k := &kind{key: key, request: r, admits: w.Admits, places: map[ledger.NodeName]place{}}
	r.kinds[k] = true
	b.requests[key.request], b.kinds[key] = r, k
	return k
}

// Places returns up to most nodes that admit a pod and have the cards that it asks for.
func (b *Backlog) Places(w *Want, most int) []ledger.NodeName {
	return b.placesOf(newRequest(w.Request), w.Admits, most)
}

func (b *Backlog) placesOf(r *request, admits func(ledger.NodeName) bool, most int) (places []ledger.NodeName) {
	for name, a := range b.nodes {
		if len(places) == most {
			break
		}
		if r.room(b.fits, a) > 0 && admits(name) {
			places = append(places, name)
		}
	}
	return places
}

// Parked reports whether a pod stays parked. It does not if some node has its cards, if it may preempt, if its time is up, or if it
// asks for something else than when it was parked; w is nil for a pod that asks for no cards. It is not parked any more then.
func (b *Backlog) Parked(uid ledger.PodUID, w *Want, now time.Time) bool {
	p := b.pods[uid]
	if p == nil {
		return false
	}
	same := w != nil && kindKey{keyOf(w.Request), w.Class} == p.kind.key
	if same && len(p.kind.places) == 0 && now.Sub(p.since) < ParkedMost && !b.mayPreempt(&p.Pod) {
		return true
	}
	b.Forget(uid)
	return false
}

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

// drop ends a kind, and a request, that nobody asks for any more.
func (b *Backlog) drop(k *kind) {
	if len(k.pods) > 0 {
		return
	}
	delete(b.kinds, k.key)
	if delete(k.request.kinds, k); len(k.request.kinds) == 0 {
		delete(b.requests, k.key.request)
	}
}

// sooner returns the shorter of two waits, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Wake returns pods that are to be tried now, the first in the queue first; they are not parked any more. Where there is more to
// do without anything that happens, more says in how long to call it again; it is 0 where there is not.
func (b *Backlog) Wake(now time.Time) (pods []Pod, more time.Duration) {
	preempting := b.lowered
	b.lowered = false
	for _, k := range b.kinds {
		woken, wait := k.wake(now, b.changes)
		more = sooner(more, wait)
		if preempting {
			let, wait := k.letPreempt(now, b.mayPreempt)
			woken, more = append(woken, let...), sooner(more, wait)
			b.lowered = b.lowered || wait > 0
		}
		for _, p := range woken {
			delete(b.pods, p.UID)
			pods = append(pods, p.Pod)
		}
		b.drop(k)
	}
	slices.SortFunc(pods, func(p, q Pod) int { return p.before(&q) })
	return pods, more
}
