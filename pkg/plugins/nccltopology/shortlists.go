package nccltopology

import (
	"slices"
	"sync"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// maxKinds is for how many different requests a list of nodes is kept. Pods that belong to no gang ask for few: one to eight cards, and
// some shares of one. A list takes 20 bytes a node.
const maxKinds = 16

// shortlists keeps in line with the ledger what every node is worth to the requests that pods made last: what one pod takes changes one
// node. It is safe for concurrent use.
type shortlists struct {
	ledger  *ledger.Ledger
	weights placement.Weights
	// value is the grade and the seed of a node's free cards for a request.
	value func(*ledger.NodeGPUAllocation, *allocate.Request, int) (allocate.Grade, int64)
	// mu guards what follows. The ledger's lock is taken while it is held.
	mu     sync.Mutex
	fabric *topology.Fabric
	cursor *ledger.Cursor
	// states has the state of the node at each position, nil for one that is not known.
	states []*ledger.NodeGPUAllocation
	// kinds are the requests, the one asked for last first.
	kinds []*wanted
}

// wanted is one request.
type wanted struct {
	request *allocate.Request
	plain   int
	// list is nil for a request that was asked for once, or not since everything changed: one that does not come again is not worth
	// a look at every node.
	list *placement.Shortlist
	// stale are the positions that changed since list was brought in line, some of them perhaps twice.
	stale []int
}

// best returns the positions in f of the n nodes that are worth the most to the request, see placement.Shortlist; plain is what Plain
// says of it, 0 for a request that is not. It is false where no list is kept of the request yet.
func (l *shortlists) best(f *topology.Fabric, o *placement.Occupancy, request *allocate.Request, plain, n int) ([]int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read(f)
	k, known := l.kindOf(request, plain)
	if !known {
		return nil, false
	}
	if k.list == nil {
		k.list = placement.NewShortlist(len(l.states), l.weights)
		for at := range l.states {
			k.stale = append(k.stale, at)
		}
	}
	for _, at := range k.stale {
		grade, seed := l.value(l.states[at], k.request, k.plain)
		k.list.Set(at, grade, seed)
	}
	k.stale = k.stale[:0]
	return k.list.Best(o, n), true
}

// read brings states in line with the ledger.
func (l *shortlists) read(f *topology.Fabric) {
	if l.fabric != f {
		l.fabric, l.cursor, l.states = f, l.ledger.Follow(), make([]*ledger.NodeGPUAllocation, f.Len())
	}
	if l.cursor.Read() {
		clear(l.states)
		for _, k := range l.kinds {
			k.list, k.stale = nil, nil
		}
	}
	for name, a := range l.cursor.Changed() {
		at, ok := f.Position(string(name))
		if !ok {
			continue
		}
		l.states[at] = a
		for _, k := range l.kinds {
			k.changed(at)
		}
	}
}

// changed notes that the node at a position is not what it was. A list that nobody asked for while all nodes may have changed is
// dropped.
func (k *wanted) changed(at int) {
	switch {
	case k.list == nil:
	case len(k.stale) > k.list.Len():
		k.list, k.stale = nil, nil
	default:
		k.stale = append(k.stale, at)
	}
}

// kindOf puts the request first, and reports whether it was among the last ones.
func (l *shortlists) kindOf(request *allocate.Request, plain int) (*wanted, bool) {
	at := slices.IndexFunc(l.kinds, func(k *wanted) bool { return k.request.Alike(request) })
	if at < 0 {
		k := &wanted{request: request, plain: plain}
		l.kinds = slices.Insert(l.kinds, 0, k)
		l.kinds = l.kinds[:min(len(l.kinds), maxKinds)]
		return k, false
	}
	k := l.kinds[at]
	copy(l.kinds[1:at+1], l.kinds[:at])
	l.kinds[0] = k
	return k, true
}
