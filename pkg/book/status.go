package book

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
)

// conditionGrace is how long the scheduler's own failure handling is given to write a reason on the members that it tried,
// before the others get it from us.
const conditionGrace = time.Second

// changed notes what follows from a change of a group: its place in the queue, when it is due, what its status says, who need
// yield to it. The caller holds mu.
func (b *Book) changed(g *group) {
	now := b.clock.Now()
	delete(b.due, g)
	reason := ""
	switch {
	case g.state != nil:
		if at, ok := g.state.Next(); ok {
			b.due[g] = at
			if b.soonest.IsZero() || at.Before(b.soonest) {
				b.soonest = at
				b.wake()
			}
		}
		if fails := g.state.Failures(); fails != g.fails {
			if fails > g.fails {
				g.failed = now
			} else {
				g.turnless = 0
			}
			g.fails = fails
		}
		reason = g.state.Reason()
	case !g.known:
		reason = g.unknown()
	case g.facts.Invalid != "":
		reason = g.invalid()
	}
	if reason != g.reason {
		g.reason, g.since = reason, now
	}
	b.setOrder(g.key, b.orderOf(g))
	if b.cured[g] {
		b.weigh(g)
	}
	if b.writer != nil && b.groups[g.key] == g && !b.dirty[g] {
		b.dirty[g] = true
		b.wake()
	}
}

// takeDirty returns what the status of changed groups should be. A group whose members have not had time to be told by the
// scheduler itself is looked at again. The caller holds mu.
func (b *Book) takeDirty(now time.Time) []podgroup.Desired {
	if b.writer == nil || len(b.dirty) == 0 {
		return nil
	}
	var out []podgroup.Desired
	for _, g := range sortedGroups(b.dirty) {
		delete(b.dirty, g)
		out = append(out, b.desired(g, now))
		if wait := conditionGrace - now.Sub(g.since); g.reason != "" && wait > 0 {
			b.later[g] = g.since.Add(conditionGrace)
		}
	}
	return out
}

// redirty looks again at groups whose members have had time to be told. It returns the time until the next one.
func (b *Book) redirty(now time.Time) time.Duration {
	next := idlePeriod
	for g, at := range b.later {
		if wait := at.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		delete(b.later, g)
		if b.groups[g.key] == g {
			b.dirty[g] = true
		}
	}
	return next
}

func (b *Book) desired(g *group, now time.Time) podgroup.Desired {
	d := podgroup.Desired{Namespace: g.key.Namespace, Name: g.key.Name, UID: g.facts.UID, Reason: g.reason, StartTime: g.started}
	switch {
	case !g.known:
		d.UID, d.Absent = absentUID(g.key), true
	case g.state != nil:
		s := g.state.Status()
		d.Phase, d.Running, d.Succeeded, d.Failed = s.Phase, s.Running, s.Succeeded, s.Failed
	default:
		d.Phase, d.Running, d.Succeeded, d.Failed = g.plainStatus()
	}
	if b.settings.External {
		d.Phase, d.Running, d.Succeeded, d.Failed, d.StartTime = "", 0, 0, 0, nil
	}
	d.Layout = b.layout(g)
	if g.reason != "" && now.Sub(g.since) >= conditionGrace {
		d.Parked = g.untold()
	}
	return d
}

// plainStatus counts the members of a group that is no gang.
func (g *group) plainStatus() (phase string, running, succeeded, failed int32) {
	for _, m := range g.members {
		switch {
		case m.sighting.Succeeded:
			succeeded++
		case m.sighting.Failed:
			failed++
		case m.sighting.Running:
			running++
		}
	}
	phase = "Pending"
	switch {
	case running > 0:
		phase = "Running"
	case failed > 0:
		phase = "Failed"
	case succeeded > 0:
		phase = "Finished"
	}
	return phase, running, succeeded, failed
}

// untold are the waiting members whose condition does not say what the gang waits for.
func (g *group) untold() []podgroup.ParkedPod {
	var out []podgroup.ParkedPod
	for _, m := range g.members {
		if m.sighting.Node == "" && !m.sighting.Gated && !m.sighting.Terminating && !m.ended() && !told(m.pod, g.reason) {
			out = append(out, podgroup.ParkedPod{Namespace: m.pod.Namespace, Name: m.pod.Name, UID: m.pod.UID})
		}
	}
	slices.SortFunc(out, func(x, y podgroup.ParkedPod) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

func told(pod *v1.Pod, reason string) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled {
			return c.Status == v1.ConditionFalse && strings.Contains(c.Message, reason)
		}
	}
	return false
}

func (g *group) unknown() string {
	return "gang " + g.key.String() + ": there is no PodGroup of that name"
}

func (g *group) invalid() string { return "gang " + g.key.String() + ": " + g.facts.Invalid }
