package topologyspread

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

// SignPod adds nothing for a pod that nothing spreads: it has no constraints, and for the default ones no Service, ReplicaSet or
// the like says which pods it belongs with, as for pods of a Job. Other pods are not batched: where one goes changes where the next
// one may go. A pod is signed when it is queued, and again only when it changes; what selects it may be shown by the informers later.
// So its reference to a controller is enough, and nothing is signed before the Services are there. A Service that is shown after
// that spreads the pods that are queued later.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	switch {
	case len(pod.Spec.TopologySpreadConstraints) > 0:
		return nil, fwk.NewStatus(fwk.Unschedulable, "a pod with topology spread constraints is not like another one")
	case len(p.defaults) == 0:
		return nil, nil
	case !p.owners.complete():
		return nil, fwk.NewStatus(fwk.Unschedulable, "it is not known yet whether default topology spread constraints apply")
	case engine.SpreadByController(pod) || !p.ownersOf(pod).Empty():
		return nil, fwk.NewStatus(fwk.Unschedulable, "a pod with default topology spread constraints is not like another one")
	default:
		return nil, nil
	}
}
