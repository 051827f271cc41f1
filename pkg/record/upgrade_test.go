package record_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestRecordOfAnotherRelease: what a bound pod with two cards is charged for where its record was not written by this release
// for this node. A version that is not known says nothing, whatever stands in it; a field that is not known is left out.
func TestRecordOfAnotherRelease(t *testing.T) {
	const cards = `"node":"n1","cards":[{"index":2,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":1000},{"index":5,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":1000}]`
	version := func(err error) bool {
		_, ok := errors.AsType[*v1alpha1.VersionError](err)
		return ok
	}
	field := func(err error) bool {
		_, ok := errors.AsType[*v1alpha1.FieldError](err)
		return ok
	}
	node := func(err error) bool {
		mismatch, ok := errors.AsType[*record.MismatchError](err)
		return ok && mismatch.Field == "node"
	}
	tests := map[string]struct {
		text string
		// wantCards are known ones; without any the pod holds as many unknown ones as it asks for.
		wantCards []int
		wantFault func(error) bool
	}{
		"this version":                      {`{"v":1,` + cards + `}`, []int{2, 5}, nil},
		"unknown fields":                    {`{"v":1,"nvlsGroup":{"id":7},` + cards + `}`, []int{2, 5}, nil},
		"unknown fields of a card":          {`{"v":1,` + cards[:len(cards)-2] + `,"nvls":[1,2]}]}`, []int{2, 5}, nil},
		"newer version":                     {`{"v":2,` + cards + `}`, nil, version},
		"newer version, of another shape":   {`{"v":2,"allocations":[]}`, nil, version},
		"older version":                     {`{"v":-1,` + cards + `}`, nil, version},
		"version 0":                         {`{"v":0,` + cards + `}`, nil, func(err error) bool { return version(err) || field(err) }},
		"no version":                        {`{` + cards + `}`, nil, func(err error) bool { return version(err) || field(err) }},
		"version of another type":           {`{"v":"1",` + cards + `}`, nil, field},
		"another node":                      {`{"v":1,"node":"n2",` + cards[len(`"node":"n1",`):] + `}`, nil, node},
		"card beyond any node":              {`{"v":1,"node":"n1","cards":[{"index":64,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":1000}]}`, nil, field},
		"cards that this node may not have": {`{"v":1,"node":"n1","cards":[{"index":40,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":1000},{"index":41,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":1000}]}`, []int{40, 41}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := kit.Pod("ns", "p", kit.UID("u"), kit.GPUs(2), kit.OnNode("n1"), kit.Annotate(v1alpha1.AllocationAnnotation, tt.text))
			h, held, fault := record.Charge(pod, nil)
			var got []int
			for _, c := range h.Cards {
				got = append(got, c.Index)
			}
			wantUnknown := 2 - len(tt.wantCards)
			if !held || h.Node != "n1" || !slices.Equal(got, tt.wantCards) || h.UnknownCards != wantUnknown {
				t.Errorf("held %t: cards %v and %d unknown ones of node %s, want %v and %d of n1", held, got, h.UnknownCards, h.Node, tt.wantCards, wantUnknown)
			}
			if (tt.wantFault == nil) != (fault == nil) || fault != nil && !tt.wantFault(fault) {
				t.Errorf("fault %v (%T)", fault, fault)
			}
		})
	}
}
