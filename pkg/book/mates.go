package book

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Company is what a member that is scheduled by itself should know of its gang.
type Company struct {
	// Nodes are the nodes of the other members that are bound or planned, one entry a member, ascending. Members that
	// end, and those on lost nodes, are left out.
	Nodes []ledger.NodeName
	// Waiting counts the members that could be given a node now, the pod itself among them; at least 1.
	Waiting int
	// Need is the quorum of the gang, 0 for a pod whose group is no gang or not known.
	Need int
	// Required is the level of which one domain must hold the gang, as its PodGroup names it; "" if it asks for none.
	Required string
}

// MatesOf returns the company of a pod. A pod that names no group has none, and waits alone.
func (b *Book) MatesOf(pod *v1.Pod) Company {
	key, named := KeyOf(pod)
	if !named {
		return Company{Waiting: 1}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := Company{Waiting: 1}
	g := b.groups[key]
	if g == nil {
		return c
	}
	if g.state != nil {
		c.Need, c.Required = g.facts.Spec.MinMember, g.facts.Wish.Required
	}
	for uid, m := range g.members {
		switch s := &m.sighting; {
		case uid == ledger.PodUID(pod.UID) || m.ended() || s.Terminating || s.NodeLost:
		case m.node != "":
			c.Nodes = append(c.Nodes, m.node)
		case !s.Gated:
			c.Waiting++
		}
	}
	slices.Sort(c.Nodes)
	return c
}

// WaitingWith returns the members of a pod's gang that could be given a node now, the pod among them, ascending by UID; nil for a
// pod without a gang. The pods are shared and must not change.
func (b *Book) WaitingWith(pod *v1.Pod) []*v1.Pod {
	key, named := KeyOf(pod)
	if !named {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil {
		return nil
	}
	out := []*v1.Pod{pod}
	for uid, m := range g.members {
		if s := &m.sighting; uid != ledger.PodUID(pod.UID) && !m.ended() && !s.Terminating && !s.Gated && m.node == "" {
			out = append(out, m.pod)
		}
	}
	slices.SortFunc(out, func(x, y *v1.Pod) int { return cmp.Compare(x.UID, y.UID) })
	return out
}
