package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
)

// requestFragment is the key under which the request enters a pod's signature.
const requestFragment = Name + ".Request()"

// SignPod adds the request, which is all of a single pod that its scores depend on. Members of gangs are not batched: each
// one that gets a node changes what the next one is near to.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, member := book.KeyOf(pod); member {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of gangs are not batched")
	}
	asked, err := p.engine.RequestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if asked == nil {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: requestFragment, Value: asked}}, nil
}
