package topologyspread

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod adds nothing for a pod that nothing spreads: it has no constraints, and for the default ones no Service, ReplicaSet or
// the like says which pods it belongs with, as for pods of a Job. Other pods are not batched: where one goes changes where the next
// one may go. A pod is signed when it is queued, so a Service that comes after that spreads the pods queued later.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "a pod with topology spread constraints is not like another one")
	}
	if len(p.defaults) > 0 && !p.ownersOf(pod).Empty() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "a pod with default topology spread constraints is not like another one")
	}
	return nil, nil
}
