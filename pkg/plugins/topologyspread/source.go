package topologyspread

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/spread"
)

// view is the nodes of a snapshot as one pod's constraints see them: the spread.Source of its constraint set.
type view struct {
	plugin      *Plugin
	logger      klog.Logger
	pod         *v1.Pod
	constraints []constraint
	// allKeys leaves out nodes that lack the key of any constraint.
	allKeys  bool
	affinity nodeaffinity.RequiredNodeAffinity
	// cards is what a node must have to give its domain standing, nil for any node.
	cards *cards
	infos []fwk.NodeInfo
	// group is nil but in the cycle of a native pod group.
	group *groupStates
	// selectors are the selectors as texts, by constraint; like is the first constraint with the same one: pods are matched
	// once for both.
	selectors []string
	like      []int
}

func (p *Plugin) viewOf(ctx context.Context, state fwk.CycleState, pod *v1.Pod, constraints []constraint, allKeys bool, infos []fwk.NodeInfo) *view {
	v := &view{
		plugin: p, logger: klog.FromContext(ctx), pod: pod, constraints: constraints, allKeys: allKeys,
		affinity: nodeaffinity.GetRequiredNodeAffinity(pod), infos: infos,
		selectors: make([]string, len(constraints)), like: make([]int, len(constraints)),
	}
	if state.IsPodGroupSchedulingCycle() {
		v.group = p.groups
	}
	for i := range constraints {
		c := &constraints[i]
		v.selectors[i] = selectorText(c)
		v.like[i] = slices.IndexFunc(constraints[:i+1], func(o constraint) bool { return o.gangs == c.gangs && selectorText(&o) == v.selectors[i] })
	}
	return v
}

// selectorText is the canonical text of the selector. One that matches nothing has none of its own.
func selectorText(c *constraint) string {
	if _, selectable := c.selector.Requirements(); !selectable {
		return "-"
	}
	return c.selector.String()
}

// spec is what the cache counts for the view.
func (v *view) spec() spread.Spec {
	s := spread.Spec{AllKeys: v.allKeys, Constraints: make([]spread.Constraint, len(v.constraints))}
	for i := range v.constraints {
		s.Constraints[i] = spread.Constraint{Key: v.constraints[i].key, Groups: v.constraints[i].gangs}
	}
	return s
}

// Len implements spread.Nodes.
func (v *view) Len() int { return len(v.infos) }

// Generation implements spread.Nodes: the scheduler gives every state of every node a number of its own, but for those of a pod
// group's cycle.
func (v *view) Generation(i int) int64 {
	if v.group != nil {
		return v.group.number(v.infos[i], v.pod.Namespace, len(v.infos))
	}
	return v.infos[i].GetGeneration()
}

// Node implements spread.Nodes.
func (v *view) Node(i int) spread.Node {
	node := v.infos[i].Node()
	return spread.Node{Name: node.Name, Labels: node.Labels}
}

// Read implements spread.Source.
func (v *view) Read(i int, into *spread.Reading) {
	info := v.infos[i]
	node := info.Node()
	for k := range v.constraints {
		c := &v.constraints[k]
		into.Counts[k] = v.plugin.includes(v.logger, c, v.pod, node, &v.affinity)
		into.Stands[k] = into.Counts[k] && v.cards.on(v.plugin.engine, info)
		if first := v.like[k]; first != k {
			into.Pods[k], into.Groups[k] = into.Pods[first], into.Groups[first]
			continue
		}
		if c.selector.Empty() {
			continue
		}
		for _, placed := range info.GetPods() {
			pod := placed.GetPod()
			if !c.matchesPlaced(pod, v.pod.Namespace) {
				continue
			}
			if gang := gangName(pod); c.gangs && gang != "" {
				into.Groups[k] = append(into.Groups[k], gang)
			} else {
				into.Pods[k]++
			}
		}
	}
}
