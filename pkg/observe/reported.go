package observe

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	reasonQuarantine = "GPUAllocationsContradict"
	actionQuarantine = "QuarantineGPUs"
)

// noteQuarantine reports a node whose allocations have begun to contradict each other, or do so in another way than before.
func (o *Observer) noteQuarantine(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteContradiction(name, o.ledger.Node(ledger.NodeName(name)))
}

// noteContradiction is noteQuarantine for a node's state, nil for a node that the ledger does not know. The caller holds mu.
func (o *Observer) noteContradiction(name string, a *ledger.NodeGPUAllocation) {
	why := contradiction(a)
	if why == "" {
		delete(o.quarantines, name)
		return
	}
	if o.quarantines[name] == why {
		return
	}
	o.quarantines[name] = why
	o.logger.Info("What pods hold contradicts the node's cards", "node", name, "reason", why)
	if node, err := o.nodes.Get(name); err == nil {
		o.report.Report(node, reasonQuarantine, actionQuarantine, why)
	}
}

// contradiction says in which way a node's allocations cannot be true; empty if they can.
func contradiction(a *ledger.NodeGPUAllocation) string {
	switch {
	case a == nil || a.Topology == nil:
		return ""
	case a.Quarantined:
		return "no new GPU pods: " + a.Quarantine()
	case len(a.Missing()) > 0:
		m := a.Missing()[0]
		return fmt.Sprintf("%d cards that pods hold are not listed, among them card %d (%.64s) of pod %s; free cards are set aside for those that may stand there under another name", len(a.Missing()), m.Share.Index, m.Share.UUID, m.Pod)
	}
	return ""
}

// listing is the cards that a node lists.
type listing struct {
	node     string
	topology *topology.Node
}

// disown forgets which cards a node listed. The caller holds mu.
func (o *Observer) disown(node string) {
	l := o.listed[node]
	if l == nil {
		return
	}
	for i := range l.topology.Len() {
		if hash := o.hashOf(l.topology.UUID(i)); o.owners[hash] == l {
			delete(o.owners, hash)
		}
	}
	delete(o.listed, node)
}

// noteOwners reports cards that two nodes list: one of the descriptions is another node's. The caller holds mu.
func (o *Observer) noteOwners(node *v1.Node, t *topology.Node) {
	o.disown(node.Name)
	if t == nil {
		return
	}
	l := &listing{node.Name, t}
	for i := range t.Len() {
		uuid := t.UUID(i)
		if uuid == "" {
			continue
		}
		hash := o.hashOf(uuid)
		if owner := o.owners[hash]; owner != nil && owner != l && owner.topology.IndexOf(uuid) >= 0 {
			o.report.Report(node, reasonProblem, actionResolve, fmt.Sprintf("card %d has the UUID %.64s, which node %s lists too: one of the two descriptions is another node's", i, uuid, owner.node))
			continue
		}
		o.owners[hash] = l
	}
	o.listed[node.Name] = l
}

func (o *Observer) hashOf(uuid string) uint64 { return maphash.String(o.seed, uuid) }

// podFault is what is wrong with the annotations of a bound pod.
type podFault struct{ namespace, name, detail string }

// noteFault reports a pod and remembers it until it ends.
func (o *Observer) noteFault(pod *v1.Pod, detail string) {
	uid := ledger.PodUID(pod.UID)
	fault := podFault{pod.Namespace, pod.Name, detail}
	o.mu.Lock()
	known := o.faults[uid] == fault
	o.faults[uid] = fault
	o.mu.Unlock()
	if !known {
		o.report.Report(pod, reasonUnreadable, actionAccount, detail)
	}
}

func (o *Observer) forgetFault(uid ledger.PodUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.faults, uid)
}

// Repeat reports all open faults again: a replica that was silent begins to schedule.
func (o *Observer) Repeat() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.problems)) {
		if node, err := o.nodes.Get(name); err == nil {
			o.report.Report(node, reasonProblem, actionResolve, describe(o.problems[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.quarantines)) {
		if node, err := o.nodes.Get(name); err == nil {
			o.report.Report(node, reasonQuarantine, actionQuarantine, o.quarantines[name])
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(o.faults)) {
		fault := o.faults[uid]
		if pod, err := o.pods.Pods(fault.namespace).Get(fault.name); err == nil && ledger.PodUID(pod.UID) == uid {
			o.report.Report(pod, reasonUnreadable, actionAccount, fault.detail)
		}
	}
}
