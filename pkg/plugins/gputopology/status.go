package gputopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// foreignNote says that a part of the node is held by pods that do not say which cards they use.
const foreignNote = "; some cards are set aside for pods without an allocation record, such as those of another scheduler"

// refuse maps a rejection to a status. The framework lists every distinct reason with its number of nodes, so the reason
// is the short one; the log has the rest. A request that the node could meet if its pods left may succeed later or after
// preemption; one that it could not meet is beyond what any pod's end can cure.
func refuse(rejection *allocate.Rejection, a *ledger.NodeGPUAllocation) *fwk.Status {
	code := fwk.Unschedulable
	if rejection.Permanent {
		code = fwk.UnschedulableAndUnresolvable
	}
	reason := "node(s) had " + rejection.Short()
	if !a.Foreign.Empty() || len(a.ForeignMIG()) > 0 {
		reason += foreignNote
	}
	return fwk.NewStatus(code, reason)
}
