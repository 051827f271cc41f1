package book

import (
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
