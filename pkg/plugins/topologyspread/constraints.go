package topologyspread

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// constraint is one topology spread constraint of a pod, with what the API leaves open filled in.
type constraint struct {
	key                 string
	maxSkew, minDomains int32
	selector            labels.Selector
	// honorAffinity and honorTaints say that nodes which the pod's required affinity or its tolerations keep it off do not count.
	honorAffinity, honorTaints bool
	// self is 1 if the pod matches the selector.
	self int
	// gangs says that gangs are counted, not pods.
	gangs bool
}

// constraintsOf returns the pod's constraints of one kind: its own, or where it has none of either kind, the default ones.
func (p *Plugin) constraintsOf(pod *v1.Pod, kind v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	name := "hard"
	if kind == v1.ScheduleAnyway {
		name = "soft"
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		own, err := p.read(pod.Spec.TopologySpreadConstraints, pod, kind)
		if err != nil {
			return nil, fmt.Errorf("obtaining pod's %s topology spread constraints: %w", name, err)
		}
		return own, nil
	}
	given, err := p.read(p.defaults, pod, kind)
	if err != nil {
		return nil, fmt.Errorf("setting default %s topology spread constraints: %w", name, err)
	}
	if len(given) == 0 {
		return nil, nil
	}
	selector := p.ownersOf(pod)
	if selector.Empty() {
		return nil, nil // nothing says which pods belong together
	}
	for i := range given {
		given[i].selector = selector
		given[i].self = matches(selector, pod)
	}
	return given, nil
}

// ownersOf selects the pods of the Services and the controller that the pod belongs to. It is empty where there are none.
func (p *Plugin) ownersOf(pod *v1.Pod) labels.Selector {
	return helper.DefaultSelector(pod, p.owners.services, p.owners.controllers, p.owners.replicas, p.owners.stateful)
}

// read reads the constraints of one kind.
func (p *Plugin) read(list []v1.TopologySpreadConstraint, pod *v1.Pod, kind v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var out []constraint
	for i := range list {
		c := &list[i]
		if c.WhenUnsatisfiable != kind {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		if p.features.EnableMatchLabelKeysInPodTopologySpread {
			selector = withOwnValues(selector, c.MatchLabelKeys, pod.Labels)
		}
		read := constraint{key: c.TopologyKey, maxSkew: c.MaxSkew, minDomains: 1, selector: selector, honorAffinity: true, self: matches(selector, pod)}
		if c.MinDomains != nil {
			read.minDomains = *c.MinDomains
		}
		if p.features.EnableNodeInclusionPolicyInPodTopologySpread {
			if c.NodeAffinityPolicy != nil {
				read.honorAffinity = *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor
			}
			if c.NodeTaintsPolicy != nil {
				read.honorTaints = *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
			}
		}
		out = append(out, read)
	}
	return out, nil
}

// withOwnValues adds matchLabelKeys to a selector: of each key, the value that the pod has. API servers from 1.34 on do so
// themselves when the pod is created; what they wrote is left as it is, so that a pod whose label was changed afterwards stays with
// the pods it was created with. (The API allows no other selector to name one of the keys.)
func withOwnValues(selector labels.Selector, keys []string, own map[string]string) labels.Selector {
	requirements, selectable := selector.Requirements()
	if !selectable || len(keys) == 0 {
		return selector // nothing matches it
	}
	out := selector
	for _, key := range keys {
		value, has := own[key]
		if !has || slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == key && r.Operator() == selection.In }) {
			continue
		}
		if r, err := labels.NewRequirement(key, selection.Equals, []string{value}); err == nil {
			out = out.Add(*r)
		}
	}
	return out
}

func matches(s labels.Selector, pod *v1.Pod) int {
	if s.Matches(labels.Set(pod.Labels)) {
		return 1
	}
	return 0
}

// includes reports whether the constraint counts a node for the pod, by its node inclusion policies.
func (p *Plugin) includes(logger klog.Logger, c *constraint, pod *v1.Pod, node *v1.Node, affinity *nodeaffinity.RequiredNodeAffinity) bool {
	if c.honorAffinity {
		if match, err := affinity.Match(node); err != nil || !match { // a term that cannot be read matches nothing
			return false
		}
	}
	if !c.honorTaints {
		return true
	}
	_, bad := v1helper.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(),
		p.features.EnableTaintTolerationComparisonOperators)
	return !bad
}

// hasKeys reports whether the labels have the keys of all constraints.
func hasKeys(nodeLabels map[string]string, constraints []constraint) bool {
	for i := range constraints {
		if _, ok := nodeLabels[constraints[i].key]; !ok {
			return false
		}
	}
	return true
}

// matchesPlaced reports whether a pod on a node matches the constraint of a pod of the namespace. Pods that end do not.
func (c *constraint) matchesPlaced(pod *v1.Pod, namespace string) bool {
	return pod.DeletionTimestamp == nil && pod.Namespace == namespace && c.selector.Matches(labels.Set(pod.Labels))
}
