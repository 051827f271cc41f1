package backlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// request is what pods ask for, whatever their class is.
type request struct {
	asked *allocate.Request
	// whole is the number of cards of a request that asks for nothing but so many, 0 for another.
	whole int
	kinds map[*kind]bool
}

func newRequest(asked *allocate.Request) *request {
	r := &request{asked: asked, kinds: map[*kind]bool{}}
	if whole, plain := asked.Plain(); plain {
		r.whole = whole
	}
	return r
}

// room returns how many pods that ask for this a node can take, 1 where that is not known.
func (r *request) room(fits Fits, a *ledger.NodeGPUAllocation) int {
	switch {
	case r.whole > 0:
		return a.Free.Len() / r.whole
	case fits(&a.View, r.asked):
		return 1
	default:
		return 0
	}
}

// keyOf names what a request asks for: all but the names of its containers.
func keyOf(r *allocate.Request) string {
	if total, plain := r.Plain(); plain {
		return fmt.Sprint(total)
	}
	key := fmt.Appendf(nil, "NUMA %d NIC %d", r.NUMA, r.NIC)
	for _, c := range r.Claims {
		c.Container = ""
		key = fmt.Appendf(key, " %+v", c)
	}
	return string(key)
}

type kindKey struct{ request, class string }

// place is a node that can take pods of a kind.
type place struct {
	// pods is how many, and changed the call of Set that said so.
	pods    int
	changed uint64
}

// kind is everybody who asks for the same and is admitted by the same nodes.
type kind struct {
	key     kindKey
	request *request
	admits  func(ledger.NodeName) bool
	places  map[ledger.NodeName]place
	// pods are in the order in which they are woken.
	pods []*parked
	// woken is how many were woken at the last turn, 0 if there were no places since; next is when the next turn is, and seen the
	// last call of Set before it.
	woken int
	next  time.Time
	seen  uint64
	// preempts is when the next of those may go that may preempt since the lowest priority fell.
	preempts time.Time
}

// look takes note of a node that has room for so many pods.
func (k *kind) look(name ledger.NodeName, room int, change uint64) {
	if room > 0 && k.admits(name) {
		k.places[name] = place{room, change}
	} else {
		delete(k.places, name)
	}
}

func (k *kind) at(p *parked) (int, bool) {
	return slices.BinarySearchFunc(k.pods, p, func(q, p *parked) int { return q.before(&p.Pod) })
}

func (k *kind) add(p *parked) {
	at, _ := k.at(p)
	k.pods = slices.Insert(k.pods, at, p)
}

func (k *kind) remove(p *parked) {
	if at, found := k.at(p); found {
		k.pods = slices.Delete(k.pods, at, at+1)
	}
}

// letPreempt takes out the first few pods that may preempt, and says in how long there are more, 0 for none.
func (k *kind) letPreempt(now time.Time, may func(*Pod) bool) (taken []*parked, more time.Duration) {
	if wait := k.preempts.Sub(now); wait > 0 {
		return nil, wait
	}
	k.pods = slices.DeleteFunc(k.pods, func(p *parked) bool {
		switch {
		case !may(&p.Pod):
			return false
		case len(taken) == wokenLeast:
			more = turn
			return false
		}
		taken = append(taken, p)
		return true
	})
	if more > 0 {
		k.preempts = now.Add(turn)
	}
	return taken, more
}

// wake takes out who is to be tried now, and says in how long to ask again, 0 for not before something happens. As many are tried
// as there are places, and at least a few; twice as many as at the last turn where a place is as it was then: nobody took it.
func (k *kind) wake(now time.Time, changes uint64) ([]*parked, time.Duration) {
	if len(k.places) == 0 || len(k.pods) == 0 {
		k.woken = 0
		return nil, 0
	}
	if wait := k.next.Sub(now); k.woken > 0 && wait > 0 {
		return nil, wait
	}
	room, left := 0, false
	for _, p := range k.places {
		room += p.pods
		left = left || p.changed <= k.seen
	}
	most := max(wokenLeast, room)
	if left && k.woken > 0 {
		most = max(most, 2*k.woken)
	}
	k.woken, k.seen, k.next = min(most, len(k.pods)), changes, now.Add(turn)
	woken := slices.Clone(k.pods[:k.woken])
	k.pods = slices.Delete(k.pods, 0, k.woken)
	if len(k.pods) == 0 {
		return woken, 0
	}
	return woken, turn
}
