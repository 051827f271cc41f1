package record

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// ParseHolding returns what a bound pod holds according to its record: ErrNoRecord without one, else one of the errors in
// the package documentation. The ledger accepts what it returns.
func ParseHolding(pod *v1.Pod) (ledger.Holding, error) { return parseHolding(pod, nil) }

func parseHolding(pod *v1.Pod, recent *Recent) (ledger.Holding, error) {
	value, ok := pod.Annotations[v1alpha1.AllocationAnnotation]
	if !ok {
		return ledger.Holding{}, ErrNoRecord
	}
	r, err := recent.parse(value)
	if err != nil {
		return ledger.Holding{}, err
	}
	return Holding(r, pod)
}

// Holding is ParseHolding for a record that has been read already.
func Holding(r *v1alpha1.Record, pod *v1.Pod) (ledger.Holding, error) {
	if r.Node != pod.Spec.NodeName || pod.Spec.NodeName == "" {
		return ledger.Holding{}, &MismatchError{Field: "node", Record: r.Node, Pod: pod.Spec.NodeName}
	}
	asked, err := request.FromPod(pod)
	if err != nil {
		return ledger.Holding{}, err
	}
	if asked == nil {
		return ledger.Holding{}, &MismatchError{Field: "cards", Record: strconv.Itoa(len(r.Cards)), Pod: "no GPU"}
	}
	h := empty(pod)
	h.Cards = shares(r.Cards)
	if err := covers(h.Cards, asked); err != nil {
		return ledger.Holding{}, err
	}
	return h, nil
}

// ForeignHolding is the holding of a bound pod whose cards are not known: counts as request.FromPodForeign returns them.
func ForeignHolding(pod *v1.Pod, cards int, instances []ledger.ProfileCount) ledger.Holding {
	h := empty(pod)
	h.UnknownCards, h.UnknownMIG = cards, slices.Clone(instances)
	return h
}

func empty(pod *v1.Pod) ledger.Holding {
	return ledger.Holding{UID: ledger.PodUID(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Node: ledger.NodeName(pod.Spec.NodeName)}
}

func shares(records []v1alpha1.CardRecord) []allocate.CardShare {
	out := make([]allocate.CardShare, len(records))
	for i, c := range records {
		out[i] = allocate.CardShare{
			Index: c.Index, UUID: c.UUID, SliceMask: uint64(c.SliceMask),
			VRAMBytes: c.VRAMBytes, ComputeMilli: c.ComputeMilli, MIGProfile: c.MIG,
		}
	}
	return out
}

// covers refuses shares that are less than any placement of the request holds. It is a lower bound, whatever rule chose the
// cards: whole cards and MIG instances by number, shares by the number of cards with room for them.
func covers(held []allocate.CardShare, asked *allocate.Request) error {
	if err := enough("whole cards", request.WholeCards(asked), held, entire); err != nil {
		return err
	}
	for i := range asked.Claims {
		c := &asked.Claims[i]
		var err error
		switch c.Kind {
		case allocate.KindMIG:
			err = enough("MIG instances "+c.Profile, request.Instances(asked, c.Profile), held, func(s allocate.CardShare) bool {
				return s.MIGProfile == c.Profile
			})
		case allocate.KindShare:
			err = enough(fmt.Sprintf("cards with %d bytes and %d thousandths of compute", c.VRAMBytes, c.ComputeMilli), c.Count, held, func(s allocate.CardShare) bool {
				return s.MIGProfile == "" && s.VRAMBytes >= max(c.VRAMBytes, 1) && s.ComputeMilli >= c.ComputeMilli
			})
		case allocate.KindWhole:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entire reports whether a share keeps every other pod off its card: all parts of it and all compute. (Its bytes do not say so: the
// size of a card may be unknown.)
func entire(s allocate.CardShare) bool { return s.Whole() && s.ComputeMilli == allocate.MilliPerCard }

func enough(what string, want int, held []allocate.CardShare, counts func(allocate.CardShare) bool) error {
	n := 0
	for _, s := range held {
		if counts(s) {
			n++
		}
	}
	if n < want {
		return &MismatchError{Field: what, Record: strconv.Itoa(n), Pod: strconv.Itoa(want)}
	}
	return nil
}
