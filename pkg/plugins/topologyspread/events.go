package topologyspread

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
)

// EventsToRegister lists what can cure a refusal of this plugin:
//
//	a placed pod comes, goes, or changes labels  -> a domain's count, or the minimum, changes
//	the pod's own labels change                  -> another selector by matchLabelKeys; it does not match itself any more
//	the pod's own tolerations change             -> other nodes count (nodeTaintsPolicy Honor)
//	a node comes, goes, or changes labels        -> domains appear and vanish; others match the pod's affinity
//	a node's taints change                       -> other nodes count (nodeTaintsPolicy Honor)
//	a node's cards change                        -> other domains have standing (ignoreNonGPUNodes)
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodes := fwk.Add | fwk.Delete | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint
	if *p.args.IgnoreNonGPUNodes {
		nodes |= fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add | fwk.UpdatePodLabel | fwk.Delete}, QueueingHintFn: p.afterPlacedPod},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodToleration | fwk.UpdatePodLabel}, QueueingHintFn: p.afterOwnChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodes}, QueueingHintFn: p.afterNodeChange},
	}, nil
}

// afterPlacedPod queues when a pod that counts for one of the constraints comes, goes, or begins or ceases to count.
func (p *Plugin) afterPlacedPod(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	constraints, err := p.constraintsOf(pod, v1.DoNotSchedule)
	if err != nil {
		return fwk.Queue, err
	}
	for _, o := range []*v1.Pod{before, after} {
		if o != nil && (o.Namespace != pod.Namespace || o.Spec.NodeName == "" && o.Status.NominatedNodeName == "") {
			return fwk.QueueSkip, nil
		}
	}
	return engine.QueueIf(changesMatch(constraints, before, after)), nil
}

// changesMatch reports whether a constraint's selector matches one of the pods and not the other. A pod that is not there
// matches nothing.
func changesMatch(constraints []constraint, before, after *v1.Pod) bool {
	for i := range constraints {
		s := constraints[i].selector
		was := before != nil && s.Matches(labels.Set(before.Labels))
		is := after != nil && s.Matches(labels.Set(after.Labels))
		if was != is {
			return true
		}
	}
	return false
}

// afterOwnChange queues when other nodes or pods count for the pod than before.
func (p *Plugin) afterOwnChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after.UID != pod.UID {
		return fwk.QueueSkip, nil
	}
	was, err := p.constraintsOf(before, v1.DoNotSchedule)
	if err != nil {
		return fwk.Queue, err
	}
	is, err := p.constraintsOf(after, v1.DoNotSchedule)
	if err != nil || len(was) != len(is) {
		return fwk.Queue, err
	}
	tolerates := !equality.Semantic.DeepEqual(before.Spec.Tolerations, after.Spec.Tolerations)
	for i := range is {
		if tolerates && is[i].honorTaints || was[i].self != is[i].self || selectorText(&was[i]) != selectorText(&is[i]) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// afterNodeChange queues when the node counted, or counts now, and something that constraints look at has changed.
func (p *Plugin) afterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	constraints, err := p.constraintsOf(pod, v1.DoNotSchedule)
	if err != nil {
		return fwk.Queue, err
	}
	had := before != nil && hasKeys(before.Labels, constraints)
	has := after != nil && hasKeys(after.Labels, constraints)
	if !had || !has {
		return engine.QueueIf(had != has), nil
	}
	return engine.QueueIf(p.countsAnew(pod, constraints, before, after)), nil
}

// countsAnew reports whether a node that has all keys, before and after, may count otherwise than it did.
func (p *Plugin) countsAnew(pod *v1.Pod, constraints []constraint, before, after *v1.Node) bool {
	if !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) {
		return true
	}
	if *p.args.IgnoreNonGPUNodes && !inventory.SameInputs(before, after) && p.cardsOf(pod) != nil {
		return true
	}
	if equality.Semantic.DeepEqual(before.Labels, after.Labels) {
		return false
	}
	if _, member := book.KeyOf(pod); member {
		return true // the fabric that the gang must fit into may have changed
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	was, wasErr := affinity.Match(before)
	is, isErr := affinity.Match(after)
	other := was != is || (wasErr == nil) != (isErr == nil)
	for i := range constraints {
		c := &constraints[i]
		if before.Labels[c.key] != after.Labels[c.key] || c.honorAffinity && other {
			return true
		}
	}
	return false
}
