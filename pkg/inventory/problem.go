package inventory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// maxValue is the number of characters of a bad value that a Problem shows.
	maxValue = 64
	// maxProblems bounds the problems one source may report: a broken list of 10,000 entries is one fault.
	maxProblems = 16
)

// Problem is one thing a source says that cannot be used, or that two sources disagree on. Problems are for an event,
// a metric and one log line; none of them stops Resolve.
type Problem struct {
	// Source is the name of the source, see the Source constants.
	Source string
	// Field is what is at fault: an annotation, label or resource name, with the place in it where there is one
	// ("hami.io/node-nvidia-register[3].devmem").
	Field string
	// Value is the value found, valid UTF-8, cut to 64 characters.
	Value string
	// Reason says in a few words what is wrong and what follows from it.
	Reason string
}

// String formats the problem as one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s: %s: %q: %s", p.Source, p.Field, p.Value, p.Reason)
}

// cut makes any text fit to be shown: valid UTF-8, at most maxValue characters.
func cut(s string) string {
	if len(s) > 4*maxValue {
		s = s[:4*maxValue] // enough bytes for maxValue characters; the rest of a split one is dropped below
	}
	s = strings.ToValidUTF8(s, "")
	n := 0
	for i := range s {
		if n == maxValue {
			return s[:i]
		}
		n++
	}
	return s
}

// report collects what one source has to complain about.
type report struct {
	source   string
	problems []Problem
	dropped  int
}

func (r *report) add(field, value, reason string) {
	if len(r.problems) >= maxProblems {
		r.dropped++
		return
	}
	r.problems = append(r.problems, Problem{Source: r.source, Field: field, Value: cut(value), Reason: reason})
}

// fail reports that a whole value cannot be used. A typed error keeps its own field and value.
func (r *report) fail(field, value string, err error) {
	if spec, ok := errors.AsType[*topology.SpecError](err); ok {
		r.add(field+": "+spec.Field, spec.Value, spec.Reason)
		return
	}
	r.add(field, value, cutReason(err.Error()))
}

// cutReason keeps a message of a foreign package short and printable.
func cutReason(s string) string {
	const maxReason = 256
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return strings.ToValidUTF8(s, "")
}

// all returns the problems, with a last one that counts those left out.
func (r *report) all() []Problem {
	if r.dropped == 0 {
		return r.problems
	}
	rest := fmt.Sprintf("and %d more problems", r.dropped)
	return append(r.problems, Problem{Source: r.source, Field: r.problems[0].Field, Reason: rest})
}
