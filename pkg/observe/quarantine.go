package observe

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

const (
	reasonQuarantine = "GPUAllocationsContradict"
	actionQuarantine = "QuarantineGPUs"
)

// noteQuarantine reports a node whose allocations have begun to contradict each other, or do so in another way than before.
func (o *Observer) noteQuarantine(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteQuarantineLocked(name)
}

func (o *Observer) noteQuarantineLocked(name string) {
	a := o.ledger.Node(ledger.NodeName(name))
	if a == nil || !a.Quarantined {
		delete(o.quarantines, name)
		return
	}
	why := a.Quarantine()
	if o.quarantines[name] == why {
		return
	}
	o.quarantines[name] = why
	o.logger.Info("Node takes no new GPU pods: its allocations contradict each other", "node", name, "reason", why)
	if node, err := o.nodes.Get(name); err == nil {
		o.report.Report(node, reasonQuarantine, actionQuarantine, why)
	}
}
