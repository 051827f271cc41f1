package ledger

import (
	"errors"
	"fmt"
)

// ErrReleased is returned for a UID whose pod is gone: a pod that was deleted or reached a terminal phase never holds
// cards again.
var ErrReleased = errors.New("the pod was released: it is deleted or terminal")

// ErrNotHeld is returned by NodeGPUAllocation.Without for a holding that the allocation does not contain.
var ErrNotHeld = errors.New("the node's state does not contain the holding")

// InvalidError is a holding that cannot be true whatever the cluster looks like.
type InvalidError struct {
	// Field is the path of the field at fault, Value what stands in it, Reason what is wrong with it.
	Field, Value, Reason string
}

// Error names the field, the value (its first 64 characters) and the reason.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %.64q: %s", e.Field, e.Value, e.Reason)
}

// ConflictError says that a holding cannot be assumed now. Nothing was changed.
type ConflictError struct {
	// UID and Node are the holding's.
	UID  PodUID
	Node NodeName
	// HeldBy is a pod that stands in the way: UID itself if the pod already holds something else, another pod if
	// that one holds a wanted card, empty if no pod is to blame (the card or the node is closed).
	HeldBy PodUID
	// Err is the cause.
	Err error
}

// Error names the pod, the node, the cause and the holder.
func (e *ConflictError) Error() string {
	s := fmt.Sprintf("pod %s cannot take cards of node %s: %v", e.UID, e.Node, e.Err)
	if e.HeldBy != "" && e.HeldBy != e.UID {
		s += " (held by pod " + string(e.HeldBy) + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *ConflictError) Unwrap() error { return e.Err }

// The causes of a ConflictError that do not come from package allocate.
var (
	errNoNode     = errors.New("the node is not known")
	errNoFacts    = errors.New("nothing is known of the node's GPUs")
	errHoldsOther = errors.New("the pod already holds other cards")
)

// quarantineError is a node in quarantine. Its text is made when somebody reads it, not under the ledger's mutex.
type quarantineError struct {
	a *NodeGPUAllocation
}

func (e *quarantineError) Error() string { return "the node is in quarantine: " + e.a.Quarantine() }
