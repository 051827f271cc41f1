package book

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Answer is what a member is told at Permit.
type Answer uint8

// The answers.
const (
	// AnswerGo lets the member be bound.
	AnswerGo Answer = iota
	// AnswerWait has it wait for its siblings.
	AnswerWait
	// AnswerRefuse rejects it.
	AnswerRefuse
)

// Completes reports whether the gang of the pod is let go once Reserved is called for it, and how many members wait for that.
func (b *Book) Completes(pod *v1.Pod) (waiting int, yes bool) {
	key, named := KeyOf(pod)
	if !named {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil || g.state == nil {
		return 0, false
	}
	return g.state.Completes(ledger.PodUID(pod.UID))
}

// Reserved says that a member asks for leave to be bound. timeout goes with AnswerWait, reason with AnswerRefuse.
func (b *Book) Reserved(pod *v1.Pod, node string) (answer Answer, timeout time.Duration, reason string) {
	key, named := KeyOf(pod)
	if !named {
		return AnswerGo, 0, ""
	}
	uid := ledger.PodUID(pod.UID)
	b.mu.Lock()
	defer b.mu.Unlock()
	g, m := b.groups[key], b.members[uid]
	switch {
	case m == nil || g == nil:
		return AnswerRefuse, 0, "gang " + key.String() + ": the pod is gone"
	case g.state == nil && g.known && g.facts.Singles:
		return AnswerGo, 0, ""
	case g.state == nil:
		return AnswerRefuse, 0, "gang " + key.String() + ": its PodGroup is gone"
	}
	delete(b.coming, uid)
	delete(b.unsettled, uid)
	b.apply(g, gang.MemberReserved{Pod: uid, Node: ledger.NodeName(node)})
	delete(b.unsettled, uid) // the answer itself is the verdict
	stage, _ := g.state.Stage(uid)
	if stage == gang.StageAdmitted || stage == gang.StageBound {
		return AnswerGo, 0, ""
	}
	if stage == gang.StageReserved {
		if g.started == nil {
			now := b.clock.Now()
			g.started = &now
		}
		return AnswerWait, b.timeout(g), ""
	}
	return AnswerRefuse, 0, b.reasonOf(g, "the plan was given up")
}

func (b *Book) timeout(g *group) time.Duration {
	if g.facts.Spec.Timeout > 0 {
		return g.facts.Spec.Timeout
	}
	return b.settings.Gang.PermitTimeout
}

func (b *Book) reasonOf(g *group, otherwise string) string {
	if reason := g.state.Reason(); reason != "" {
		return reason
	}
	return "gang " + g.key.String() + ": " + otherwise
}

// Refused says that a member's own cycle failed before Reserve: the node that was planned for it refused it, or, where node
// is "", it would be refused anywhere. A gang whose first member is refused before anything is planned fails with that.
func (b *Book) Refused(pod *v1.Pod, node, reason string) {
	b.with(pod, func(g *group, m *member) {
		if m.plan != nil {
			b.apply(g, gang.MemberRefused{Pod: m.uid(), Node: ledger.NodeName(node), Reason: reason})
			return
		}
		if lead, ok := g.state.Lead(); node == "" && ok && lead == m.uid() && !g.state.Alone() {
			b.apply(g, gang.PlanFailed{Reason: "gang " + g.key.String() + ": pod " + m.pod.Name + " was refused: " + reason})
		}
	})
}

// Unreserved says that a member was rolled back after Reserve. It may come any number of times; planID is the name of the
// plan that it was reserved by, empty for a member that went alone. One of another plan than the present one comes too late
// to say anything. It returns where the gang had the member until now, StageLeaving where the gang ended with its PodGroup;
// false where it had nothing to do with the reservation.
func (b *Book) Unreserved(pod *v1.Pod, planID, reason string) (was gang.Stage, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid := ledger.PodUID(pod.UID)
	m := b.members[uid]
	switch {
	case m == nil, m.plan != nil && m.plan.ID != planID:
		return 0, false
	case m.group.state == nil:
		return gang.StageLeaving, !m.group.known
	}
	g := m.group
	was, known = g.state.Stage(uid)
	delete(b.unsettled, uid)
	b.apply(g, gang.MemberUnreserved{Pod: uid, Reason: reason})
	if stage, ok := g.state.Stage(uid); m.plan != nil && ok && stage == gang.StagePending {
		b.release(uid)
	}
	return was, known
}

// Bound says that the member's Binding was committed.
func (b *Book) Bound(pod *v1.Pod, node string) {
	b.with(pod, func(g *group, m *member) {
		m.sighting.Node, m.plan = ledger.NodeName(node), nil
		b.place(m)
		b.apply(g, gang.MemberBound{Pod: m.uid(), Node: ledger.NodeName(node)})
	})
}

// PlanFailed says that no plan was found. It reports whether the gang should be given a turn.
func (b *Book) PlanFailed(key GroupKey, reason string) (turn bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil || g.state == nil {
		return false
	}
	b.apply(g, gang.PlanFailed{Reason: reason})
	return b.wantsTurn(g)
}

// with calls f for the member that a pod is, if its group is a gang.
func (b *Book) with(pod *v1.Pod, f func(*group, *member)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.members[ledger.PodUID(pod.UID)]; m != nil && m.group.state != nil {
		f(m.group, m)
	}
}
