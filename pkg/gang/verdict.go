package gang

import "github.com/gputopology/gpu-topology-scheduler/pkg/ledger"

// VerdictKind says what a member's PreFilter does.
type VerdictKind uint8

const (
	// VerdictWait means not now, for Reason.
	VerdictWait VerdictKind = iota
	// VerdictAlone means like a pod of no gang.
	VerdictAlone
	// VerdictPlanned means on Node only, by plan PlanID.
	VerdictPlanned
	// VerdictPlan means that Need of the Candidates are to be planned now, and PlanMade or PlanFailed is to be told.
	VerdictPlan
)

// String returns the kind in lower case.
func (k VerdictKind) String() string {
	return nameOf(int(k), []string{"wait", "alone", "planned", "plan"})
}

// Verdict is the answer to a member that wants to be scheduled.
type Verdict struct {
	Kind VerdictKind
	// Node and PlanID are those of VerdictPlanned.
	Node   ledger.NodeName
	PlanID string
	// Candidates, in member order, are for VerdictPlan; at least Need of them, and Need >= 1.
	Candidates []ledger.PodUID
	Need       int
	// Reason of VerdictWait is a whole sentence.
	Reason string
}
