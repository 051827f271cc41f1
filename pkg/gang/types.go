package gang

import (
	"fmt"
	"time"
)

// GroupUID is the UID of a PodGroup. A group that is created again under the same name is another group.
type GroupUID string

// Config is what the scheduler's arguments say about all gangs. A duration of zero or less means: none.
type Config struct {
	// PermitTimeout bounds the wait of a reserved member for its siblings, where Spec.Timeout does not.
	PermitTimeout time.Duration
	// PlanTTL is how long a plan is held with members missing and none arriving.
	PlanTTL time.Duration
	// BackoffInitial is the wait after the first failure. It doubles with each further one, up to BackoffMax.
	BackoffInitial time.Duration
	BackoffMax     time.Duration
}

// Spec is what a PodGroup says.
type Spec struct {
	// MinMember is the quorum, >= 1.
	MinMember int
	// Timeout of the wait at Permit; 0: Config.PermitTimeout.
	Timeout time.Duration
	// OnLoss is what happens when a gang that ran falls below its quorum.
	OnLoss LossPolicy
}

// LossPolicy says what happens when a gang that ran falls below its quorum.
type LossPolicy uint8

const (
	// LossReplace plans the missing members together, beside those that are left.
	LossReplace LossPolicy = iota
	// LossKeep lets the gang go on; members that come are scheduled one by one.
	LossKeep
	// LossEvict evicts the members that are left. Those that come then are a fresh gang.
	LossEvict
)

// String returns the policy as users write it.
func (p LossPolicy) String() string {
	return nameOf(int(p), []string{"Replace", "Keep", "Evict"})
}

// Phase is where a gang stands. doc.go draws how phases follow each other.
type Phase uint8

const (
	// PhaseForming holds nothing: members are missing, or no plan was made yet, or the last one failed.
	PhaseForming Phase = iota
	// PhasePlanned holds the cards of all members it needs; they pass through their own cycles.
	PhasePlanned
	// PhaseAdmitting binds: the canary alone, then all others.
	PhaseAdmitting
	// PhaseRunning has its quorum bound.
	PhaseRunning
	// PhaseBroken ran and fell below its quorum.
	PhaseBroken
	// PhaseFinished has its quorum succeeded, and no member bound or in flight.
	PhaseFinished
)

// String returns the phase in lower case.
func (p Phase) String() string {
	return nameOf(int(p), []string{"forming", "planned", "admitting", "running", "broken", "finished"})
}

// Stage is where a member stands.
type Stage uint8

const (
	// StageGated has a scheduling gate.
	StageGated Stage = iota
	// StagePending waits for a plan, or for its turn when it goes alone.
	StagePending
	// StagePlanned has a node and cards held for it.
	StagePlanned
	// StageReserved passed its own cycle and waits at Permit.
	StageReserved
	// StageAdmitted was allowed at Permit: its bind is on its way.
	StageAdmitted
	// StageLeaving was rejected at Permit; its Unreserve has not come yet.
	StageLeaving
	// StageBound has a node, according to the API.
	StageBound
	// StageSucceeded ended well.
	StageSucceeded
	// StageFailed ended badly.
	StageFailed

	stageCount = int(StageFailed) + 1
)

// String returns the stage in lower case.
func (s Stage) String() string {
	return nameOf(int(s), []string{
		"gated", "pending", "planned", "reserved", "admitted", "leaving", "bound", "succeeded", "failed",
	})
}

// Counts are numbers of members. Each member that exists is in exactly one of Gated, Pending, Planned, Reserved,
// Admitted, Leaving, Bound, Failed, or has succeeded.
type Counts struct {
	// Members are those that exist.
	Members                                              int
	Gated, Pending, Planned, Reserved, Admitted, Leaving int
	// Bound are those on a node that are not terminal: also terminating ones, and those on a lost node.
	Bound int
	// Running are the bound ones whose containers run, that are not terminating, and whose node is not lost.
	Running int
	// Succeeded are all that ever did, also those deleted since.
	Succeeded int
	// Failed are those that exist and failed.
	Failed int
	// Alive are the bound ones that count: not terminating, node not lost, not being evicted.
	Alive int
}

// Status is what the PodGroup's status shows.
type Status struct {
	Phase                      string
	Running, Succeeded, Failed int32
}

// The phases of Status, in the words of the scheduling.x-k8s.io/v1alpha1 API.
const (
	StatusPending       = "Pending"
	StatusPreScheduling = "PreScheduling"
	StatusScheduling    = "Scheduling"
	StatusScheduled     = "Scheduled"
	StatusRunning       = "Running"
	StatusFinished      = "Finished"
	StatusFailed        = "Failed"
)

func nameOf(i int, names []string) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%d", i)
}
