package record

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// Charge returns what a bound pod is charged for, whatever the state of its annotations, and what is wrong with them; false
// for a pod that holds no GPU. A fault never makes a card look free:
//
//	record of this node, request covered        the cards of the record
//	record of this node, request not readable   the cards of the record: somebody edited the request after the bind
//	record of this node, request larger         the cards of the record, and the rest by number
//	record damaged, of another node, missing    the number of cards and instances that the pod asks for
//	record on a pod that asks for no GPU        nothing: the annotation is not the scheduler's
//
// A missing record alone is no fault: ErrNoRecord.
func Charge(pod *v1.Pod, recent *Recent) (h ledger.Holding, held bool, fault error) {
	h, fault = parseHolding(pod, recent)
	if fault == nil {
		return h, true, nil
	}
	cards, instances := request.FromPodForeign(pod)
	if errors.Is(fault, ErrNoRecord) {
		return ForeignHolding(pod, cards, instances), cards > 0 || len(instances) > 0, fault
	}
	r, err := recent.parse(pod.Annotations[v1alpha1.AllocationAnnotation])
	if err != nil || r.Node != pod.Spec.NodeName {
		return ForeignHolding(pod, cards, instances), cards > 0 || len(instances) > 0, fault
	}
	asked, unreadable := request.FromPod(pod)
	if asked == nil && unreadable == nil {
		return ledger.Holding{}, false, fault
	}
	h = empty(pod)
	h.Cards = shares(r.Cards)
	if unreadable == nil {
		h.UnknownCards, h.UnknownMIG = shortfall(h.Cards, cards, request.WholeCards(asked), instances)
	}
	return h, true, fault
}

// shortfall is what a record leaves out of what its pod asks for: so many cards, of which some are whole. It is asked where the
// record does not cover the request, so it is never nothing: a share that is too small counts as one more card, and a part of a card
// never as a whole one.
func shortfall(held []allocate.CardShare, cards, wholeCards int, instances []ledger.ProfileCount) (int, []ledger.ProfileCount) {
	named, whole, of := 0, 0, map[string]int{}
	for _, s := range held {
		if s.MIGProfile != "" {
			of[s.MIGProfile]++
			continue
		}
		named++
		if entire(s) {
			whole++
		}
	}
	var missing []ledger.ProfileCount
	for _, p := range instances {
		if n := p.Count - of[p.Profile]; n > 0 {
			missing = append(missing, ledger.ProfileCount{Profile: p.Profile, Count: n})
		}
	}
	more := max(cards-named, wholeCards-whole, 0)
	if more == 0 && len(missing) == 0 {
		more = 1
	}
	return more, missing
}
