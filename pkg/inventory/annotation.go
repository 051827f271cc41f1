package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// readAnnotation reads gputopology.io/topology. A list without cards is no answer. Where the annotation says when it
// was observed and that is too long ago, its cards are closed, not forgotten: pods that hold them keep them.
func readAnnotation(in *input, r *report) (topology.Spec, bool) {
	const key = v1alpha1.TopologyAnnotation
	value, ok := in.node.Annotations[key]
	if !ok {
		return topology.Spec{}, false
	}
	spec, err := v1alpha1.ParseTopology(value)
	if err != nil {
		failWire(r, key, value, err)
		return topology.Spec{}, false
	}
	if len(spec.Cards) == 0 {
		r.add(key, value, "lists no cards")
		return topology.Spec{}, false
	}
	for i := range spec.Cards {
		c := &spec.Cards[i]
		c.Product, c.PCIeSwitch, c.PCIeRoot = intern(c.Product), intern(c.PCIeSwitch), intern(c.PCIeRoot)
		if c.Fault != "" {
			r.add(key+": "+cardField(i), c.UUID, "card is closed: "+c.Fault)
		}
	}
	if in.maxAge > 0 {
		in.judgeAge(value, spec.Cards, r)
	}
	return spec, true
}

// judgeAge closes all cards of an annotation that is stale: observed longer than maxAge ago, or so far ahead of this
// clock that its age cannot be told. One without a time never is.
func (in *input) judgeAge(value string, cards []topology.Card, r *report) {
	var t struct {
		ObservedAt string `json:"observedAt"`
	}
	// The value was read once, so that neither step finds an error; one that did would leave the age unknown.
	err := json.Unmarshal([]byte(value), &t)
	if err == nil && t.ObservedAt == "" {
		return
	}
	observed, parseErr := time.Parse(time.RFC3339, t.ObservedAt)
	if err = errors.Join(err, parseErr); err != nil {
		r.fail(v1alpha1.TopologyAnnotation+": observedAt", t.ObservedAt, err)
		return
	}
	from, until := observed.Add(-in.maxAge), observed.Add(in.maxAge)
	var fault string
	switch {
	case in.now.Before(from):
		in.until = from
		fault = fmt.Sprintf("observed at %s, more than %s in the future", t.ObservedAt, in.maxAge)
	case in.now.After(until):
		fault = fmt.Sprintf("observed at %s, more than %s ago", t.ObservedAt, in.maxAge)
	default:
		in.until = until.Add(1) // the first moment after until
		return
	}
	for i := range cards {
		closeCard(&cards[i], fault)
	}
	r.add(v1alpha1.TopologyAnnotation+": observedAt", t.ObservedAt, "all cards are closed: "+fault)
}

// failWire reports an error of package v1alpha1 with the field and the value that it names.
func failWire(r *report, key, value string, err error) {
	if field, ok := errors.AsType[*v1alpha1.FieldError](err); ok {
		name := key
		if field.Field != key {
			name += ": " + field.Field
		}
		r.add(name, field.Value, field.Reason)
		return
	}
	r.fail(key, value, err)
}
