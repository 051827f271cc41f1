package observe

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

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
