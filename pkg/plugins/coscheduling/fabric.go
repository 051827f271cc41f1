package coscheduling

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// wish is what a gang asks of the fabric, in terms of the cluster that there is.
type wish struct {
	required topology.Level
	limited  bool
	slice    placement.Slice
	// roles are the limits of single roles, by role; nil entries for none.
	roles        []*topology.Level
	interconnect string
}

// wishOf looks up the levels that the PodGroup and its pods name. The sentence says which of them nothing is known of, ""
// for none.
func wishOf(f *topology.Fabric, a *book.Admission, roles []*role) (wish, string) {
	w := wish{interconnect: a.Wish.Interconnect, roles: make([]*topology.Level, len(roles))}
	var fault string
	level := func(key, name string) *topology.Level {
		if fault != "" {
			return nil
		}
		l, unknown := levelOf(f, key, name)
		if unknown != "" {
			fault = fmt.Sprintf("gang %s: %s", a.Group, unknown)
		}
		return l
	}
	if l := level(v1alpha1.RequiredTopologyAnnotation, a.Wish.Required); l != nil {
		w.required, w.limited = *l, true
	}
	level(v1alpha1.PreferredTopologyAnnotation, a.Wish.Preferred)
	if l := level(v1alpha1.SliceTopologyAnnotation, a.Wish.SliceLevel); l != nil {
		w.slice = placement.Slice{Size: a.Wish.SliceSize, Level: *l}
	}
	for i, r := range roles {
		w.roles[i] = level(v1alpha1.RequiredTopologyAnnotation+" of pod "+r.pod.Name, r.pod.Annotations[v1alpha1.RequiredTopologyAnnotation])
		level(v1alpha1.PreferredTopologyAnnotation+" of pod "+r.pod.Name, r.pod.Annotations[v1alpha1.PreferredTopologyAnnotation])
	}
	return w, fault
}

// levelOf looks up a level that an annotation names, nil for none. The sentence says that nothing is known of it, "" if it is.
func levelOf(f *topology.Fabric, key, name string) (*topology.Level, string) {
	if name == "" {
		return nil, ""
	}
	if f == nil {
		return nil, fmt.Sprintf("%s is %.64q, but the profile does not run NCCLTopology, which knows the levels", key, name)
	}
	l, ok := f.LevelOf(name)
	if !ok {
		return nil, fmt.Sprintf("%s is %.64q, which is neither a level of the fabric nor a label key that describes one", key, name)
	}
	return &l, ""
}

// sameLevels reports whether two pods ask for the same level of the fabric.
func sameLevels(a, b *v1.Pod) bool {
	return a.Annotations[v1alpha1.RequiredTopologyAnnotation] == b.Annotations[v1alpha1.RequiredTopologyAnnotation] &&
		a.Annotations[v1alpha1.PreferredTopologyAnnotation] == b.Annotations[v1alpha1.PreferredTopologyAnnotation]
}

// describe enters the wish into a problem.
func (w *wish) describe(problem *placement.Problem, allowCrossZone bool) {
	problem.Required, problem.HasRequired = w.required, w.limited
	problem.Ceiling, problem.HasCeiling = topology.LevelZone, !allowCrossZone
	problem.Slice = w.slice
	for i, l := range w.roles {
		if l != nil {
			problem.Roles[i].Required, problem.Roles[i].HasRequired = *l, true
		}
	}
}

// fixed are the members that have a place already.
func (p *Plugin) fixed(f *topology.Fabric, mates []book.Mate, roles []*role) []placement.Fixed {
	out := make([]placement.Fixed, len(mates))
	for i, m := range mates {
		out[i] = placement.Fixed{Node: m.Node, Position: positionOf(f, m.Node), Role: -1, Rank: m.Rank}
		for k, r := range roles {
			if sameAsk(r.pod, m.Pod) {
				out[i].Role = k
				break
			}
		}
	}
	return out
}

// positionOf is -1 for a node that the fabric does not hold.
func positionOf(f *topology.Fabric, node ledger.NodeName) int {
	if f == nil {
		return -1
	}
	if at, ok := f.Position(string(node)); ok {
		return at
	}
	return -1
}

// connected reports whether a node has the interconnect that a gang requires.
func connected(n *topology.Node, interconnect string) bool {
	shape := n.Shape()
	for i := range n.Usable().All() {
		switch interconnect {
		case v1alpha1.InterconnectRDMA:
			if near := shape.NearestNIC(i); near >= topology.LinkPXB {
				return true
			}
		case v1alpha1.InterconnectNVLink:
			for j := range n.Usable().All() {
				if i != j && n.Link(i, j).Type == topology.LinkNVLink {
					return true
				}
			}
		}
	}
	return false
}
