package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// GeneratePlacements offers the sets of nodes that a native group's cycle tries, one after the other.
//
// A group with a topology constraint gets one placement for each value of the label, and none else that leaves such a
// domain (required.go). Any other group gets the parent placement: whatever fits there at all is found. Beside them stand
// domains of the fabric inside of these, narrow to wide, that have enough free cards for the whole group (candidates.go),
// so that at most maxPlacements are offered in all; the constraint's own domains are never left out for that number.
// A group that takes no cards gets no more than its constraint asks for.
func (p *Plugin) GeneratePlacements(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	key, constrained := constraintOf(group)
	scheduled, err := p.scheduledPods(group)
	if err != nil {
		if constrained {
			return nil, fwk.AsStatus(err)
		}
		klog.FromContext(ctx).V(4).Info("The group's pods are not in the snapshot", "podGroup", group.GetKey(), "err", err)
	}
	n := p.needOf(group, len(scheduled))
	st := p.newStock(parent.Nodes, n, scheduled)
	state.Write(surveyKey, &survey{stock: st, need: n})
	if !constrained {
		return &fwk.GeneratePlacementsResult{Placements: st.offer(n, p.maxPlacements, []*fwk.Placement{parent})}, nil
	}
	required, err := p.requiredDomains(key, scheduled, parent)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return &fwk.GeneratePlacementsResult{Placements: st.offer(n, p.maxPlacements, st.possible(n, required))}, nil
}

// scheduledPods returns the pods of the group that have a node, assumed or bound.
func (p *Plugin) scheduledPods(group fwk.PodGroupInfo) ([]*v1.Pod, error) {
	lister := p.handle.SnapshotSharedLister()
	if !p.composite {
		g, err := lister.PodGroupStates().Get(group.GetNamespace(), group.GetName())
		if err != nil {
			return nil, err
		}
		return g.ScheduledPods(), nil
	}
	var pods []*v1.Pod
	for g, err := range helper.GetPodGroupStates(lister, fwk.MustParseEntityKey(group.GetKey())) {
		if err != nil {
			return nil, err
		}
		pods = append(pods, g.ScheduledPods()...)
	}
	return pods, nil
}
