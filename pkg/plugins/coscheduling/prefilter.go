package coscheduling

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// planRounds is how often a plan is made anew when informer events change the cluster, or the gang, between reading it and
// taking the cards.
const planRounds = 3

// PreFilter gives a planned member its node, and plans the gang of a member that has none.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if book.NamesBoth(pod) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, bothGroups)
	}
	if _, member := book.KeyOf(pod); !member {
		return nil, p.watchTurn(state, pod)
	}
	p.engine.Placing()
	if !p.engine.GangsSynced() {
		return nil, fwk.AsStatus(engine.ErrNotSynced)
	}
	state.Write(cycleKey, &cycle{told: true}) // until something better is known
	var last error
	for range planRounds {
		a := p.book.Admit(pod)
		switch a.Kind {
		case gang.VerdictAlone:
			status := p.watchTurn(state, pod)
			if status.IsSkip() {
				state.Write(cycleKey, &cycle{}) // says to PostFilter that there is no plan to fail
			}
			return nil, status
		case gang.VerdictPlanned:
			state.Write(cycleKey, &cycle{planID: a.PlanID, node: string(a.Node)})
			return &fwk.PreFilterResult{NodeNames: sets.New(string(a.Node))}, nil
		case gang.VerdictWait:
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, a.Reason)
		case gang.VerdictPlan:
		}
		status, retry := p.plan(ctx, state, pod, &a, nodes)
		if status != nil {
			return nil, status
		}
		last = retry
	}
	if last == nil {
		last = fmt.Errorf("the plan of the gang was given back as soon as it was made")
	}
	return nil, fwk.AsStatus(last) // not Unschedulable: nothing need happen any more for another try to succeed
}

// watchTurn prepares Filter for a pod without a plan. While no gang has a turn, or where the pod takes no cards, Filter has
// nothing to say.
func (p *Plugin) watchTurn(state fwk.CycleState, pod *v1.Pod) *fwk.Status {
	turn := p.book.Withheld()
	if turn == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	if !request.TakesCards(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(cycleKey, &cycle{turn: turn, priority: corev1helpers.PodPriority(pod), created: p.book.CreatedOf(pod)})
	return nil
}

// PreFilterExtensions returns nil: what pods of a node come and go changes no answer.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter keeps a pod off the nodes that are kept for another gang.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil || c.turn == nil || node.Node() == nil {
		return nil
	}
	if c.turn.Bars(pod, c.priority, c.created, ledger.NodeName(node.Node().Name)) {
		c.barred.Store(true)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) were kept for gang %s, which failed to fit %d times", c.turn.Group, c.turn.Failures))
	}
	return nil
}

// PostFilter hears of members whose cycle failed. It stands before preemption, and ends it for them: a victim would make
// room for one member of a gang that does not fit. A member that did not fit waits for the first of its gang from then on.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c != nil && c.barred.Load() {
		p.book.Barred(pod)
	}
	if _, member := book.KeyOf(pod); !member || c != nil && c.planID == "" && !c.told {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	switch {
	case c == nil:
		p.book.Refused(pod, "", causeOf(statuses))
	case !c.told:
		p.book.Refused(pod, c.node, statuses.Get(c.node).Message())
	case p.gated() && p.book.Follow(pod):
		// The scheduler puts a pod whose attempt failed aside without PreEnqueue, unless somebody wanted it tried meanwhile.
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// causeOf is what another plugin's PreFilter said: the framework gives it as the status of every node.
func causeOf(statuses fwk.NodeToStatusReader) string {
	if statuses != nil {
		if message := statuses.Get("").Message(); message != "" {
			return message
		}
	}
	return "another plugin refused it for every node"
}
