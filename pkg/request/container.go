package request

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

const (
	nvidiaPrefix = "nvidia.com/"
	ourPrefix    = v1alpha1.GroupName + "/"
)

// container is one container of a pod, as far as requests go.
type container struct {
	name             string
	list             string // "containers" or "initContainers"
	phase            allocate.Phase
	limits, requests v1.ResourceList
}

// containers lists a pod's containers in the order in which they start.
func containers(pod *v1.Pod) []container {
	out := make([]container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		phase := allocate.PhaseInit
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			phase = allocate.PhaseSidecar
		}
		out = append(out, containerOf(c, "initContainers", phase))
	}
	for i := range pod.Spec.Containers {
		out = append(out, containerOf(&pod.Spec.Containers[i], "containers", allocate.PhaseMain))
	}
	return out
}

func containerOf(c *v1.Container, list string, phase allocate.Phase) container {
	return container{name: c.Name, list: list, phase: phase, limits: c.Resources.Limits, requests: c.Resources.Requests}
}

// path names a resource of the container as events do.
func (c *container) path(kind string, name v1.ResourceName) string {
	return fmt.Sprintf("spec.%s{%s}.resources.%s[%s]", c.list, cut(c.name), kind, cut(string(name)))
}

// amount is one resource of one container; the zero amount is one that it does not have.
type amount struct {
	quantity resource.Quantity
	// units is the quantity in whole units, rounded up; exact says that it was whole.
	units int64
	exact bool
	// container is whose it is, nil for the zero amount; kind and name are its place there.
	container *container
	kind      string
	name      v1.ResourceName
}

// present reports whether the container has the resource, if only zero of it.
func (a *amount) present() bool { return a.container != nil }

// asked reports whether the amount is there and not zero.
func (a *amount) asked() bool { return a.units > 0 }

// field is the path of the amount in the pod.
func (a *amount) field() string { return a.container.path(a.kind, a.name) }

// text is the amount for messages.
func (a *amount) text() string { return quantityText(a.quantity) }

// refuse returns the error for this amount.
func (a *amount) refuse(reason string) *InvalidError { return invalid(a.field(), a.text(), reason) }

// whole returns an amount that must be a whole number from 1 to most; 0 if there is none or it is zero.
func (a *amount) whole(most int64) (int, error) {
	switch {
	case !a.exact && a.present():
		return 0, a.refuse("must be a whole number")
	case a.units > most:
		return 0, a.refuse(fmt.Sprintf("must be at most %d", most))
	}
	return int(a.units), nil
}

// amount reads a resource from limits and requests, which must agree where both have it.
func (c *container) amount(name v1.ResourceName) (amount, error) {
	limit, inLimits, err := read(c.limits, c, "limits", name)
	if err != nil {
		return amount{}, err
	}
	request, inRequests, err := read(c.requests, c, "requests", name)
	if err != nil {
		return amount{}, err
	}
	if !inLimits {
		return request, nil
	}
	if inRequests && limit.quantity.Cmp(request.quantity) != 0 {
		return amount{}, request.refuse(fmt.Sprintf("differs from the limit %.64s", limit.text()))
	}
	return limit, nil
}

func read(list v1.ResourceList, c *container, kind string, name v1.ResourceName) (amount, bool, error) {
	q, ok := list[name]
	if !ok {
		return amount{}, false, nil
	}
	a := amount{quantity: q, container: c, kind: kind, name: name}
	var reason string
	if a.units, a.exact, reason = units(q); reason != "" {
		return amount{}, false, a.refuse(reason)
	}
	return a, true, nil
}

// names returns the container's resources with a prefix, in order.
func (c *container) names(prefix string) []v1.ResourceName {
	var out []v1.ResourceName
	for _, list := range []v1.ResourceList{c.limits, c.requests} {
		for name := range list {
			if strings.HasPrefix(string(name), prefix) && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}
