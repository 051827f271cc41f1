package nccltopology

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	scoringKey fwk.StateKey = Name + "/scoring"
	surveyKey  fwk.StateKey = Name + "/survey"
)

// scoring is what one scheduling cycle knows of its pod. All but scored and at is immutable.
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
	// scored is how many nodes Score was asked about, at 1 + the position of the last one, 0 for one outside of the fabric.
	scored, at atomic.Int64
}

// Clone returns the same state: nothing of it changes that differs from copy to copy.
func (s *scoring) Clone() fwk.StateData { return s }

func scoringOf(state fwk.CycleState) *scoring {
	return engine.ReadState[*scoring](state, scoringKey)
}
