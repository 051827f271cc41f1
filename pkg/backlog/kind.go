package backlog

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// kind is everybody who asks for the same.
type kind struct {
	key     string
	request *allocate.Request
	// whole is the number of cards of a request that asks for nothing but so many, 0 for another.
	whole int
	// places are the nodes that can take one of the pods, with how many of them they can take; 1 where that is not known.
	places map[ledger.NodeName]int
	// pods are in the order in which they are woken.
	pods []*parked
	// woken is how many were woken at the last turn, 0 if there were no places since; next is when the next turn is.
	woken int
	next  time.Time
}

func newKind(key string, r *allocate.Request) *kind {
	k := &kind{key: key, request: r, places: map[ledger.NodeName]int{}}
	k.whole, _ = r.Plain()
	return k
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

// look compares a node with what the pods ask for.
func (k *kind) look(fits Fits, name ledger.NodeName, a *ledger.NodeGPUAllocation) {
	n := 0
	switch {
	case k.whole > 0:
		n = a.Free.Len() / k.whole
	case fits(&a.View, k.request):
		n = 1
	}
	if n > 0 {
		k.places[name] = n
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

// wake takes out who is to be tried now, and says in how long to ask again, 0 for not before something happens.
func (k *kind) wake(now time.Time) ([]*parked, time.Duration) {
	if len(k.places) == 0 {
		k.woken = 0
		return nil, 0
	}
	if wait := k.next.Sub(now); k.woken > 0 && wait > 0 {
		return nil, wait
	}
	room := 0
	for _, n := range k.places {
		room += n
	}
	k.woken = min(max(wokenLeast, room, 2*k.woken), len(k.pods))
	woken := slices.Clone(k.pods[:k.woken])
	k.pods = slices.Delete(k.pods, 0, k.woken)
	k.next = now.Add(turn)
	if len(k.pods) == 0 {
		return woken, 0
	}
	return woken, turn
}
