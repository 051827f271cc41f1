package book

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Withheld is a turn: the nodes on which others may not take cards, so that what comes free there gathers for a gang that
// failed often. It is immutable.
type Withheld struct {
	Group    GroupKey
	Failures int
	Priority int32
	Created  time.Time
	Nodes    map[ledger.NodeName]bool

	until time.Time
}

// Bars reports whether the pod may not take cards on the node: it is not of the gang itself, its priority is not higher,
// and it, or its PodGroup, was created later.
func (w *Withheld) Bars(pod *v1.Pod, priority int32, created time.Time, node ledger.NodeName) bool {
	if w == nil || !w.Nodes[node] || priority > w.Priority || created.Before(w.Created) {
		return false
	}
	key, named := KeyOf(pod)
	return !named || key != w.Group
}

// Withheld returns the turn that is on, nil if none.
func (b *Book) Withheld() *Withheld { return b.withheld.Load() }

// CreatedOf returns when the pod's PodGroup was created, or the pod itself where it has none.
func (b *Book) CreatedOf(pod *v1.Pod) time.Time {
	if key, named := KeyOf(pod); named {
		b.mu.Lock()
		defer b.mu.Unlock()
		if g := b.groups[key]; g != nil && g.known {
			return g.facts.Created
		}
	}
	return pod.CreationTimestamp.Time
}

// wantsTurn reports whether the gang has failed so often that it should get a turn, and nobody has one. The caller holds mu.
func (b *Book) wantsTurn(g *group) bool {
	after := b.settings.TurnAfter
	return after > 0 && b.withheld.Load() == nil && g.state.Failures() >= g.turnless+after && g.state.Phase() == gang.PhaseForming
}

// GiveTurn keeps the nodes for the gang until it runs, ends, or its time is over. It does nothing where another gang was
// faster.
func (b *Book) GiveTurn(key GroupKey, priority int32, nodes map[ledger.NodeName]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil || g.state == nil || len(nodes) == 0 || !b.wantsTurn(g) {
		return
	}
	b.withheld.Store(&Withheld{
		Group: key, Failures: g.state.Failures(), Priority: priority, Created: g.facts.Created, Nodes: nodes,
		until: b.clock.Now().Add(b.settings.TurnTimeout),
	})
	b.logger.V(2).Info("Nodes are kept for a gang that failed often", "podGroup", key, "failures", g.state.Failures(), "nodes", len(nodes))
	b.changed(g)
}

// Barred remembers a pod that was refused because of the turn: it is tried again when the turn ends, since nothing else
// need happen then that would wake it.
func (b *Book) Barred(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.withheld.Load() == nil {
		b.outbox.activate(pod) // it ended meanwhile
		b.wake()
		return
	}
	b.barred[pod.Namespace+"/"+pod.Name] = pod
}

// endTurn ends the turn of a gang, if it has it. The caller holds mu.
func (b *Book) endTurn(key GroupKey) {
	w := b.withheld.Load()
	if w == nil || w.Group != key {
		return
	}
	b.withheld.Store(nil)
	for _, pod := range b.barred {
		b.outbox.activate(pod)
	}
	clear(b.barred)
	for _, g := range sortedGroups(b.waiting()) {
		b.apply(g, gang.Cured{})
	}
	b.wake()
}

// waiting are the gangs whose last plan failed, or whose members wait for their lead.
func (b *Book) waiting() map[*group]bool {
	out := map[*group]bool{}
	for _, g := range b.groups {
		if g.state != nil && (g.state.Failures() > 0 || len(g.followers) > 0) {
			out[g] = true
		}
	}
	return out
}

// expireTurn ends a turn that brought nothing, or of which nobody is left to make use. The caller holds mu.
func (b *Book) expireTurn(now time.Time) {
	w := b.withheld.Load()
	if w == nil {
		return
	}
	g := b.groups[w.Group]
	if now.Before(w.until) {
		if !g.waits() {
			b.endTurn(w.Group)
			if g != nil {
				b.changed(g)
			}
		}
		return
	}
	b.endTurn(w.Group)
	if g != nil {
		g.turnless = g.failures() // the next turn takes as many failures again
		b.changed(g)
	}
}

// waits reports whether the group is a gang with members that have no place.
func (g *group) waits() bool {
	if g == nil || g.state == nil {
		return false
	}
	_, waits := g.state.Lead()
	return waits
}

func (g *group) failures() int {
	if g.state == nil {
		return 0
	}
	return g.state.Failures()
}
