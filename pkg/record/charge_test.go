package record_test

import (
	"errors"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCharge: whatever happens to a bound pod's annotations, the cards it runs on stay charged.
func TestCharge(t *testing.T) {
	const onCard0 = `{"v":1,"node":"n1","cards":[{"index":0,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":1000}]}`
	const partsOfTwo = `{"v":1,"node":"n1","cards":[{"index":0,"sliceMask":"0x0","vramBytes":1,"computeMilli":1},{"index":1,"sliceMask":"0x0","vramBytes":1,"computeMilli":1}]}`
	const withoutCompute = `{"v":1,"node":"n1","cards":[{"index":0,"sliceMask":"0xffffffffffffffff","vramBytes":1,"computeMilli":0}]}`
	tests := map[string]struct {
		options     []kit.PodOption
		wantHeld    bool
		wantCards   int
		wantUnknown int
		wantFault   bool
	}{
		"as written":                        {[]kit.PodOption{kit.GPUs(1), kit.Annotate(v1alpha1.AllocationAnnotation, onCard0)}, true, 1, 0, false},
		"request made unreadable":           {[]kit.PodOption{kit.GPUs(1), kit.Annotate(v1alpha1.AllocationAnnotation, onCard0), kit.Annotate(v1alpha1.NUMAPolicyAnnotation, "strict")}, true, 1, 0, true},
		"record says too little":            {[]kit.PodOption{kit.GPUs(3), kit.Annotate(v1alpha1.AllocationAnnotation, onCard0)}, true, 1, 2, true},
		"parts of cards, whole ones asked":  {[]kit.PodOption{kit.GPUs(2), kit.Annotate(v1alpha1.AllocationAnnotation, partsOfTwo)}, true, 2, 2, true},
		"a whole card that shares may join": {[]kit.PodOption{kit.GPUs(1), kit.Annotate(v1alpha1.AllocationAnnotation, withoutCompute)}, true, 1, 1, true},
		"damaged record":                    {[]kit.PodOption{kit.GPUs(3), kit.Annotate(v1alpha1.AllocationAnnotation, onCard0[:40])}, true, 0, 3, true},
		"no GPU asked":                      {[]kit.PodOption{kit.Annotate(v1alpha1.AllocationAnnotation, onCard0)}, false, 0, 0, true},
		"no record":                         {[]kit.PodOption{kit.GPUs(2)}, true, 0, 2, true},
		"no record, no GPU":                 {nil, false, 0, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := kit.Pod("ns", "p", append(tt.options, kit.UID("u"), kit.OnNode("n1"))...)
			h, held, fault := record.Charge(pod, nil)
			if held != tt.wantHeld || len(h.Cards) != tt.wantCards || h.UnknownCards != tt.wantUnknown || (fault != nil) != tt.wantFault {
				t.Errorf("Charge: held %t, %d cards, %d unknown, fault %v", held, len(h.Cards), h.UnknownCards, fault)
			}
			if _, has := pod.Annotations[v1alpha1.AllocationAnnotation]; !has && !errors.Is(fault, record.ErrNoRecord) {
				t.Errorf("fault %v, want ErrNoRecord", fault)
			}
		})
	}
	elsewhere := kit.Pod("ns", "p", kit.GPUs(2), kit.UID("u"), kit.OnNode("n2"), kit.Annotate(v1alpha1.AllocationAnnotation, onCard0))
	if h, held, fault := record.Charge(elsewhere, nil); !held || len(h.Cards) != 0 || h.UnknownCards != 2 || fault == nil {
		t.Errorf("record of another node: %+v, %t, %v", h, held, fault)
	}
}
