package book

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// curePeriod is how long cures are gathered: longer than the queue takes to tell all pods of one event.
const curePeriod = 10 * time.Millisecond

// MayCure says that something happened that may help a member that was refused, and reports whether the queue should have
// it tried. Of a gang that waits as a whole it should not: the loop activates the first member, together with those of all
// gangs that the same event may help, so that priority decides among them, and not the order in which the queue asks or how
// long each pod still backs off.
func (b *Book) MayCure(pod *v1.Pod) bool {
	key, named := KeyOf(pod)
	if !named {
		return true
	}
	uid := ledger.PodUID(pod.UID)
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil || g.state == nil {
		return true
	}
	if g.state.Alone() {
		return true
	}
	lead, ok := g.state.Lead()
	if !ok || lead != uid {
		return false
	}
	b.note(g)
	return false
}

// MayCureAll says that something happened that may help any gang that waits, and that the scheduler's queue does not hear of. Who
// waits is looked up when gangs are told, or before that when one is about to be planned: a thousand leases may be renewed at a time.
func (b *Book) MayCureAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noted()
	b.curedAll = true
}

// note has the loop tell the gang of a cure. The caller holds mu.
func (b *Book) note(g *group) {
	b.noted()
	b.add(g)
}

// add puts a gang among those that are told next. The caller holds mu.
func (b *Book) add(g *group) {
	b.cured[g] = true
	b.weigh(g)
}

// weigh keeps foremost, of a gang that is among cured and has come there or changed. The caller holds mu.
func (b *Book) weigh(g *group) {
	switch {
	case b.foremost == g: // its priority may have fallen, or it is not ready any more
		b.foremost = nil
		for other := range b.cured {
			b.weigh(other)
		}
	case g.ready() && (b.foremost == nil || g.priority() > b.foremost.priority()):
		b.foremost = g
	}
}

// ready reports whether the group is a gang that could be planned as it stands, but for its rest. Nobody need yield to another one.
func (g *group) ready() bool {
	if g.state == nil {
		return false
	}
	lead, ok := g.state.Lead()
	return ok && g.state.Plannable(lead, g.state.RetryAt())
}

// gather looks up who waits, where MayCureAll was called since that was done last. The caller holds mu.
func (b *Book) gather() {
	if b.curedAll {
		b.curedAll = false
		for g := range b.waiting() {
			b.add(g)
		}
	}
}

// yields has a gang that is about to be planned wait until cures that were noted are told, where one is of a gang of higher
// priority that could be planned then: the cycle that could take what came free must not be that of whoever happened to stand in
// the active queue. Both are activated together then, and the queue has the other one first. A gang yields once between two plans,
// so that one that waits for more than ever comes free holds nobody up, and not while it holds cards. The caller holds mu.
func (b *Book) yields(g *group, uid ledger.PodUID, now time.Time) bool {
	if !g.state.Plannable(uid, now) || b.orderOf(g).band == bandHeld {
		return false
	}
	b.gather()
	if behind := b.foremost != nil && b.foremost.priority() > g.priority(); !behind || g.yielded != 0 && g.yielded != b.round {
		g.yielded = 0
		return false
	}
	g.yielded = b.round
	b.note(g)
	return true
}

// noted has the loop run when the first of some cures is noted. The caller holds mu.
func (b *Book) noted() {
	if len(b.cured) == 0 && !b.curedAll {
		b.curedAt = b.clock.Now()
		b.wake()
	}
}

// cure tells the gangs that something may help of it: their first members are activated, or will be once they have rested.
// It returns the lowest priority among those activated.
func (b *Book) cure(now time.Time) int64 {
	if len(b.cured) == 0 && !b.curedAll || now.Before(b.curedAt.Add(curePeriod)) {
		return nobody
	}
	b.gather()
	b.round++
	cured := b.cured
	b.cured, b.foremost = map[*group]bool{}, nil
	return b.tell(cured, gang.Cured{})
}

// nobody is the priority where no gang was activated, above that of any pod.
const nobody = math.MaxInt64

// tell feeds gangs an event. It returns the lowest priority among those that are tried for it.
func (b *Book) tell(groups map[*group]bool, e gang.Event) int64 {
	lowest := int64(nobody)
	for _, g := range sortedGroups(groups) {
		waited := g.state != nil && !g.state.Woken()
		b.apply(g, e)
		if waited && g.state.Woken() {
			lowest = min(lowest, g.priority())
		}
	}
	return lowest
}

// hurry ends the rest of gangs above a priority at which gangs are tried, where something happened since they failed: rest
// keeps a gang from being tried too often, and must not let another one get ahead of it.
func (b *Book) hurry(now time.Time, above int64) {
	if above == nobody {
		return
	}
	resting := map[*group]bool{}
	for _, g := range b.groups {
		if g.state != nil && g.state.Cured() && now.Before(g.state.RetryAt()) && g.priority() > above {
			resting[g] = true
		}
	}
	b.tell(resting, gang.Urgent{})
}

// priority is that of the first pending member.
func (g *group) priority() int64 {
	lead, _ := g.state.Lead()
	if m := g.members[lead]; m != nil && m.pod.Spec.Priority != nil {
		return int64(*m.pod.Spec.Priority)
	}
	return 0
}
