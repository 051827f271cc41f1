package coscheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// dimensions are the resources of a problem: those that the scheduler always counts, the extended ones that a role asks for,
// one for each role of which a node may hold only one, and one for each host port that a role takes.
type dimensions struct {
	scalars []v1.ResourceName
	alone   []int
	ports   []hostPort
}

// hostPort is a port of a node. On which of the node's addresses a pod takes it is left out: two pods that could share it by
// taking different addresses are planned apart.
type hostPort struct {
	protocol v1.Protocol
	port     int32
}

// hostPorts lists the host ports that a pod takes, ascending.
func hostPorts(pod *v1.Pod) []hostPort {
	var out []hostPort
	add := func(c *v1.Container) {
		for i := range c.Ports {
			if p := &c.Ports[i]; p.HostPort > 0 {
				out = append(out, hostPort{protocolOf(p), p.HostPort})
			}
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	slices.SortFunc(out, func(a, b hostPort) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol))
	})
	return slices.Compact(out)
}

func protocolOf(p *v1.ContainerPort) v1.Protocol {
	if p.Protocol == "" {
		return v1.ProtocolTCP
	}
	return p.Protocol
}

// taken reports whether a pod of the node has the port.
func (h hostPort) taken(info fwk.NodeInfo) bool {
	return info.GetUsedPorts().CheckConflict("", string(h.protocol), h.port)
}

const fixedDimensions = 4 // CPU, memory, ephemeral storage, pods

func dimensionsOf(roles []*role) *dimensions {
	d := &dimensions{}
	names := map[v1.ResourceName]bool{}
	for i, r := range roles {
		for name, n := range r.needs.GetScalarResources() {
			if n > 0 && request.Counted(name) {
				names[name] = true
			}
		}
		if len(r.alone) > 0 {
			d.alone = append(d.alone, i)
		}
		for _, port := range r.ports {
			if !slices.Contains(d.ports, port) {
				d.ports = append(d.ports, port)
			}
		}
	}
	d.scalars = slices.Sorted(maps.Keys(names))
	return d
}

// names are the words for the dimensions in sentences.
func (d *dimensions) names(roles []*role) []string {
	out := []string{"CPU", "memory", "ephemeral storage", "pods"}
	for _, name := range d.scalars {
		out = append(out, string(name))
	}
	for _, i := range d.alone {
		out = append(out, "hosts without another "+roles[i].title()+" (anti-affinity)")
	}
	for _, p := range d.ports {
		out = append(out, fmt.Sprintf("host port %d/%s", p.port, p.protocol))
	}
	return out
}

func (r *role) title() string {
	if r.name == "" {
		return "pod"
	}
	return r.name
}

func (d *dimensions) len() int { return fixedDimensions + len(d.scalars) + len(d.alone) + len(d.ports) }

// firstAlone and firstPort are where the dimensions of d.alone and d.ports begin.
func (d *dimensions) firstAlone() int { return fixedDimensions + len(d.scalars) }

func (d *dimensions) firstPort() int { return d.firstAlone() + len(d.alone) }

// fill writes the amounts of r into out; pods is how many pods they are of.
func (d *dimensions) fill(out []int64, r fwk.Resource, pods int64) {
	out[0], out[1], out[2], out[3] = r.GetMilliCPU(), r.GetMemory(), r.GetEphemeralStorage(), pods
	scalars := r.GetScalarResources()
	for i, name := range d.scalars {
		out[fixedDimensions+i] = scalars[name]
	}
}

// need is what one member of role i asks for.
func (d *dimensions) need(roles []*role, i int) []int64 {
	out := make([]int64, d.len())
	d.fill(out, roles[i].needs, 1)
	for k, at := range d.alone {
		if at == i {
			out[d.firstAlone()+k] = 1
		}
	}
	for k, port := range d.ports {
		if slices.Contains(roles[i].ports, port) {
			out[d.firstPort()+k] = 1
		}
	}
	return out
}
