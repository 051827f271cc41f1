package topologyspread

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// groupStates numbers the states of nodes in the cycles of native pod groups. There the scheduler puts each member that has found a
// node on it in the snapshot alone, takes the members away in reverse order, and leaves the node's generation as it was
// (k8s.io/kubernetes, pkg/scheduler/backend/cache, Snapshot.AssumePod and ForgetPod). What is on the node then is what its generation
// says and the members above, which its last pod stands for: every assumption makes a pod object of its own.
//
// The mutex of the plugin's cache guards it: the cache asks for generations while it holds that.
type groupStates struct {
	numbers map[groupState]int64
	// last is the number that was given last: they go down from the highest, which no generation reaches.
	last int64
}

// groupState keeps its pod from being freed, so that no other one can have the same address.
type groupState struct {
	generation int64
	last       *v1.Pod
}

func newGroupStates() *groupStates {
	return &groupStates{numbers: map[groupState]int64{}, last: math.MaxInt64}
}

// number returns the generation of a node whose last pod cannot be a member of a group of the namespace, and else a number that no
// other state has. It keeps those of some states for each of so many nodes; a state that is forgotten gets a new number.
func (s *groupStates) number(info fwk.NodeInfo, namespace string, nodes int) int64 {
	pods, generation := info.GetPods(), info.GetGeneration()
	if len(pods) == 0 {
		return generation
	}
	last := pods[len(pods)-1].GetPod()
	if last.Spec.SchedulingGroup == nil || last.Namespace != namespace {
		return generation
	}
	state := groupState{generation, last}
	number, known := s.numbers[state]
	if !known {
		if len(s.numbers) >= 4*nodes {
			clear(s.numbers)
		}
		s.last--
		number = s.last
		s.numbers[state] = number
	}
	return number
}
