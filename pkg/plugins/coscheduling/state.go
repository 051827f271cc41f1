package coscheduling

import (
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

const cycleKey fwk.StateKey = Name + "/cycle"

// cycle is what one scheduling cycle knows of its pod.
type cycle struct {
	// planID and node are those of a planned member, "" for any other pod.
	planID, node string
	// told is set for a member that this plugin refused: the book knows.
	told bool
	// turn is the turn that was on when the cycle began, for a pod that takes cards; nil for any other.
	turn     *book.Withheld
	priority int32
	created  time.Time
	// barred becomes true when the turn kept the pod off a node.
	barred atomic.Bool
}

// Clone returns the same state: only barred changes, and it may be set from any copy.
func (c *cycle) Clone() fwk.StateData { return c }

// cycleOf returns nil for a state that PreFilter has not seen.
func cycleOf(state fwk.CycleState) *cycle {
	return engine.ReadState[*cycle](state, cycleKey)
}
