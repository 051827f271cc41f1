package coscheduling

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
)

// EventsToRegister lists what can cure a gang that does not fit:
//
//	a pod is gone, or asks for less        -> cards, CPU, memory or a host come free
//	a node comes, or changes               -> more room; a taint, label, cordon or condition that kept the gang off
//	a ResourceSlice of the GPU driver      -> the same, where DRA describes the node
//	the pod itself is changed              -> it asks for less, or names another group
//
// What PreEnqueue waits for (the PodGroup, the siblings) is no event of the scheduler: the book activates the members. Of
// all members of a gang only the first is woken, since it plans for all. It is not the queue that wakes it but the book, all
// gangs that an event may help together, or once they have rested: priority decides who is first, not the order of hints.
// In a profile with GPUCapacityGate the others, once tried, are not even asked about: they are kept out of the queue meanwhile.
// As in GPUTopology, each hint first makes sure that the ledger has heard of the event.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}, QueueingHintFn: p.afterPodChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.afterOwnChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: p.afterNodeChange},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		events = append(events, fwk.ClusterEventWithHint{
			Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update | fwk.Delete}, QueueingHintFn: p.afterSliceChange,
		})
	}
	return events, nil
}

// afterPodChange queues for every pod that ended or shrank: whatever it held may be what the gang lacks.
func (p *Plugin) afterPodChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, _, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if o := p.engine.Observer(); o != nil && old != nil && newObj == nil {
		o.PodChanged(old)
	}
	return p.cure(pod), nil
}

// afterOwnChange queues a member for a change of itself, other than of its status.
func (p *Plugin) afterOwnChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	old, now, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if now.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	was, _ := book.KeyOf(old)
	if is, _ := book.KeyOf(now); was != is || now.Generation != old.Generation || book.NamesBoth(now) != book.NamesBoth(old) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterNodeChange queues for a node that came, or of which something changed that decides over members.
func (p *Plugin) afterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if o := p.engine.Observer(); o != nil {
		o.NodeChanged(now.Name)
	}
	p.book.NodeChanged(now.Name, p.nodes) // the event may be an old one, kept while this pod was in flight
	return p.cure(pod), nil
}

// afterSliceChange queues for slices of the GPU driver that belong to a node.
func (p *Plugin) afterSliceChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*resourcev1.ResourceSlice](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	hint := fwk.QueueSkip
	for _, slice := range []*resourcev1.ResourceSlice{before, after} {
		if slice != nil && slice.Spec.Driver == inventory.DRADriver {
			if o := p.engine.Observer(); o != nil {
				o.SliceChanged(slice)
			}
			hint = p.cure(pod)
		}
	}
	return hint, nil
}

// cure tells the book, and asks whether the queue is to wake this pod. Nothing but a change of itself helps a pod of two groups.
func (p *Plugin) cure(pod *v1.Pod) fwk.QueueingHint {
	if !book.NamesBoth(pod) && p.book.MayCure(pod) {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
