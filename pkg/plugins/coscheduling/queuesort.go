package coscheduling

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
)

// bothGroups is the refusal of a pod that names a PodGroup of either API.
const bothGroups = "the pod names a PodGroup by the label scheduling.x-k8s.io/pod-group and another one by spec.schedulingGroup: it can be a member of one gang only"

// Less orders the queue: higher priority first, then by book.Order. It calls no API.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if pa, pb := a.GetPriority(), b.GetPriority(); pa != pb {
		return pa > pb
	}
	return p.orderOf(a).Compare(p.orderOf(b)) < 0
}

// orderOf returns the place of an entry of the queue: a pod, or a native group as a whole.
func (p *Plugin) orderOf(entry fwk.QueuedEntityInfo) book.Order {
	queued := entry.GetTimestamp().UnixNano()
	switch e := entry.(type) {
	case *framework.QueuedPodInfo:
		return p.book.OrderOf(e.Pod, queued)
	case framework.QueuedEntityInfo:
		return book.PlainOrder(e.GetNamespace(), e.GetName(), queued)
	}
	return book.PlainOrder("", "", queued)
}

// PreEnqueue keeps members out of the active queue while nothing can come of them. The book activates them when their
// PodGroup, or the sibling that was missing, has come. A pod that names two groups passes: PreFilter refuses it, which its
// user gets to read.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if reason, ok := p.book.Enqueue(pod); !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}
