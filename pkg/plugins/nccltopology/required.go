package nccltopology

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// constraintOf returns the label key that the group must stay in one domain of. The API allows one constraint.
func constraintOf(group fwk.PodGroupInfo) (key string, ok bool) {
	if g := group.GetPodGroup(); g != nil {
		if c := g.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
			return c.Topology[0].Key, true
		}
		return "", false
	}
	if g := group.GetCompositePodGroup(); g != nil {
		if c := g.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
			return c.Topology[0].Key, true
		}
	}
	return "", false
}

// requiredDomains returns a placement for each value of the label, by ascending value. Nodes without the label are in none.
// Pods of the group that have a node bind the others to their domain; it is an error if that is not one.
func (p *Plugin) requiredDomains(key string, scheduled []*v1.Pod, parent *fwk.Placement) ([]*fwk.Placement, error) {
	only, err := p.boundDomain(key, scheduled)
	if err != nil {
		return nil, fmt.Errorf("where the group's other pods are: %w", err)
	}
	nodes := map[string][]fwk.NodeInfo{}
	for _, info := range parent.Nodes {
		value, ok := info.Node().Labels[key]
		if ok && (len(scheduled) == 0 || value == only) {
			nodes[value] = append(nodes[value], info)
		}
	}
	placements := make([]*fwk.Placement, 0, len(nodes))
	for _, value := range slices.Sorted(maps.Keys(nodes)) {
		placements = append(placements, &fwk.Placement{Name: value, Nodes: nodes[value]})
	}
	return placements, nil
}

// boundDomain returns the one value of the label on the nodes of the pods.
func (p *Plugin) boundDomain(key string, pods []*v1.Pod) (string, error) {
	domain := ""
	for i, pod := range pods {
		info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Spec.NodeName)
		if err != nil {
			return "", fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
		}
		value, ok := info.Node().Labels[key]
		switch {
		case !ok:
			return "", fmt.Errorf("pod %s is on node %s, which has no label %s", klog.KObj(pod), pod.Spec.NodeName, key)
		case i > 0 && value != domain:
			return "", fmt.Errorf("label %s has more than one value there: %.64q and %.64q", key, domain, value)
		}
		domain = value
	}
	return domain, nil
}
