package gputopology

import (
	"maps"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	requestKey     fwk.StateKey = Name + "/request"
	reservationKey fwk.StateKey = Name + "/reservation"
)

// requestState is what one scheduling cycle knows of its pod.
type requestState struct {
	request *allocate.Request
	// reasons are those of plainReasons; a request of len(reasons) whole cards needs no more than a count.
	reasons []string
	// terminating is set where pods that are being deleted held GPUs on some node when the cycle began.
	terminating bool
	// member is set for a pod of a gang: it may have a plan, which is then its only choice.
	member bool
	// adjusted holds the nodes on which a preemption dry run has taken pods away or put pods back; nil for none.
	adjusted map[ledger.NodeName]*ledger.NodeGPUAllocation
	// removed are the pods that a dry run has taken away and not put back.
	removed map[ledger.PodUID]bool
	// promised are the nodes on which a nominated pod waits for cards that are not free yet: what is free there, or comes
	// free, may be what it was promised.
	promised map[ledger.NodeName]bool
}

// Clone copies what AddPod and RemovePod change; allocations themselves are immutable.
func (s *requestState) Clone() fwk.StateData {
	clone := *s
	clone.adjusted, clone.removed, clone.promised = maps.Clone(s.adjusted), maps.Clone(s.removed), maps.Clone(s.promised)
	return &clone
}

// adjust makes the cycle see the node as given.
func (s *requestState) adjust(a *ledger.NodeGPUAllocation) {
	if a == nil {
		return
	}
	if s.adjusted == nil {
		s.adjusted = map[ledger.NodeName]*ledger.NodeGPUAllocation{}
	}
	s.adjusted[a.Name] = a
}

func (s *requestState) promise(node ledger.NodeName) {
	if s.promised == nil {
		s.promised = map[ledger.NodeName]bool{}
	}
	s.promised[node] = true
}

func (s *requestState) remove(uid ledger.PodUID) {
	if s.removed == nil {
		s.removed = map[ledger.PodUID]bool{}
	}
	s.removed[uid] = true
}

// ReservationState is what Reserve took, so that Bind and other plugins address exactly it. It is immutable.
type ReservationState struct {
	// NodeName is the node that holds the cards.
	NodeName ledger.NodeName
	// Choice is the set of cards, for the pod and for each of its containers.
	Choice allocate.Choice
	// Topology is the node's graph that the choice was made on.
	Topology *topology.Node
	// Plan is the name of the gang's plan that made the choice, "" where Reserve did; Gang and Rank go with it.
	Plan, Gang string
	// Rank is the pod's rank in its gang, nil if unknown.
	Rank *int32
}

// Clone returns the same state: it never changes.
func (s *ReservationState) Clone() fwk.StateData { return s }

// requestOf returns nil for a pod without GPUs and for a state that PreFilter has not seen.
func requestOf(state fwk.CycleState) *requestState {
	return engine.ReadState[*requestState](state, requestKey)
}

// Reservation returns what Reserve took in this cycle, nil if nothing.
func Reservation(state fwk.CycleState) *ReservationState {
	return engine.ReadState[*ReservationState](state, reservationKey)
}
