package topologyspread

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod adds nothing for a pod without constraints. One with constraints is not batched: where it goes changes where the
// next one may go.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || len(p.defaults) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "a pod with topology spread constraints is not like another one")
	}
	return nil, nil
}
