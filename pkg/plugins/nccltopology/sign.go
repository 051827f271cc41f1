package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
)

// SignPod keeps members of gangs and pods that ask for cards out of batching, in which a pod is offered the nodes that were left over
// when another one was scored. Each member that gets a node changes what the next one is near to, and each pod that gets cards how
// full a rack is. PreFilter finds the best nodes of the whole cluster for a pod in less time.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if book.InGroup(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of gangs are not batched")
	}
	switch asked, err := p.engine.RequestOf(pod); {
	case err != nil:
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	case asked != nil:
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with GPUs are not batched")
	}
	return nil, nil
}
