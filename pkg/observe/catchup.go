package observe

import (
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// CatchUp makes sure that the ledger has heard of everything that the scheduler's own cache knows of a node, and reports
// whether that changed the node. generation is the one of the scheduler's NodeInfo, which grows with every change of it.
//
// The scheduler's informer handlers and ours run in no order. Without this a pod could be woken by the end of another one,
// find its cards still charged, be refused, and sleep on with nothing left to wake it. The informers' stores are never
// older than either handler, so they settle what is true. A node is looked at once a generation.
func (o *Observer) CatchUp(node string, generation int64) bool {
	name := ledger.NodeName(node)
	seen, known := o.settled.Load(node)
	current := known && seen == generation
	if current && !o.offersDRA(node) {
		return false
	}
	before := o.ledger.Node(name)
	o.NodeChanged(node) // slices of a DRA driver are no part of a NodeInfo
	if !current {
		for _, entry := range o.ledger.On(name) {
			if entry.Stage == ledger.StageBound && !Cooling(entry.UID) {
				o.releaseIfGone(entry.Holding)
			}
		}
		o.settle(node, generation)
	}
	return o.ledger.Node(name) != before
}

// settle remembers the generation of a node that exists.
func (o *Observer) settle(node string, generation int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.nodes.Get(node); err == nil {
		o.settled.Store(node, generation)
	}
}

func (o *Observer) releaseIfGone(h ledger.Holding) {
	namespace, name, ok := strings.Cut(h.Pod, "/")
	if ok {
		o.settlePod(namespace, name, h.UID)
	}
}
