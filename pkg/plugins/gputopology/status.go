package gputopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// shortReason is how the reason of every refusal for lack of cards begins: the framework puts a number before it.
const shortReason = "node(s) had "

// foreignNote says that a part of the node is held by pods that do not say which cards they use.
const foreignNote = "; some cards are set aside for pods without an allocation record, such as those of another scheduler"

// refuse maps a rejection to a status. The framework lists every distinct reason with its number of nodes, so the reason
// is the short one; the log has the rest. A request that the node could meet if its pods left may succeed later or after
// preemption; one that it could not meet is beyond what any pod's end can cure.
//
// reason is one reason, in a slice that the status keeps where there is nothing to add: thousands of nodes share it.
func (p *Plugin) refuse(s *requestState, reason []string, permanent bool, a *ledger.NodeGPUAllocation) *fwk.Status {
	code, notes := fwk.Unschedulable, ""
	switch {
	case permanent:
		code = fwk.UnschedulableAndUnresolvable
	case s.terminating && p.engine.Observer().Terminating(string(a.Name)):
		notes = engine.TerminatingNote
	}
	if !a.Foreign.Empty() || len(a.ForeignMIG()) > 0 {
		notes += foreignNote
	}
	if notes != "" {
		reason = []string{reason[0] + notes}
	}
	return fwk.NewStatus(code, reason...)
}

// plainReasons returns the reasons of nodes that have 0, 1, ... of the free cards that the request wants, nil for a request
// that is not plain. In a full cluster nearly every node gives one of them.
func plainReasons(asked *allocate.Request) []string {
	total, ok := asked.Plain()
	if !ok || total > topology.MaxCards {
		return nil
	}
	reasons := make([]string, total)
	for have := range reasons {
		reasons[have] = shortReason + allocate.PlainShort(have, total)
	}
	return reasons
}
