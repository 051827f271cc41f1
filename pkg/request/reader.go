package request

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// FromPod is FromPodWithDefaults with the built-in defaults.
func FromPod(pod *v1.Pod) (*allocate.Request, error) {
	return FromPodWithDefaults(pod, allocate.Request{})
}

// FromPodWithDefaults returns what a pod asks for: nil, nil for a pod without GPUs, which costs a look at its resources
// and no allocation. Policies that the pod does not name are those of defaults, whose claims are not read. The error is an
// *InvalidError. The pod is not changed.
//
// Every number of the result is within bounds: counts from 1 to 64 cards or 512 instances, memory from 1 MiB to
// topology.MaxVRAMBytes, fractions from 1 to 1e9, compute from 0 to 1000.
func FromPodWithDefaults(pod *v1.Pod, defaults allocate.Request) (*allocate.Request, error) {
	if pod == nil || !asks(pod) {
		return nil, nil
	}
	w := &wish{pod: pod, containers: containers(pod)}
	if err := w.readKAI(); err != nil {
		return nil, err
	}
	if err := w.readNative(); err != nil {
		return nil, err
	}
	req := &allocate.Request{}
	for i := range w.containers {
		claims, err := w.claims(&w.containers[i])
		if err != nil {
			return nil, err
		}
		req.Claims = append(req.Claims, claims...)
	}
	if len(req.Claims) == 0 {
		return nil, nil
	}
	if err := readPolicies(pod, req, defaults); err != nil {
		return nil, err
	}
	return req, nil
}

// asks reports whether anything of a pod may be a wish for GPUs.
func asks(pod *v1.Pod) bool {
	for key := range pod.Annotations {
		if requestAnnotation(key) {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if asksFor(&pod.Spec.InitContainers[i].Resources) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if asksFor(&pod.Spec.Containers[i].Resources) {
			return true
		}
	}
	return false
}

// requestAnnotation reports whether an annotation can ask for GPUs or for how many.
func requestAnnotation(key string) bool {
	switch key {
	case v1alpha1.VRAMCardsAnnotation, v1alpha1.ComputeMilliAnnotation, kaiFraction, kaiMemory, kaiDevices:
		return true
	}
	return false
}

func asksFor(r *v1.ResourceRequirements) bool {
	return hasGPUResource(r.Limits) || hasGPUResource(r.Requests)
}

func hasGPUResource(list v1.ResourceList) bool {
	for name := range list {
		if strings.HasPrefix(string(name), nvidiaPrefix) || strings.HasPrefix(string(name), ourPrefix) {
			return true
		}
	}
	return false
}

// wish is a pod while it is read.
type wish struct {
	pod        *v1.Pod
	containers []container
	native     nativeWish
	kai        kaiWish
}

// description is one dialect's reading of a container: at most one claim for cards.
type description struct {
	claim allocate.Claim
	asked bool
	// at is the resource that says so; nil for annotations, which stand in field and value.
	at           *amount
	field, value string
}

// described is what a resource asks for. It keeps a copy of the amount, so that the many amounts of a pod that turn out to
// say nothing need no memory of their own.
func described(claim allocate.Claim, at *amount) description {
	origin := *at
	return description{claim: claim, asked: true, at: &origin}
}

// place returns where the description stands and what it says there.
func (d *description) place() (field, value string) {
	if d.at != nil {
		return d.at.field(), d.at.text()
	}
	return d.field, d.value
}

// describers are the dialects that describe one and the same wish.
var describers = [...]func(*wish, *container) (description, error){
	(*wish).describeNative,
	(*wish).describeHAMi,
	(*wish).describeKAI,
	(*wish).describeWhole,
}

// claims reads one container in every dialect.
func (w *wish) claims(c *container) ([]allocate.Claim, error) {
	if err := w.checkNames(c); err != nil {
		return nil, err
	}
	var first description
	for _, describe := range describers {
		d, err := describe(w, c)
		if err != nil {
			return nil, err
		}
		if !d.asked {
			continue
		}
		d.claim.Container, d.claim.Phase = c.name, c.phase
		if first.asked && first.claim != d.claim {
			field, value := d.place()
			otherField, otherValue := first.place()
			return nil, invalid(field, value, fmt.Sprintf("disagrees with %s, which is %.64q", otherField, otherValue))
		}
		if !first.asked {
			first = d
		}
	}
	var claims []allocate.Claim
	if first.asked {
		claims = append(claims, first.claim)
	}
	instances, err := migClaims(c)
	if err != nil {
		return nil, err
	}
	claims = append(claims, instances...)
	if len(claims) > 0 && w.kai.asked && w.kai.container != c.name {
		return nil, invalid(w.kai.field, w.kai.value, fmt.Sprintf("describes the pod's only GPU container, %q, but container %q asks for a GPU too", cut(w.kai.container), cut(c.name)))
	}
	return claims, nil
}

// checkNames refuses resources of our group that do not exist: the scheduler has NodeResourcesFit ignore the group, so a
// misspelled wish would otherwise be placed without any GPU.
func (w *wish) checkNames(c *container) error {
	for _, name := range c.names(ourPrefix) {
		if name != v1alpha1.VRAMResource {
			return invalid(c.path("limits", name), string(name), "is no resource of this group; the only one is "+v1alpha1.VRAMResource)
		}
	}
	return nil
}

// maxCards and maxInstances bound what one claim may ask for: all of the largest node.
const (
	maxCards     = topology.MaxCards
	maxInstances = topology.MaxCards * 8
)

// annotation returns an annotation's path, value and whether it says anything; no path for one that does not, since nearly
// every pod lacks nearly all of them.
func annotation(pod *v1.Pod, key string) (field, value string, ok bool) {
	value = pod.Annotations[key]
	if value == "" {
		return "", "", false
	}
	return "metadata.annotations[" + key + "]", value, true
}

// policy reads an annotation that must be one of a few words; "" stands for an absent one.
func policy(pod *v1.Pod, key string, words ...string) (string, error) {
	field, value, ok := annotation(pod, key)
	if ok && !slices.Contains(words, value) {
		return "", invalid(field, value, "must be one of "+strings.Join(words, ", "))
	}
	return value, nil
}
