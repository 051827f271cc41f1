package gang

import "github.com/gputopology/gpu-topology-scheduler/pkg/ledger"

// Action is something that the owner of the State must do. Actions are carried out in their order, before the next
// event. Their pods are in member order.
type Action interface{ action() }

type (
	// Release gives the cards planned for pods back. None of them was ever allowed, so no bind is on its way.
	Release struct{ Pods []ledger.PodUID }

	// Reject ends the wait of pods at Permit. The Unreserve of each follows.
	Reject struct {
		Pods   []ledger.PodUID
		Reason string
	}

	// Allow ends the wait of pods at Permit: they go on to bind. In answer to the MemberReserved of the pod itself, it
	// lets Permit return Success.
	Allow struct{ Pods []ledger.PodUID }

	// Activate has the scheduling queue try pods now. It is harmless for pods that are tried already.
	Activate struct{ Pods []ledger.PodUID }

	// Evict removes bound pods through the eviction API. It is repeated while they are neither terminating nor gone.
	Evict struct {
		Pods   []ledger.PodUID
		Reason string
	}
)

func (Release) action()  {}
func (Reject) action()   {}
func (Allow) action()    {}
func (Activate) action() {}
func (Evict) action()    {}
