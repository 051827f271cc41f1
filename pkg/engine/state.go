package engine

import fwk "k8s.io/kube-scheduler/framework"

// StateReader is what the cycle states of a pod, a placement and a group have in common.
type StateReader interface {
	Read(key fwk.StateKey) (fwk.StateData, error)
}

// ReadState returns what a plugin wrote into a cycle state: the zero value for a nil state, and for data that is missing or
// of another type.
func ReadState[T fwk.StateData](state StateReader, key fwk.StateKey) T {
	var none T
	if state == nil {
		return none
	}
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
