package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// requestFragment is the key under which the request enters a pod's signature.
const requestFragment = Name + ".Request()"

// SignPod adds the request, which is all of a single pod that its scores depend on. Not batched are
//
//   - members of gangs: each one that gets a node changes what the next one is near to,
//   - pods that ask for more than half of the cards of the smallest node. A batch looks at the racks anew when the node that it took
//     last serves once more (type batch). Where none ever does, pods go to nodes of many racks that were alike at first. Nodes that
//     are partly used, host ports, CPU, memory and MIG instances can have the same effect, and are not looked at here.
//   - pods that ask for cards and are queued before a node with cards is known. Those of MIG instances alone are batched.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if book.InGroup(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of gangs are not batched")
	}
	asked, err := p.engine.RequestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if asked == nil {
		return nil, nil
	}
	if cards, _ := request.FromPodForeign(pod); 2*cards > p.engine.Ledger().FewestCards() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods of which a node may hold only one are not batched")
	}
	return []fwk.SignFragment{{Key: requestFragment, Value: asked}}, nil
}
