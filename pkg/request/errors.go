package request

import "fmt"

// maxValue is the number of characters of a refused value that an error repeats.
const maxValue = 64

// InvalidError is a wish that was refused: the pod stays unplaced until it is deleted, since what it asks for cannot
// be changed.
type InvalidError struct {
	// Field is the path of the value in the pod, with containers by name:
	// "spec.containers{main}.resources.limits[nvidia.com/gpu]" or "metadata.annotations[gpu-fraction]".
	Field string
	// Value is what stood there, cut to 64 characters.
	Value string
	// Reason says what is wrong with it.
	Reason string
}

// Error names the field, the value and the reason.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: %.64q: %s", e.Field, e.Value, e.Reason)
}

func invalid(field, value, reason string) *InvalidError {
	return &InvalidError{Field: field, Value: cut(value), Reason: reason}
}

// cut returns the first maxValue characters; the result shares no memory with a long s.
func cut(s string) string {
	if len(s) <= maxValue {
		return s
	}
	n := 0
	for i := range s {
		if n == maxValue {
			return string([]byte(s[:i]))
		}
		n++
	}
	return s
}
