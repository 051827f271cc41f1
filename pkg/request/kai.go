package request

import (
	"fmt"
	"math/big"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// KAI's annotations (pkg/common/constants in kai-scheduler/KAI-Scheduler). They describe one container of the pod.
const (
	kaiFraction  = "gpu-fraction"
	kaiMemory    = "gpu-memory"
	kaiDevices   = "gpu-fraction-num-devices"
	kaiContainer = "gpu-fraction-container-name"
)

// kaiWish is what the annotations ask for.
type kaiWish struct {
	claim        allocate.Claim
	asked        bool
	field, value string
	// container is the name of the container it is for.
	container string
}

// readKAI reads the annotations. A fraction of 1 is a whole card, 0 is none.
func (w *wish) readKAI() error {
	fraction, fractionField, err := w.kaiShare(kaiFraction, parseFraction)
	if err != nil {
		return err
	}
	memory, memoryField, err := w.kaiShare(kaiMemory, parseMemory)
	if err != nil {
		return err
	}
	k := &w.kai
	switch {
	case fraction > 0 && memory > 0:
		return invalid(memoryField, w.pod.Annotations[kaiMemory], fmt.Sprintf("disagrees with %s, which is %q", fractionField, cut(w.pod.Annotations[kaiFraction])))
	case fraction == ppb:
		k.claim, k.field, k.value = allocate.Claim{Kind: allocate.KindWhole}, fractionField, w.pod.Annotations[kaiFraction]
	case fraction > 0:
		k.claim, k.field, k.value = allocate.Claim{Kind: allocate.KindShare, FractionPPB: fraction}, fractionField, w.pod.Annotations[kaiFraction]
	case memory > 0:
		k.claim, k.field, k.value = allocate.Claim{Kind: allocate.KindShare, VRAMBytes: memory}, memoryField, w.pod.Annotations[kaiMemory]
	}
	k.asked = fraction > 0 || memory > 0
	if k.claim.Count, err = w.kaiCards(); err != nil || !k.asked {
		return err
	}
	k.container, err = w.kaiTarget()
	return err
}

// kaiShare reads one of the two annotations that say how much; 0 where it says nothing.
func (w *wish) kaiShare(key string, parse func(string) (int64, string)) (n int64, field string, err error) {
	field, value, ok := annotation(w.pod, key)
	if !ok {
		return 0, field, nil
	}
	n, reason := parse(value)
	if reason != "" {
		return 0, field, invalid(field, value, reason)
	}
	return n, field, nil
}

// kaiCards returns the number of cards.
func (w *wish) kaiCards() (int, error) {
	n, set, err := count(w.pod, kaiDevices, maxCards)
	if err != nil {
		return 0, err
	}
	if !set {
		return 1, nil
	}
	field, value, _ := annotation(w.pod, kaiDevices)
	_, hasFraction := w.pod.Annotations[kaiFraction]
	_, hasMemory := w.pod.Annotations[kaiMemory]
	switch {
	case n > 0 && !hasFraction && !hasMemory:
		return 0, invalid(field, value, "has no effect without "+kaiFraction+" or "+kaiMemory)
	case n == 0 && w.kai.asked:
		return 0, invalid(field, value, "must be at least 1 beside "+w.kai.field)
	}
	return n, nil
}

// kaiTarget finds the container: the one named, else the first app container.
func (w *wish) kaiTarget() (string, error) {
	field, name, ok := annotation(w.pod, kaiContainer)
	for i := range w.containers {
		c := &w.containers[i]
		if ok && c.name == name || !ok && c.phase == allocate.PhaseMain {
			return c.name, nil
		}
	}
	if ok {
		return "", invalid(field, name, "the pod has no such container")
	}
	return "", invalid(w.kai.field, w.kai.value, "the pod has no container to use it")
}

// describeKAI returns the pod's wish for the container that it is for.
func (w *wish) describeKAI(c *container) (description, error) {
	if !w.kai.asked || w.kai.container != c.name {
		return description{}, nil
	}
	return description{claim: w.kai.claim, asked: true, field: w.kai.field, value: w.kai.value}, nil
}

// parseFraction reads a part of a card, 0 to 1, in parts per billion. It cuts further digits off, so that parts which
// add up to 1 fit on a card, but never to 0.
func parseFraction(s string) (int64, string) {
	r, reason := parseDecimal(s)
	switch {
	case reason != "":
		return 0, reason
	case r.Cmp(big.NewRat(1, 1)) > 0:
		return 0, "must be at most 1"
	case r.Sign() == 0:
		return 0, ""
	}
	r.Mul(r, new(big.Rat).SetInt64(ppb))
	return max(new(big.Int).Quo(r.Num(), r.Denom()).Int64(), 1), ""
}

// parseMemory reads MiB, rounded up, as bytes.
func parseMemory(s string) (int64, string) {
	r, reason := parseDecimal(s)
	if reason != "" {
		return 0, reason
	}
	n, _ := ceil(r)
	if n.Cmp(big.NewInt(topology.MaxVRAMBytes/mib)) > 0 {
		return 0, tooMuchMemory
	}
	return mebibytes(n.Int64())
}
