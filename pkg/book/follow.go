package book

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// followMost is how long a member follows without being tried itself: as long as kube-scheduler leaves a pod that it could not
// place, unless --pod-max-in-unschedulable-pods-duration says otherwise, which cannot be read here. It is for what nobody thought of.
const followMost = 5 * time.Minute

// following is a member whose lead is tried in its stead.
type following struct {
	since time.Time
	// generation is that of the pod's specification when it was tried last.
	generation int64
}

// Follow has a member that could not be placed wait for the lead of its gang, which is tried in its stead: it need not be asked
// about what happens in the cluster. False where the member is the lead, where the gang has none, since it is incomplete, starting, or
// its members go alone, and where the book knows another specification than the one that was tried. It ends when the book activates
// the pod, which it does with all that a plan, a change of the group, or the end of the lead makes worth a try, when the pod is
// changed, and after followMost.
func (b *Book) Follow(pod *v1.Pod) (follows bool) {
	b.follower(pod, func(g *group, m *member) {
		if m.pod.Generation != pod.Generation {
			return
		}
		if g.followers == nil {
			g.followers = map[ledger.PodUID]following{}
		}
		g.followers[m.uid()], follows = following{b.clock.Now(), pod.Generation}, true
	})
	return follows
}

// Follows reports whether a member still waits for its lead. It does not once it was changed itself, or has waited for long. It is
// cheap, changes nothing, and may be called with the scheduling queue's lock held.
func (b *Book) Follows(pod *v1.Pod) (follows bool) {
	b.follower(pod, func(g *group, m *member) {
		f, known := g.followers[m.uid()]
		follows = known && f.generation == pod.Generation && b.clock.Since(f.since) < followMost
	})
	return follows
}

// follower calls f, with mu held, for a pod that may follow: a pending member of the gang that it names, and not the lead.
func (b *Book) follower(pod *v1.Pod, f func(*group, *member)) {
	key, named := KeyOf(pod)
	if !named {
		return
	}
	b.with(pod, func(g *group, m *member) {
		if g.key == key && g.state.Follows(m.uid()) {
			f(g, m)
		}
	})
}

// unfollow has those members tried that follow nobody any more: one that is the lead now, or all of a gang without one. The caller
// holds mu.
func (b *Book) unfollow(g *group) {
	if len(g.followers) == 0 {
		return
	}
	if g.state == nil || !g.state.Led() {
		for uid := range g.followers {
			b.activate(g.members[uid])
		}
		b.wake()
		return
	}
	if lead, ok := g.state.Lead(); ok {
		if _, follows := g.followers[lead]; follows {
			b.activate(g.members[lead])
			b.wake()
		}
	}
}

// activate has the queue try a member, which follows nobody then. The caller holds mu, and calls wake.
func (b *Book) activate(m *member) {
	delete(m.group.followers, m.uid())
	b.outbox.activate(m.pod)
}
