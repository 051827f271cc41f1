package record

import (
	"errors"
	"fmt"
)

// ErrNoRecord is returned for a pod without the annotation.
var ErrNoRecord = errors.New("the pod has no allocation record")

// MismatchError is a readable record that cannot be this pod's.
type MismatchError struct {
	// Field is what differs: "node", or the kind of thing of which the record holds too little.
	Field string
	// Record and Pod are the two sides.
	Record, Pod string
}

// Error names the field and both sides.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: the record says %.64q, the pod %.64q", e.Field, e.Record, e.Pod)
}

// DialectError is a choice that cannot be said in a dialect.
type DialectError struct {
	// Dialect is the dialect's name.
	Dialect string
	// Reason says what stands in the way.
	Reason string
}

// Error names the dialect and the reason.
func (e *DialectError) Error() string {
	return fmt.Sprintf("record dialect %.64q: %s", e.Dialect, e.Reason)
}
