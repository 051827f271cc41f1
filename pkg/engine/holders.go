package engine

import (
	"math"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// holders counts the bound pods that hold cards by their priority: who waits for cards can preempt those of a lower one. Members of
// gangs that are on their way to be bound are not counted yet, and members of native groups by their own priority.
type holders struct {
	ledger     *ledger.Ledger
	priorities map[ledger.PodUID]int32
	counts     map[int32]int
}

func newHolders(l *ledger.Ledger) *holders {
	return &holders{ledger: l, priorities: map[ledger.PodUID]int32{}, counts: map[int32]int{}}
}

// seen takes note of a bound pod, and returns what lowest does.
func (h *holders) seen(pod *v1.Pod) int32 {
	uid := ledger.PodUID(pod.UID)
	if _, known := h.priorities[uid]; known {
		return h.lowest()
	}
	holds := request.TakesCards(pod)
	if !holds && len(pod.Spec.ResourceClaims) > 0 { // whether they are of GPUs is found out by who charges them
		_, _, holds = h.ledger.Holding(uid)
	}
	if holds {
		priority := corev1helpers.PodPriority(pod)
		h.priorities[uid] = priority
		h.counts[priority]++
	}
	return h.lowest()
}

// gone takes note of the end of a pod.
func (h *holders) gone(pod *v1.Pod) int32 {
	uid := ledger.PodUID(pod.UID)
	if priority, known := h.priorities[uid]; known {
		delete(h.priorities, uid)
		if h.counts[priority]--; h.counts[priority] == 0 {
			delete(h.counts, priority)
		}
	}
	return h.lowest()
}

// lowest returns the lowest priority of a pod that holds cards, math.MaxInt32 if there is none.
func (h *holders) lowest() int32 {
	lowest := int32(math.MaxInt32)
	for priority := range h.counts {
		lowest = min(lowest, priority)
	}
	return lowest
}
