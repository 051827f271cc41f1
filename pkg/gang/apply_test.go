package gang

import (
	"fmt"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// step takes an event and the actions that State answered with, and returns what is wrong with them, "" if nothing is.
func (m *model) step(e Event, actions []Action) string {
	failing := m.fails(e)
	before, startedBefore := m.strength(), m.at(StageBound)+m.at(StageAdmitted)
	_, failedPlan := e.(PlanFailed)
	missed := false
	if u, ok := e.(MemberUnreserved); ok {
		missed = m.missedAfterCanary(u.Pod)
	}
	m.happen(e)
	if failing {
		m.failed()
		if !missed {
			m.planOn = false
		}
		if !failedPlan || m.curedSinceAsked {
			m.cured()
		}
	}
	for _, a := range actions {
		if wrong := m.apply(e, a); wrong != "" {
			return wrong
		}
	}
	if failing && m.at(StagePlanned)+m.at(StageReserved) > 0 {
		return "the plan failed, and something is held still"
	}
	m.leave(e)
	m.conclude(before, startedBefore)
	return m.object()
}

func (m *model) cured() { m.curedSinceAsked, m.unheeded = true, true }

// happen notes what an event says, apart from what State decides about it.
func (m *model) happen(e Event) {
	switch e := e.(type) {
	case SpecChanged:
		if m.spec != e.Spec {
			m.spec = e.Spec
			m.cured()
		}
	case MemberSeen:
		m.sighted(e.Sighting)
	case MemberBound:
		if p := m.pods[e.Pod]; p != nil && p.where < StageSucceeded {
			m.bound(e.Pod, e.Node)
		}
	case MemberReserved:
		if p := m.pods[e.Pod]; p != nil && p.where == StagePlanned {
			p.where = StageReserved
			if e.Node == p.node {
				m.progress = m.now
				if m.firstAtPermit.IsZero() {
					m.firstAtPermit = m.now
				}
			}
		}
	case MemberUnreserved:
		m.unreserved(e.Pod)
	case MemberRefused:
		if p := m.pods[e.Pod]; p != nil && p.where == StagePlanned && e.Node == p.node {
			m.excluded[e.Node] = m.now.Add(time.Minute)
			m.refusals++
		}
	case GroupGone:
		m.gone, m.planOn, m.completeBy = true, false, time.Time{}
	case Cured:
		m.cured()
	case Urgent:
		m.retryAt = time.Time{}
	case Tick:
		if !m.now.Before(m.retryAt) {
			m.retryAt = time.Time{}
		}
		for node, until := range m.excluded {
			if !m.now.Before(until) {
				delete(m.excluded, node)
				m.cured()
			}
		}
	case PlanMade:
		m.planned(e)
	}
}

func (m *model) planned(e PlanMade) {
	distinct := map[ledger.PodUID]bool{}
	for _, p := range e.Members {
		distinct[p.Pod] = m.pods[p.Pod] != nil && m.pods[p.Pod].where == StagePending
	}
	good := 0
	for _, pending := range distinct {
		if pending {
			good++
		}
	}
	if good < len(e.Members) || good < m.need() || !m.mayPlan() && (m.need() <= 0 || !m.keepsOn()) {
		m.cured()
		return
	}
	if !m.planOn {
		m.planOn, m.canary, m.canaryBound, m.refusals, m.firstAtPermit = true, "", false, 0, time.Time{}
	}
	m.progress, m.retryAt = m.now, time.Time{}
	for _, p := range e.Members {
		m.pods[p.Pod].where, m.pods[p.Pod].node = StagePlanned, p.Node
	}
}

func (m *model) bound(uid ledger.PodUID, node ledger.NodeName) {
	p := m.pods[uid]
	if m.binding() && m.canary == uid {
		m.canaryBound, m.progress = true, m.now
	}
	p.where, p.node = StageBound, node
	if p.together && !m.ran && !m.gone && m.completeBy.IsZero() {
		m.completeBy = m.now.Add(m.timeout())
	}
}

func (m *model) unreserved(uid ledger.PodUID) {
	p := m.pods[uid]
	if p == nil {
		return
	}
	switch p.where {
	case StageAdmitted:
		if p.together {
			m.cured()
		}
		m.free(p)
	case StageReserved, StageLeaving:
		m.free(p)
	default:
	}
	if p.seen.Terminating && p.where < StageBound {
		delete(m.pods, uid)
	}
}

// free puts a pod back to where it can be planned.
func (m *model) free(p *pod) {
	p.where, p.together = StagePending, false
	if p.seen.Gated {
		p.where = StageGated
	}
}

// sighted notes what the API shows. Those that leave are taken out by leave, after the actions that may name them.
func (m *model) sighted(seen Sighting) {
	p := m.pods[seen.UID]
	terminal := seen.Succeeded || seen.Failed
	fresh := p == nil
	switch {
	case fresh && seen.Terminating && seen.Node == "" && !terminal:
		return
	case fresh:
		p = &pod{where: StageGated}
		m.pods[seen.UID] = p
	case p.where >= StageSucceeded, p.where == StageBound && seen.Node == "" && !terminal:
		return
	}
	if !fresh && !p.seen.Gated {
		seen.Gated = false // gates are only taken away
	}
	p.seen = seen
	if seen.Node != "" {
		m.bound(seen.UID, seen.Node)
	}
	switch {
	case seen.Succeeded:
		if fresh && m.recorded > 0 {
			m.recorded--
		}
		m.succeeded[seen.UID] = true
	case !terminal && seen.Node == "" && !seen.Gated && p.where == StageGated && !seen.Terminating:
		p.where = StagePending
		m.cured()
	}
}

// leave takes out or ends the pods that the event says are gone, deleted before they were bound, or terminal.
func (m *model) leave(e Event) {
	switch e := e.(type) {
	case MemberGone:
		delete(m.pods, e.Pod)
	case MemberSeen:
		p := m.pods[e.UID]
		switch {
		case p == nil || p.where >= StageSucceeded:
		case e.Succeeded:
			p.where = StageSucceeded
		case e.Failed:
			p.where = StageFailed
		case e.Terminating && p.where < StageBound && p.where != StageAdmitted:
			delete(m.pods, e.UID)
		}
	}
}

// apply checks one action against the facts and makes it one.
func (m *model) apply(e Event, a Action) string {
	switch a := a.(type) {
	case Release:
		return m.released(e, a)
	case Reject:
		return m.rejected(e, a)
	case Allow:
		return m.allowed(e, a)
	case Activate:
		return m.activated(a)
	case Evict:
		for _, uid := range a.Pods {
			p := m.pods[uid]
			if p == nil || p.where != StageBound || p.seen.Terminating {
				return fmt.Sprintf("evicts %s, which is not bound", uid)
			}
		}
	}
	return ""
}

func (m *model) released(e Event, a Release) string {
	made, late := e.(PlanMade)
	for _, uid := range a.Pods {
		p := m.pods[uid]
		switch {
		case late && p == nil:
		case late && (p.where == StagePending || p.where == StageGated):
		case p == nil || p.where != StagePlanned:
			return fmt.Sprintf("releases %s, which is not planned", uid)
		default:
			m.free(p)
		}
	}
	if late && m.planOn && len(made.Members) == 0 {
		return "releases for a plan of nobody"
	}
	return ""
}

func (m *model) rejected(e Event, a Reject) string {
	if a.Reason == "" {
		return "rejects without a reason"
	}
	for _, uid := range a.Pods {
		p := m.pods[uid]
		asks, isAsking := e.(MemberReserved)
		switch {
		case p != nil && p.where == StageReserved:
			p.where = StageLeaving
		case isAsking && asks.Pod == uid:
			if p != nil && (p.where == StagePending || p.where == StageGated) {
				p.where = StageLeaving
			}
		case p != nil && p.where == StageBound:
			// It was waiting until this event said that it is bound.
		default:
			return fmt.Sprintf("rejects %s, which does not wait", uid)
		}
	}
	return ""
}

func (m *model) allowed(e Event, a Allow) string {
	for _, uid := range a.Pods {
		p := m.pods[uid]
		asks, isAsking := e.(MemberReserved)
		switch {
		case p == nil:
			return fmt.Sprintf("allows %s, which is unknown", uid)
		case isAsking && asks.Pod == uid && p.where == StageAdmitted:
		case isAsking && asks.Pod == uid && p.where == StagePending && m.alone():
			p.where, p.node, p.together = StageAdmitted, asks.Node, false
		case p.where != StageReserved:
			return fmt.Sprintf("allows %s, which does not wait", uid)
		case m.at(StagePlanned) > 0 || m.need() > 0:
			return fmt.Sprintf("allows %s before all have arrived", uid)
		case m.canary == "" && len(a.Pods) == 1:
			m.canary = uid
			p.where, p.together = StageAdmitted, true
		case !m.canaryBound:
			return fmt.Sprintf("allows %s before the canary is bound", uid)
		default:
			p.where, p.together = StageAdmitted, true
		}
	}
	return ""
}

func (m *model) activated(a Activate) string {
	pending := false
	for _, uid := range a.Pods {
		p := m.pods[uid]
		if p == nil || p.where != StagePending && p.where != StagePlanned {
			return fmt.Sprintf("activates %s, which cannot be tried", uid)
		}
		pending = pending || p.where == StagePending
	}
	if pending {
		m.unheeded = false
	}
	return ""
}

// conclude draws what follows from the facts after an event.
func (m *model) conclude(strengthBefore, startedBefore int) {
	if startedBefore > 0 && m.at(StageBound)+m.at(StageAdmitted) == 0 {
		m.ran, m.completeBy = false, time.Time{}
	}
	switch {
	case m.quorate():
		m.ran, m.failures, m.retryAt, m.completeBy = true, 0, time.Time{}, time.Time{}
	case m.gone:
	case m.ran && m.strength() < strengthBefore && m.spec.OnLoss == LossEvict:
		m.evict(func(*pod) bool { return true })
	case !m.ran && !m.completeBy.IsZero() && !m.now.Before(m.completeBy) && m.held() == 0:
		m.evict(func(p *pod) bool { return p.together })
	}
	if m.planOn && m.at(StagePlanned) == 0 && m.at(StageReserved) == 0 && m.need() <= 0 && !m.binding() {
		m.planOn = false
	}
	if m.alone() {
		m.unheeded, m.curedSinceAsked = false, false
	} else if !m.mayEnqueue() {
		m.unheeded = false // whoever opens the door wakes all
	}
}

func (m *model) evict(is func(*pod) bool) {
	for _, p := range m.pods {
		if (p.where == StageBound || p.where == StageAdmitted) && is(p) {
			p.evicted = true
		}
	}
	m.ran, m.completeBy, m.planOn = false, time.Time{}, false
}
