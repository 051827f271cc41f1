package gang

import (
	"fmt"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// model is a gang as plainly as it can be written: facts about pods, and every number counted anew from them whenever it
// is wanted. It does not decide. It knows which decisions are right, applies those that State took, and objects.
type model struct {
	config Config
	spec   Spec
	now    time.Time
	pods   map[ledger.PodUID]*pod
	// succeeded are all that ever did; recorded is how many did before that nobody here saw.
	succeeded map[ledger.PodUID]bool
	recorded  int
	gone, ran bool

	planOn                    bool
	canary                    ledger.PodUID
	canaryBound               bool
	refusals                  int
	progress, firstAtPermit   time.Time
	failures                  int
	retryAt, completeBy       time.Time
	excluded                  map[ledger.NodeName]time.Time
	curedSinceAsked, unheeded bool
}

// pod is what is true of one pod.
type pod struct {
	seen     Sighting
	where    Stage
	node     ledger.NodeName
	together bool
	evicted  bool
}

func newModel(c Config, s Spec, recorded int, ran bool) *model {
	return &model{
		config: c, spec: s, now: epoch, pods: map[ledger.PodUID]*pod{}, succeeded: map[ledger.PodUID]bool{},
		recorded: recorded, ran: ran, excluded: map[ledger.NodeName]time.Time{},
	}
}

// number counts the pods of which something is true.
func (m *model) number(is func(*pod) bool) int {
	n := 0
	for _, p := range m.pods {
		if is(p) {
			n++
		}
	}
	return n
}

func (m *model) at(stage Stage) int { return m.number(func(p *pod) bool { return p.where == stage }) }

func (p *pod) isAlive() bool {
	return p.where == StageBound && !p.seen.Terminating && !p.seen.NodeLost && !p.evicted
}

func (p *pod) isHeld() bool {
	return p.where == StagePlanned || p.where == StageReserved ||
		p.where == StageAdmitted && !p.seen.Terminating && !p.evicted
}

func (m *model) alive() int    { return m.number((*pod).isAlive) }
func (m *model) held() int     { return m.number((*pod).isHeld) }
func (m *model) strength() int { return m.alive() + len(m.succeeded) + m.recorded }
func (m *model) need() int     { return m.spec.MinMember - m.strength() - m.held() }
func (m *model) quorate() bool { return m.strength() >= m.spec.MinMember }
func (m *model) evicting() bool {
	return m.number(func(p *pod) bool {
		return p.evicted && !p.seen.Terminating && (p.where == StageBound || p.where == StageAdmitted)
	}) > 0
}
func (m *model) binding() bool { return m.planOn && m.canary != "" && !m.canaryBound }

func (m *model) alone() bool {
	return !m.gone && !m.evicting() && (m.quorate() || m.spec.OnLoss == LossKeep && m.ran && m.alive() > 0)
}

// mayPlan is true if a member that asks must be told to plan.
func (m *model) mayPlan() bool {
	return !m.gone && !m.evicting() && !m.alone() && m.need() > 0 && m.at(StagePending) >= m.need() &&
		m.at(StageLeaving) == 0 && !m.now.Before(m.retryAt) && !m.binding()
}

// mayEnqueue is true if pending members may stand in the queue.
func (m *model) mayEnqueue() bool {
	return !m.gone && (m.alone() ||
		!m.evicting() && m.need() > 0 && m.at(StagePending)+m.at(StageLeaving) >= m.need())
}

// verdict is what a member that asks must be told.
func (m *model) verdict(uid ledger.PodUID) VerdictKind {
	p := m.pods[uid]
	switch {
	case p == nil:
		return VerdictWait
	case p.where == StagePlanned:
		return VerdictPlanned
	case p.where != StagePending:
		return VerdictWait
	case m.alone():
		return VerdictAlone
	case m.mayPlan():
		return VerdictPlan
	default:
		return VerdictWait
	}
}

// inPlan is true if the plan cannot do without the pod.
func (m *model) inPlan(uid ledger.PodUID) bool {
	p := m.pods[uid]
	return p != nil && (p.where == StagePlanned || p.where == StageReserved || m.binding() && uid == m.canary)
}

// fails is true if e must end the plan, or count as a failure without one.
func (m *model) fails(e Event) bool {
	switch e := e.(type) {
	case MemberGone:
		return m.inPlan(e.Pod)
	case MemberSeen:
		terminal := e.Succeeded || e.Failed
		return m.inPlan(e.UID) && e.Node == "" && (terminal || e.Terminating)
	case MemberUnreserved:
		return m.inPlan(e.Pod) || m.missedAfterCanary(e.Pod)
	case MemberRefused:
		p := m.pods[e.Pod]
		return p != nil && p.where == StagePlanned && (e.Node == "" || e.Node == p.node && m.refusals == 3)
	case MemberReserved:
		p := m.pods[e.Pod]
		return p != nil && p.where == StagePlanned && e.Node != p.node
	case NodeGone:
		for uid, p := range m.pods {
			if m.inPlan(uid) && p.node == e.Node {
				return true
			}
		}
		return false
	case PlanFailed:
		return m.mayPlan() || m.need() > 0 && m.keepsOn()
	case Tick:
		late := m.at(StageReserved) > 0 && !m.now.Before(m.firstAtPermit.Add(m.timeout()))
		stuck := m.planOn && !m.binding() && (m.at(StagePlanned) > 0 || m.need() > 0)
		return late || stuck && !m.now.Before(m.progress.Add(m.config.PlanTTL))
	default:
		return false
	}
}

// keepsOn is true if members go alone though the quorum is not bound, and a plan would be possible as well.
func (m *model) keepsOn() bool {
	return m.alone() && m.at(StagePending) >= m.need() && m.at(StageLeaving) == 0 && !m.now.Before(m.retryAt) &&
		!m.binding()
}

// missedAfterCanary is true if the failed bind of a member leaves the gang one short, and no plan is on that would care.
func (m *model) missedAfterCanary(uid ledger.PodUID) bool {
	p := m.pods[uid]
	if p == nil || p.where != StageAdmitted || !p.together || m.planOn || m.gone {
		return false
	}
	need := m.need()
	if p.isHeld() {
		need++
	}
	return need > 0
}

func (m *model) timeout() time.Duration {
	if m.spec.Timeout > 0 {
		return m.spec.Timeout
	}
	return m.config.PermitTimeout
}

// failed counts a failure.
func (m *model) failed() {
	m.failures++
	wait := m.config.BackoffInitial
	for range m.failures - 1 {
		wait = min(2*wait, m.config.BackoffMax)
	}
	m.retryAt = m.now.Add(min(wait, m.config.BackoffMax))
}

// expected is what State must count.
func (m *model) expected() Counts {
	return Counts{
		Members: len(m.pods), Gated: m.at(StageGated), Pending: m.at(StagePending), Planned: m.at(StagePlanned),
		Reserved: m.at(StageReserved), Admitted: m.at(StageAdmitted), Leaving: m.at(StageLeaving), Bound: m.at(StageBound),
		Running: m.number(func(p *pod) bool {
			return p.where == StageBound && p.seen.Running && !p.seen.Terminating && !p.seen.NodeLost
		}),
		Succeeded: len(m.succeeded) + m.recorded, Failed: m.at(StageFailed), Alive: m.alive(),
	}
}

// object returns what is wrong with the gang as it stands after an event, "" if nothing is.
func (m *model) object() string {
	waiting, planned := m.at(StageReserved), m.at(StagePlanned)
	switch {
	case !m.retryAt.IsZero() && waiting+planned > 0:
		return "holds something while it backs off"
	case m.gone && waiting+planned > 0:
		return "holds something for a group that is gone"
	case waiting+planned > 0 && !m.planOn:
		return "holds something without a plan"
	case waiting > 0 && planned == 0 && m.need() <= 0 && !m.binding():
		return "all have arrived and nobody is let go"
	case m.unheeded && m.mayPlan():
		return "a plan could be made, something has changed, and nobody was activated"
	default:
		return ""
	}
}

func (m *model) String() string {
	return fmt.Sprintf("%+v need %d plan %v canary %q", m.expected(), m.need(), m.planOn, m.canary)
}
