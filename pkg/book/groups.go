package book

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
)

// Object is what an event is about.
type Object = runtime.Object

const (
	reasonInvalid = "InvalidPodGroup"
	reasonClamped = "PermitTimeoutClamped"
	actionRead    = "ReadPodGroup"
)

// GroupSeen brings the book in line with a PodGroup as the API shows it. A new object of a known name replaces the old one
// and everything that was remembered of it.
func (b *Book) GroupSeen(seen podgroup.Group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.group(GroupKey{seen.Namespace, seen.Name})
	if g.known && g.facts.UID != seen.UID {
		b.groupEnded(g)
	}
	before := g.facts
	fresh := !g.known
	g.known, g.facts = true, seen
	if g.started == nil {
		g.started = seen.RecordedStart
	}
	if fresh || before.Invalid != seen.Invalid {
		b.report(g, reasonInvalid, seen.Invalid)
	}
	if fresh || before.Clamped != seen.Clamped {
		b.report(g, reasonClamped, seen.Clamped)
	}
	switch isGang := seen.Invalid == "" && !seen.Singles; {
	case !isGang:
		b.dismiss(g)
		b.activateAll(g)
	case g.state == nil:
		g.state = gang.New(g.key.String(), b.settings.Gang, seen.Spec)
		g.state.Recorded(seen.RecordedSucceeded, seen.RecordedRan)
		for _, m := range g.members {
			b.apply(g, gang.MemberSeen{Sighting: b.first(m)})
		}
		b.activateAll(g)
	case before.Spec != seen.Spec:
		b.apply(g, gang.SpecChanged{Spec: seen.Spec})
		b.activateAll(g)
	case before.Wish != seen.Wish || !maps.Equal(before.MinResources, seen.MinResources):
		b.apply(g, gang.Cured{}) // what is not asked for any more may be what the gang waits for
	}
	b.changed(g)
}

// GroupGone says that the PodGroup object is deleted.
func (b *Book) GroupGone(namespace, name string, uid gang.GroupUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[GroupKey{namespace, name}]
	if g == nil || !g.known || g.facts.UID != uid {
		return
	}
	b.groupEnded(g)
	b.changed(g)
	b.tidy(g)
}

// groupEnded takes back what was planned for the group and forgets its object.
func (b *Book) groupEnded(g *group) {
	b.dismiss(g)
	if b.writer != nil {
		b.writer.Forget(g.facts.UID)
	}
	b.endTurn(g.key)
	*g = group{key: g.key, members: g.members}
}

// dismiss ends the gang of a group: its plan is given back, and nobody remembers it. What a reservation of the plan still
// holds goes with its rollback.
func (b *Book) dismiss(g *group) {
	if g.state == nil {
		return
	}
	b.apply(g, gang.GroupGone{})
	g.state = nil
	for uid, m := range g.members {
		m.plan = nil
		delete(b.coming, uid)
		b.place(m)
	}
}

// absentUID stands for a group of which only members are known.
func absentUID(key GroupKey) gang.GroupUID { return gang.GroupUID("absent " + key.String()) }

func (b *Book) report(g *group, reason, detail string) {
	if detail != "" && b.host != nil && g.facts.Object != nil {
		b.host.Report(g.facts.Object, reason, actionRead, detail)
	}
}

// activateAll has every member that is not placed looked at again: what parked it may be gone.
func (b *Book) activateAll(g *group) {
	for _, m := range g.members {
		if m.sighting.Node == "" && m.plan == nil {
			b.activate(m)
		}
	}
	b.wake()
}
