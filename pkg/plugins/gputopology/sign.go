package gputopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// requestFragment is the key under which the request enters a pod's signature.
const requestFragment = Name + ".Request()"

// SignPod adds the request: pods that ask for the same cards in the same way are alike to this plugin, whatever their
// names. Pods without GPUs add nothing; a pod whose request cannot be read is not batched.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	asked, err := p.requestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if asked == nil {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: requestFragment, Value: asked}}, nil
}
