package coscheduling

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// Reserve does nothing: the plan holds the cards, and GPUTopology takes them over.
func (*Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve tells the book that a member was rolled back. It may be called any number of times, for pods that never reserved
// and after the bind.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if pod == nil {
		return
	}
	planID := ""
	if c := cycleOf(state); c != nil {
		planID = c.planID
	}
	p.engine.Led(ledger.PodUID(pod.UID))
	if stage, known := p.book.Unreserved(pod, planID, "it was rolled back after its reservation"); known {
		engine.AttemptOf(state).Stood(stage)
	}
}

// Permit lets a member wait until all its siblings have been through their own cycles. The last of these cycles waits itself
// before that, while too many Bindings queue up: what happens to the gang meanwhile, happens to one that is still held whole. So does
// the cycle of a pod of no gang that takes cards: a cycle is over in a third of a millisecond, so a thousand pods would be decided, and
// queue up for the API server, before the next of a higher priority is looked at.
func (p *Plugin) Permit(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) (*fwk.Status, time.Duration) {
	attempt := engine.AttemptOf(state)
	waiting, last := p.book.Completes(pod)
	switch {
	case last:
		p.engine.Pace(ctx, waiting+1)
	case !book.InGroup(pod) && request.TakesCards(pod):
		p.engine.Pace(ctx, engine.SinglesAhead)
	}
	switch answer, timeout, reason := p.book.Reserved(pod, nodeName); answer {
	case book.AnswerWait:
		p.engine.Waits(ctx, attempt)
		return fwk.NewStatus(fwk.Wait), timeout
	case book.AnswerRefuse:
		attempt.Refused()
		return fwk.NewStatus(fwk.Unschedulable, reason), 0
	case book.AnswerGo:
		attempt.Permitted()
		if last {
			p.engine.Leads(ledger.PodUID(pod.UID), waiting)
		}
	}
	return nil, 0
}

// PostBind tells the book that a member is bound.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) {
	p.book.Bound(pod, nodeName)
	p.engine.Led(ledger.PodUID(pod.UID))
}

// SignPod keeps members out of batching, which would carry one pod's list of nodes over to the next: each member has a node
// of its own. Other pods add nothing. None is batched that is queued while a turn is on, since which node is kept then depends on
// priority and age; from those queued before, Filter keeps the nodes.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if book.InGroup(pod) || p.book.Withheld() != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of gangs are not batched")
	}
	return nil, nil
}
