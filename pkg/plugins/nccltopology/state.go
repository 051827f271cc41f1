package nccltopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	scoringKey fwk.StateKey = Name + "/scoring"
	surveyKey  fwk.StateKey = Name + "/survey"
)

// scoring is what one scheduling cycle knows of its pod. It is immutable.
type scoring struct {
	request *allocate.Request
	fabric  *topology.Fabric
	// mates is nil for a pod that has no mates with a node: a single, or the first member of its gang.
	mates *mates
	room  *room
}

// Clone returns the same state: it never changes.
func (s *scoring) Clone() fwk.StateData { return s }

// reader is what the cycle states of a pod, a placement and a group have in common.
type reader interface {
	Read(key fwk.StateKey) (fwk.StateData, error)
}

// read returns the zero value for data that is missing or of another type.
func read[T fwk.StateData](state reader, key fwk.StateKey) T {
	var none T
	data, err := state.Read(key)
	if err != nil {
		return none
	}
	typed, ok := data.(T)
	if !ok {
		return none
	}
	return typed
}

func scoringOf(state fwk.CycleState) *scoring {
	if state == nil {
		return nil
	}
	return read[*scoring](state, scoringKey)
}
