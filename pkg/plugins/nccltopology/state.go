package nccltopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	scoringKey   fwk.StateKey = Name + "/scoring"
	surveyKey    fwk.StateKey = Name + "/survey"
	shortlistKey fwk.StateKey = Name + "/shortlist"
)

// scoring is what one scheduling cycle knows of its pod. It is immutable.
type scoring struct {
	request *allocate.Request
	// plain is how many whole cards a request that any of them meet asks for (allocate.Request.Plain), 0 for any other.
	plain int
	// hinted says that nodes have hints.
	hinted bool
	fabric *topology.Fabric
	// mates is nil for a pod that has no mates with a node: a single, or the first member of its gang.
	mates *mates
	room  *room
}

// Clone returns the same state: it never changes.
func (s *scoring) Clone() fwk.StateData { return s }

func scoringOf(state fwk.CycleState) *scoring {
	return engine.ReadState[*scoring](state, scoringKey)
}

// shortlisted says that the cycle looks at the nodes of a shortlist and no others.
type shortlisted struct{}

// Clone returns the same state: nothing of it changes.
func (s *shortlisted) Clone() fwk.StateData { return s }
