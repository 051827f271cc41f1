package gang

import "github.com/gputopology/gpu-topology-scheduler/pkg/ledger"

// Event is something that happened to a gang. doc.go says what each does in each phase.
type Event interface{ event() }

// Sighting is what the API shows of a member.
type Sighting struct {
	UID ledger.PodUID
	// Name and Rank order the members: Rank, then Name, then UID. A Rank < 0 is not known and comes after known ones.
	Name string
	Rank int
	// Gated is true while the pod has a scheduling gate.
	Gated bool
	// Node is "" while the pod is not bound.
	Node ledger.NodeName
	// Running is true in pod phase Running.
	Running bool
	// Succeeded and Failed are the terminal phases.
	Succeeded, Failed bool
	// Terminating is true once the pod has a deletion timestamp.
	Terminating bool
	// NodeLost is true while the pod's node is gone or unreachable.
	NodeLost bool
	// Together is true for a bound pod whose record names a plan: it was bound as a part of its gang. It is read when the
	// pod is seen first, so that a gang that another process began to bind is not left half bound.
	Together bool
}

// Placed is a member's place in a plan.
type Placed struct {
	Pod  ledger.PodUID
	Node ledger.NodeName
}

type (
	// SpecChanged brings what the PodGroup says now.
	SpecChanged struct{ Spec Spec }

	// MemberSeen brings what the API shows of a member now. A member never goes back from bound to unbound, nor from a
	// terminal phase: a sighting that says so is older than what is known.
	MemberSeen struct{ Sighting }

	// MemberGone says that the member's object was deleted.
	MemberGone struct{ Pod ledger.PodUID }

	// PlanMade says that the cards of Members are held, on account of a VerdictPlan. Members is a subset of the
	// verdict's candidates, Need long. A plan that the gang has moved on from is released at once.
	PlanMade struct {
		ID      string
		Members []Placed
	}

	// PlanFailed says that a plan was wanted and nothing was taken. Reason is a whole sentence.
	PlanFailed struct{ Reason string }

	// MemberReserved says that a member passed Reserve on Node and asks at Permit. The answer is in the actions: Allow
	// or Reject of this pod; neither means that it waits.
	MemberReserved struct {
		Pod  ledger.PodUID
		Node ledger.NodeName
	}

	// MemberRefused says that a member's own cycle failed before Reserve. Node is the node that refused it, "" where
	// the refusal is not one node's: then another node would not help, and the plan has failed.
	MemberRefused struct {
		Pod    ledger.PodUID
		Node   ledger.NodeName
		Reason string
	}

	// MemberUnreserved says that Unreserve was called for a member. It may come any number of times.
	MemberUnreserved struct {
		Pod    ledger.PodUID
		Reason string
	}

	// MemberBound says that a member's bind succeeded.
	MemberBound struct {
		Pod  ledger.PodUID
		Node ledger.NodeName
	}

	// NodeGone says that a node was removed or may not be planned on any more. Whether a bound member on it still
	// counts is for its Sighting to say.
	NodeGone struct{ Node ledger.NodeName }

	// GroupGone says that the PodGroup was deleted. Nothing but bound members is left of the gang.
	GroupGone struct{}

	// Cured says that something happened that may make a plan succeed.
	Cured struct{}

	// Urgent ends the backoff: another gang, which this one goes before, is about to be tried.
	Urgent struct{}

	// Tick says that time has passed. It is due at State.Next.
	Tick struct{}
)

func (SpecChanged) event()      {}
func (MemberSeen) event()       {}
func (MemberGone) event()       {}
func (PlanMade) event()         {}
func (PlanFailed) event()       {}
func (MemberReserved) event()   {}
func (MemberRefused) event()    {}
func (MemberUnreserved) event() {}
func (MemberBound) event()      {}
func (NodeGone) event()         {}
func (GroupGone) event()        {}
func (Cured) event()            {}
func (Urgent) event()           {}
func (Tick) event()             {}
