package book

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// PluginName is the name under which the framework knows who let a pod wait at Permit.
const PluginName = "Coscheduling"

// verdict is an answer for a pod at Permit.
type verdict struct {
	allow  bool
	reason string
	since  time.Time
}

// unsettledFor is how long a verdict for a pod that does not wait is kept. A pod starts to wait right after the plugin
// said so, within the same scheduling cycle.
const unsettledFor = 5 * time.Second

// leftToFramework is how long a rejection of a terminating pod is left to the framework, which rejects such a pod from its own
// event handler. WaitingPod.Reject of Kubernetes 1.37 writes a field under a read lock, so two of them must not meet. One
// that the framework missed, as a pod that did not wait yet when its deletion was told, is rejected after this time.
const leftToFramework = time.Second

// outbox holds the pods, by namespace/name, that are activated once the lock is released.
type outbox struct {
	pods map[string]*v1.Pod
}

func newOutbox() outbox { return outbox{pods: map[string]*v1.Pod{}} }

func (o *outbox) activate(pod *v1.Pod) { o.pods[pod.Namespace+"/"+pod.Name] = pod }

// apply feeds an event to the gang and carries out what follows. The caller holds mu.
func (b *Book) apply(g *group, e gang.Event) {
	if g.state == nil {
		b.changed(g)
		return
	}
	var actions []gang.Action
	g.state, actions = gang.Decide(g.state, e, b.clock.Now())
	for _, a := range actions {
		b.execute(g, a)
	}
	b.unfollow(g)
	b.changed(g)
}

func (b *Book) execute(g *group, a gang.Action) {
	switch a := a.(type) {
	case gang.Release:
		freed := 0
		for _, uid := range a.Pods {
			if b.release(uid) {
				freed++
			}
		}
		if freed > 0 && b.settings.Freed != nil {
			b.settings.Freed()
		}
		metrics.GangRollbacks.Inc()
		metrics.Rollbacks.WithLabelValues(metrics.RollbackGang, metrics.StagePlanned).Add(float64(freed))
	case gang.Reject:
		b.logger.V(2).Info("Gang is given up for now", "podGroup", g.key, "pods", len(a.Pods), "reason", a.Reason)
		for _, uid := range a.Pods {
			b.settle(uid, verdict{reason: a.Reason, since: b.clock.Now()})
		}
	case gang.Allow:
		for _, uid := range a.Pods {
			b.settle(uid, verdict{allow: true, since: b.clock.Now()})
		}
	case gang.Activate:
		for _, uid := range a.Pods {
			if m := b.members[uid]; m != nil {
				b.activate(m)
			}
		}
		b.wake()
	case gang.Evict:
		for _, uid := range a.Pods {
			if m := b.members[uid]; m != nil {
				b.evictions[uid] = eviction{pod: m.pod, reason: a.Reason}
			}
		}
		b.wakeEvictions()
	}
}

// release gives back what was planned for a member, and reports whether that were cards.
func (b *Book) release(uid ledger.PodUID) bool {
	freed := b.ledger.Forget(uid)
	delete(b.coming, uid)
	if m := b.members[uid]; m != nil {
		m.plan = nil
		b.place(m)
	}
	return freed
}

// settle lets a waiting pod go on or not. One that does not wait yet, or is left to the framework, is asked again by the loop.
func (b *Book) settle(uid ledger.PodUID, v verdict) bool {
	waiting := b.host.WaitingPod(types.UID(uid))
	if waiting == nil || !v.allow && b.leaves(uid, v.since) {
		if _, known := b.unsettled[uid]; !known {
			b.unsettled[uid] = v
			b.wake()
		}
		return false
	}
	delete(b.unsettled, uid)
	if v.allow {
		waiting.Allow(PluginName)
	} else {
		waiting.Reject(PluginName, v.reason)
	}
	return true
}

// leaves reports whether the rejection of a pod is still the framework's business.
func (b *Book) leaves(uid ledger.PodUID, since time.Time) bool {
	m := b.members[uid]
	return m != nil && m.sighting.Terminating && b.clock.Now().Sub(since) < leftToFramework
}

// GiveBack is the end of a reservation: planID is the name of the plan that it came from, "" if none. One that is not of the
// plan in force holds nothing of what that plan holds, and must not take anything from it.
func (b *Book) GiveBack(uid ledger.PodUID, planID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.members[uid]; m != nil && m.plan != nil && m.plan.ID != planID {
		return false
	}
	return b.ledger.Forget(uid)
}

// Run carries out what needs no lock, and feeds the passing of time, until ctx ends. Call it once.
func (b *Book) Run(ctx context.Context) {
	timer := b.clock.NewTimer(idlePeriod)
	defer timer.Stop()
	for {
		next := b.step()
		timer.Reset(max(next, minPeriod))
		select {
		case <-ctx.Done():
			return
		case <-b.kick:
		case <-timer.C():
		}
	}
}

const (
	// idlePeriod is the longest sleep of the loop, minPeriod the shortest.
	idlePeriod = 10 * time.Second
	minPeriod  = 10 * time.Millisecond
	// retryPeriod is how soon open verdicts and vanished members are looked at again.
	retryPeriod = 50 * time.Millisecond
)

// step does what is due and returns when there is more to do.
func (b *Book) step() time.Duration {
	b.mu.Lock()
	now := b.clock.Now()
	b.hurry(now, min(b.cure(now), b.tick(now)))
	b.retry(now)
	b.expireTurn(now)
	again := b.redirty(now)
	out := b.outbox
	b.outbox = newOutbox()
	writer, desired := b.writer, b.takeDirty(now)
	host, next := b.host, min(again, b.nextDue(now))
	b.mu.Unlock()

	if len(out.pods) > 0 {
		host.Activate(out.pods)
	}
	for _, d := range desired {
		writer.Set(d)
	}
	return next
}

// tick feeds the time to the gangs that asked for it. It returns the lowest priority among those activated.
func (b *Book) tick(now time.Time) int64 {
	if b.soonest.IsZero() || now.Before(b.soonest) {
		return nobody
	}
	ripe := map[*group]bool{}
	for g, at := range b.due {
		if !at.After(now) {
			ripe[g] = true
		}
	}
	lowest := b.tell(ripe, gang.Tick{})
	b.soonest = time.Time{}
	for _, at := range b.due {
		if b.soonest.IsZero() || at.Before(b.soonest) {
			b.soonest = at
		}
	}
	return lowest
}

// retry looks again at verdicts that found nobody, and ends the grace of vanished members.
func (b *Book) retry(now time.Time) {
	for _, uid := range slices.Sorted(maps.Keys(b.unsettled)) {
		v := b.unsettled[uid]
		if !b.settle(uid, v) && now.Sub(v.since) > unsettledFor {
			delete(b.unsettled, uid)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(b.vanished)) {
		if now.Sub(b.vanished[uid]) >= vanishGrace {
			b.drop(uid)
		}
	}
}

// nextDue is the time until the loop has to run again. The caller holds mu.
func (b *Book) nextDue(now time.Time) time.Duration {
	next := idlePeriod
	if !b.soonest.IsZero() {
		next = min(next, b.soonest.Sub(now))
	}
	if w := b.withheld.Load(); w != nil {
		next = min(next, w.until.Sub(now))
	}
	if len(b.unsettled) > 0 || len(b.vanished) > 0 {
		next = min(next, retryPeriod)
	}
	if len(b.cured) > 0 || b.curedAll {
		next = min(next, b.curedAt.Add(curePeriod).Sub(now))
	}
	return next
}
