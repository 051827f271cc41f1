package request

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// nativeWish is what the annotations of our own dialect say of every container with gputopology.io/vram.
type nativeWish struct {
	cards int
	milli int32
	// zeroCards is the refusal of an explicit 0 in vram-cards, due as soon as some container wants memory.
	zeroCards *InvalidError
}

// readNative reads the annotations. They refine gputopology.io/vram: in a pod without that resource they are a mistake,
// most likely a misspelled resource, and the pod would run without the GPU that its author meant.
func (w *wish) readNative() error {
	w.native.cards = 1
	cards, hasCards, err := count(w.pod, v1alpha1.VRAMCardsAnnotation, maxCards)
	if err != nil {
		return err
	}
	milli, _, err := count(w.pod, v1alpha1.ComputeMilliAnnotation, allocate.MilliPerCard)
	if err != nil {
		return err
	}
	if hasCards {
		w.native.cards = cards
		if cards == 0 {
			field, value, _ := annotation(w.pod, v1alpha1.VRAMCardsAnnotation)
			w.native.zeroCards = invalid(field, value, "must be at least 1 where "+v1alpha1.VRAMResource+" is asked for")
		}
	}
	w.native.milli = int32(milli)
	if w.hasVRAM() {
		return nil
	}
	for _, refinement := range []struct {
		key string
		n   int
	}{{v1alpha1.VRAMCardsAnnotation, cards}, {v1alpha1.ComputeMilliAnnotation, milli}} {
		if refinement.n > 0 {
			field, value, _ := annotation(w.pod, refinement.key)
			return invalid(field, value, "has no effect: no container has the resource "+v1alpha1.VRAMResource)
		}
	}
	return nil
}

// hasVRAM reports whether any container names the resource, if only to ask for none of it.
func (w *wish) hasVRAM() bool {
	for i := range w.containers {
		c := &w.containers[i]
		if _, ok := c.limits[v1alpha1.VRAMResource]; ok {
			return true
		}
		if _, ok := c.requests[v1alpha1.VRAMResource]; ok {
			return true
		}
	}
	return false
}

// describeNative reads gputopology.io/vram.
func (w *wish) describeNative(c *container) (description, error) {
	memory, err := c.amount(v1alpha1.VRAMResource)
	if err != nil || !memory.asked() {
		return description{}, err
	}
	vram, reason := bytesOf(memory.units)
	if reason != "" {
		return description{}, memory.refuse(reason)
	}
	if w.native.zeroCards != nil {
		return description{}, w.native.zeroCards
	}
	return described(allocate.Claim{Kind: allocate.KindShare, Count: w.native.cards, VRAMBytes: vram, ComputeMilli: w.native.milli}, &memory), nil
}

// count reads an annotation that must be a whole number from 0 to most.
func count(pod *v1.Pod, key string, most int) (n int, set bool, err error) {
	field, value, ok := annotation(pod, key)
	if !ok {
		return 0, false, nil
	}
	u, parseErr := strconv.ParseUint(value, 10, 64)
	if parseErr != nil || u > uint64(most) {
		return 0, false, invalid(field, value, fmt.Sprintf("must be a whole number from 0 to %d", most))
	}
	return int(u), true, nil
}
