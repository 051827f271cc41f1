package book

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Reachable reports whether a node answers: it carries neither of the taints of a node that the node controller has given
// up, and does not say that it is not ready.
func Reachable(node *v1.Node) bool {
	for i := range node.Spec.Taints {
		if key := node.Spec.Taints[i].Key; key == v1.TaintNodeUnreachable || key == v1.TaintNodeNotReady {
			return false
		}
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return true
}

// maxGone is how many deleted nodes are remembered as lost: a pod that was bound to one a moment ago may be seen after it has gone.
const maxGone = 1024

// NodeSeen brings the book in line with a node as the API shows it.
func (b *Book) NodeSeen(node *v1.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen(node)
}

// seen is NodeSeen. The caller holds mu.
func (b *Book) seen(node *v1.Node) {
	name := ledger.NodeName(node.Name)
	if b.lost[name] {
		b.gone = slices.DeleteFunc(b.gone, func(n ledger.NodeName) bool { return n == name })
	}
	b.lose(name, !Reachable(node))
}

// NodeChanged is NodeSeen for the node as the informer's store has it: for those who hear of events late, or twice, and would
// bring back a state that is over. Of a node that is not there any more NodeGone tells.
func (b *Book) NodeChanged(name string, store corelisters.NodeLister) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if node, err := store.Get(name); err == nil {
		b.seen(node)
	}
}

// NodeGone says that a node is deleted. Of the nodes deleted before the last maxGone, those without members are forgotten.
func (b *Book) NodeGone(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	node := ledger.NodeName(name)
	b.lose(node, true)
	b.gone = append(slices.DeleteFunc(b.gone, func(n ledger.NodeName) bool { return n == node }), node)
	over := len(b.gone) - maxGone
	b.gone = slices.DeleteFunc(b.gone, func(n ledger.NodeName) bool {
		if over <= 0 || len(b.placed[n]) > 0 {
			return false
		}
		over--
		delete(b.lost, n)
		return true
	})
}

// lose tells the gangs with members on the node. What is planned there is given back; members that run there are lost to
// their gang until the node is back. The caller holds mu.
func (b *Book) lose(name ledger.NodeName, lost bool) {
	if b.lost[name] == lost {
		return
	}
	if lost {
		b.lost[name] = true
	} else {
		delete(b.lost, name)
	}
	planned := map[*group]bool{}
	for _, uid := range slices.Sorted(maps.Keys(b.placed[name])) {
		m := b.placed[name][uid]
		if m == nil {
			continue // taken away by what was done for one before it
		}
		if m.plan != nil && m.sighting.Node == "" {
			planned[m.group] = true
			continue
		}
		m.sighting.NodeLost = lost
		b.apply(m.group, gang.MemberSeen{Sighting: m.sighting})
	}
	if !lost {
		return
	}
	for _, g := range sortedGroups(planned) {
		b.apply(g, gang.NodeGone{Node: name})
	}
}

// Lost reports whether a node was lost when the book last heard of it.
func (b *Book) Lost(name ledger.NodeName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost[name]
}

func sortedGroups(set map[*group]bool) []*group {
	groups := slices.Collect(maps.Keys(set))
	slices.SortFunc(groups, func(x, y *group) int { return x.key.compare(y.key) })
	return groups
}
