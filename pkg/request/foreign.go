package request

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// foreignResources are resources by which pods of other schedulers hold NVIDIA cards. Our scheduler does not place such
// pods, but where they run, cards are taken.
var foreignResources = map[v1.ResourceName]int64{
	// Time-sliced or MPS-shared replicas of NVIDIA's device plugin: each may lie on another card.
	nvidiaPrefix + "gpu.shared": 1,
	// Volcano vGPU: cards; memory or cores alone mean one card.
	"volcano.sh/vgpu-number": 1,
	"volcano.sh/vgpu-memory": anyAmount,
	"volcano.sh/vgpu-cores":  anyAmount,
	// Koordinator: percent of cards, or cards that are shared.
	"koordinator.sh/gpu":              100,
	"koordinator.sh/gpu-core":         100,
	"koordinator.sh/gpu-memory-ratio": 100,
	"koordinator.sh/gpu-memory":       anyAmount,
	"koordinator.sh/gpu.shared":       1,
}

// anyAmount marks a resource of which any amount is one card.
const anyAmount = 0

// FromPodForeign returns what a bound pod must be charged for when nothing says which cards it holds: a number of whole
// cards, and of MIG instances by profile (ascending). A pod without GPUs gives 0, nil.
//
// It errs on the side of too much. A share counts as the whole card that it touches, init containers count as the kubelet
// holds their devices (see WholeCards), and a pod whose wish cannot be understood counts as at least one card. Counts are at most
// what the largest node has. It knows the resources of other schedulers too.
func FromPodForeign(pod *v1.Pod) (cards int, mig []ledger.ProfileCount) {
	if pod == nil || !asks(pod) && !holdsForeign(pod) {
		return 0, nil
	}
	_, err := FromPod(pod)
	list := containers(pod)
	cards = heldAtPeak(list, func(c *container) int { return touchedCards(pod, c) })
	if err != nil {
		cards += kaiTouched(pod)
	} else {
		cards = max(cards, kaiTouched(pod)) // either alone, or in agreement with another description
	}
	var profiles []v1.ResourceName
	for i := range list {
		for _, name := range list[i].names(migPrefix) {
			if !slices.Contains(profiles, name) {
				profiles = append(profiles, name)
			}
		}
	}
	slices.Sort(profiles)
	for _, name := range profiles {
		n := heldAtPeak(list, func(c *container) int { return lenient(c, name, 1) })
		profile := v1alpha1.Profile(strings.TrimPrefix(string(name), migPrefix))
		if n > 0 && profile != "" {
			mig = append(mig, ledger.ProfileCount{Profile: profile, Count: min(n, maxInstances)})
		}
	}
	if err != nil {
		cards = max(cards, 1)
	}
	return min(cards, maxCards), mig
}

// TakesCards reports whether FromPodForeign charges the pod for anything: whether GPUs change hands with it, as far as the pod
// itself says. What its ResourceClaims are for it does not say.
func TakesCards(pod *v1.Pod) bool {
	cards, instances := FromPodForeign(pod)
	return cards > 0 || len(instances) > 0
}

func holdsForeign(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			if hasForeign(r.Limits) || hasForeign(r.Requests) {
				return true
			}
		}
	}
	return false
}

func hasForeign(list v1.ResourceList) bool {
	for name := range list {
		if _, ok := foreignResources[name]; ok {
			return true
		}
	}
	return false
}

// touchedCards counts the cards that one container holds a part of, by its resources.
func touchedCards(pod *v1.Pod, c *container) int {
	n := lenient(c, gpuResource, 1)
	for name, perCard := range foreignResources {
		n = max(n, lenient(c, name, perCard))
	}
	for _, name := range [...]v1.ResourceName{hamiMemory, hamiPercent, hamiCores} {
		n = max(n, lenient(c, name, anyAmount))
	}
	if lenient(c, v1alpha1.VRAMResource, anyAmount) > 0 {
		asked, set, err := count(pod, v1alpha1.VRAMCardsAnnotation, maxCards)
		if !set || err != nil {
			asked = 1
		}
		n = max(n, asked, 1)
	}
	return n
}

// kaiTouched counts the cards that KAI's annotations ask for.
func kaiTouched(pod *v1.Pod) int {
	fraction, memory := pod.Annotations[kaiFraction], pod.Annotations[kaiMemory]
	if isZero(fraction) && isZero(memory) {
		return 0
	}
	n, set, err := count(pod, kaiDevices, maxCards)
	if !set || err != nil {
		return 1
	}
	return max(n, 1)
}

// isZero reports whether a decimal surely asks for nothing.
func isZero(s string) bool {
	if s == "" {
		return true
	}
	r, reason := parseDecimal(s)
	return reason == "" && r.Sign() == 0
}

// lenient reads one resource of a container as a number of cards or instances, perCard units each and rounded up. It takes
// the larger of limit and request, and reads what cannot be understood as 1.
func lenient(c *container, name v1.ResourceName, perCard int64) int {
	n := 0
	for _, list := range [...]v1.ResourceList{c.limits, c.requests} {
		if q, ok := list[name]; ok {
			n = max(n, lenientUnits(q, perCard))
		}
	}
	return n
}

func lenientUnits(q resource.Quantity, perCard int64) int {
	n, _, reason := units(q)
	switch {
	case reason == "" && n == 0:
		return 0
	case reason != "" || perCard == anyAmount:
		return 1
	}
	return int(min((n-1)/perCard+1, maxInstances))
}
