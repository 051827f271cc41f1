package topologyspread

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// The reasons of refusals are those of the in-tree plugin: people and tools know them.
const (
	reasonSkew  = podtopologyspread.ErrReasonConstraintsNotMatch
	reasonLabel = podtopologyspread.ErrReasonNodeLabelNotMatch
)

// Filter refuses a node on which the pod would make the skew of a hard constraint too great: the count of the node's domain, the
// pod with it if it matches, less the lowest count of a domain; that is 0 where there are fewer domains than minDomains. A node
// without the label is in no domain, which no other pod's end can cure.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if p.resizes(pod) {
		return nil
	}
	s, err := stateOf[*filterState](state, filterKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	node := info.Node()
	for i := range s.constraints {
		c, t := &s.constraints[i], &s.trials[i]
		domain, ok := node.Labels[c.key]
		if !ok {
			klog.FromContext(ctx).V(5).Info("Node lacks the label of a spread constraint", "node", klog.KObj(node), "topologyKey", c.key)
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonLabel)
		}
		lowest := 0
		if t.Domains() >= int(c.minDomains) {
			lowest = t.Min()
		}
		if skew := t.Pods(domain) + c.self - lowest; skew > int(c.maxSkew) {
			klog.FromContext(ctx).V(5).Info("Node would break a spread constraint", "node", klog.KObj(node), "topologyKey", c.key, "domain", domain, "skew", skew, "maxSkew", c.maxSkew)
			return fwk.NewStatus(fwk.Unschedulable, reasonSkew)
		}
	}
	return nil
}
