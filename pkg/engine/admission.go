package engine

import (
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/backlog"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// wantOf returns what decides which nodes can take a pod that asks for r: the request, and what the plugins NodeAffinity,
// TaintToleration and NodeUnschedulable refuse a node for, of nodes as the informer's store has them.
func wantOf(pod *v1.Pod, r *allocate.Request, nodes corelisters.NodeLister) *backlog.Want {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	tolerations := pod.Spec.Tolerations
	return &backlog.Want{Request: r, Class: classOf(pod), Admits: func(name ledger.NodeName) bool {
		node, err := nodes.Get(string(name))
		if err != nil {
			return false // the store has no error but that of a node that is not there
		}
		matches, err := affinity.Match(node)
		return (matches || err != nil) && Tolerated(node, tolerations) // an affinity that cannot be read is not for us to refuse
	}}
}

// classOf names what wantOf reads of a pod beside its request.
func classOf(pod *v1.Pod) string {
	class := struct {
		Selector    map[string]string
		Affinity    *v1.NodeSelector
		Tolerations []v1.Toleration
	}{Selector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		class.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	text, err := json.Marshal(class)
	if err != nil {
		return string(pod.UID) // of its own kind; it does not happen, since all of this has come as JSON
	}
	return string(text)
}

// Tolerated reports whether neither a cordon nor a taint keeps a pod with these tolerations off the node.
func Tolerated(node *v1.Node, tolerations []v1.Toleration) bool {
	return (!node.Spec.Unschedulable || ToleratesCordon(tolerations)) && !Repels(node, tolerations)
}

// ToleratesCordon reports whether a pod with these tolerations may go to a cordoned node, as the plugin NodeUnschedulable has it.
func ToleratesCordon(tolerations []v1.Toleration) bool {
	cordon := &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), tolerations, cordon, true)
}

// Repels reports whether a taint keeps a pod with these tolerations off the node, as the plugin TaintToleration has it.
func Repels(node *v1.Node, tolerations []v1.Toleration) bool {
	return untolerated(node, tolerations, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
}

// Discourages reports whether a taint says that a pod with these tolerations is better off elsewhere, as the plugin TaintToleration
// scores it.
func Discourages(node *v1.Node, tolerations []v1.Toleration) bool {
	return untolerated(node, tolerations, v1.TaintEffectPreferNoSchedule)
}

// untolerated reports whether the node has a taint of one of the effects that none of the tolerations is for.
func untolerated(node *v1.Node, tolerations []v1.Toleration, effects ...v1.TaintEffect) bool {
	if len(node.Spec.Taints) == 0 {
		return false
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, func(t *v1.Taint) bool {
		return slices.Contains(effects, t.Effect)
	}, true)
	return found
}

// sameAdmission reports whether a node admits the same pods as before.
func sameAdmission(was, is *v1.Node) bool {
	return maps.Equal(was.Labels, is.Labels) && was.Spec.Unschedulable == is.Spec.Unschedulable && slices.EqualFunc(was.Spec.Taints, is.Spec.Taints, func(a, b v1.Taint) bool {
		return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
	})
}
