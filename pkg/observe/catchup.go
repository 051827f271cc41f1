package observe

import (
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
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
	before := o.ledger.Node(name)
	described := before != nil && before.Topology != nil && before.Topology.Source() == inventory.SourceDRA
	if seen, ok := o.settled.Load(node); ok && seen == generation && !described {
		return false // slices of a DRA driver are no part of a NodeInfo
	}
	o.NodeChanged(node)
	for _, entry := range o.ledger.On(name) {
		if entry.Stage == ledger.StageBound {
			o.releaseIfGone(entry.Holding)
		}
	}
	if after := o.ledger.Node(name); after != nil {
		o.settled.Store(node, generation)
		return before == nil || before.Generation != after.Generation
	}
	o.settled.Delete(node)
	return before != nil
}

func (o *Observer) releaseIfGone(h ledger.Holding) {
	namespace, name, ok := strings.Cut(h.Pod, "/")
	if ok {
		o.settlePod(namespace, name, h.UID)
	}
}
