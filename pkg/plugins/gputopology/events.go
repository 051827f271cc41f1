package gputopology

import (
	"context"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// EventsToRegister lists what can cure a rejection of this plugin:
//
//	a pod that held GPUs is gone       -> "used" cards come free, enough of them; a contradiction between pods may end
//	a bound pod's record is changed    -> cards set aside for a pod without one come free
//	the pod itself is changed          -> a request that could not be read may be readable now
//	a node is added or described anew  -> more, other or healthy cards
//	a ResourceSlice of the GPU driver  -> the same, where DRA describes the node
//
// The scheduler's informer handlers, which ask the hints, run beside the engine's. Each hint therefore first makes sure that
// the ledger has heard of the event: a pod that is woken before would be refused again and sleep on.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPodDeleted},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Update}, QueueingHintFn: p.afterRecordChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: p.afterPodUpdated},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeAnnotation}, QueueingHintFn: p.afterNodeChange},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		events = append(events, fwk.ClusterEventWithHint{
			Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update | fwk.Delete}, QueueingHintFn: p.afterSliceChange,
		})
	}
	return events, nil
}

// afterPodDeleted queues when the pod that ended, or whose reservation was given back, held cards, and the waiting pod fits
// that pod's node now: thousands of pods that wait for more than came free are left alone.
func (p *Plugin) afterPodDeleted(_ klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	ended, _, err := schedutil.As[*v1.Pod](oldObj, nil)
	if err != nil {
		return fwk.Queue, err
	}
	if g := p.gone.Load(); g != nil && g.pod == ended {
		return engine.QueueIf(g.held && p.mayFit(pod, ended.Spec.NodeName)), nil
	}
	p.engine.Observer().PodChanged(ended)
	held := request.TakesCards(ended) || len(ended.Spec.ResourceClaims) > 0 // claims may have been for GPUs
	if _, _, still := p.engine.Ledger().Holding(ledger.PodUID(ended.UID)); still {
		return engine.QueueIf(held), nil // preemption speaks of the end of a reservation before the pod is gone, and not again
	}
	p.gone.Store(&gone{ended, held})
	return engine.QueueIf(held && p.mayFit(pod, ended.Spec.NodeName)), nil
}

// gone is a pod that holds nothing any more, as far as the ledger goes, and whether it held cards. The hint is asked about one such
// pod for each pod that waits, one after the other, with the scheduling queue locked: what is the same for all is found out once.
type gone struct {
	pod  *v1.Pod
	held bool
}

// mayFit reports whether a waiting pod may fit the node as far as cards go. What goes by more than one node's cards, or
// cannot be told, may.
func (p *Plugin) mayFit(pod *v1.Pod, node string) bool {
	if book.InGroup(pod) || node == "" {
		return true
	}
	a := p.engine.Ledger().Node(ledger.NodeName(node))
	if a == nil || a.Topology == nil || a.Quarantined {
		return true // it left, or the contradiction that this event may end is not derived anew yet
	}
	asked, err := p.requestOf(pod)
	if err != nil || asked == nil {
		return true
	}
	if total, plain := asked.Plain(); plain && total > a.Free.Len() {
		return false // no need to find out why
	}
	return p.engine.Chooser().Fits(&a.View, asked) == nil
}

// afterRecordChange queues when the allocation record of a bound pod reads differently now.
func (p *Plugin) afterRecordChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before.Annotations[v1alpha1.AllocationAnnotation] == after.Annotations[v1alpha1.AllocationAnnotation] {
		return fwk.QueueSkip, nil
	}
	p.engine.Observer().PodUpdated(before, after)
	return fwk.Queue, nil
}

// afterPodUpdated queues when the pod's own request reads differently now.
func (p *Plugin) afterPodUpdated(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	was, wasErr := p.requestOf(before)
	is, isErr := p.requestOf(after)
	return engine.QueueIf(!reflect.DeepEqual(was, is) || fmt.Sprint(wasErr) != fmt.Sprint(isErr)), nil
}

// afterNodeChange queues when something that inventory reads has changed.
func (p *Plugin) afterNodeChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	p.engine.Observer().NodeChanged(after.Name)
	if before == nil {
		known := p.engine.Ledger().Node(ledger.NodeName(after.Name)) // by ResourceSlices, which may have come first
		return engine.QueueIf(inventory.Describes(after) || known != nil && known.Topology != nil), nil
	}
	if inventory.SameInputs(before, after) {
		return fwk.QueueSkip, nil
	}
	return engine.QueueIf(inventory.Describes(before) || inventory.Describes(after)), nil
}

// afterSliceChange queues for slices of the GPU driver that belong to a node.
func (p *Plugin) afterSliceChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*resourcev1.ResourceSlice](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	hint := fwk.QueueSkip
	for _, slice := range []*resourcev1.ResourceSlice{before, after} {
		if slice != nil && slice.Spec.Driver == inventory.DRADriver {
			p.engine.Observer().SliceChanged(slice)
			hint = fwk.Queue
		}
	}
	return hint, nil
}
