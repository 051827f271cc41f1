package testkit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// SchedulerName is the name in the shipped configuration.
const SchedulerName = "gpu-topology-scheduler"

// Node returns a Ready node that carries the description as its annotation and offers its cards as the stock device
// plugin would. It panics on a description that cannot be formatted: a fixture is wrong then.
func Node(name string, spec topology.Spec) *v1.Node {
	annotation, err := v1alpha1.FormatTopology(spec)
	if err != nil {
		panic(fmt.Sprintf("fixture of node %s: %v", name, err))
	}
	allocatable := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("128"),
		v1.ResourceMemory: resource.MustParse("1Ti"),
		v1.ResourcePods:   resource.MustParse("500"),
	}
	whole, instances := 0, map[string]int{}
	for _, c := range spec.Cards {
		if !c.MIGEnabled {
			whole++
		}
		for _, m := range c.MIG {
			instances[m.Profile]++
		}
	}
	allocatable["nvidia.com/gpu"] = *resource.NewQuantity(int64(whole), resource.DecimalSI)
	for profile, n := range instances {
		allocatable[v1.ResourceName("nvidia.com/mig-"+profile)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{v1.LabelHostname: name},
			Annotations: map[string]string{v1alpha1.TopologyAnnotation: annotation},
		},
		Status: v1.NodeStatus{
			Capacity:    allocatable,
			Allocatable: allocatable,
			Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// PodOption changes a pod under construction.
type PodOption func(*v1.Pod)

// Pod returns a pod for our scheduler with one container named "main" that asks for nothing.
func Pod(namespace, name string, options ...PodOption) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			SchedulerName: SchedulerName,
			Containers:    []v1.Container{Container("main", nil)},
		},
	}
	for _, o := range options {
		o(pod)
	}
	return pod
}

// Container returns a container with the given extended resources, as requests and limits.
func Container(name string, resources v1.ResourceList) v1.Container {
	return v1.Container{Name: name, Image: "pause", Resources: v1.ResourceRequirements{Requests: resources, Limits: resources.DeepCopy()}}
}

// Resource makes the pod's first container ask for n of a resource.
func Resource(name v1.ResourceName, n int64) PodOption {
	return func(p *v1.Pod) {
		r := &p.Spec.Containers[0].Resources
		if r.Requests == nil {
			r.Requests, r.Limits = v1.ResourceList{}, v1.ResourceList{}
		}
		r.Requests[name] = *resource.NewQuantity(n, resource.DecimalSI)
		r.Limits[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
}

// GPUs makes the first container ask for n whole cards.
func GPUs(n int64) PodOption { return Resource("nvidia.com/gpu", n) }

// VRAM makes the first container ask for mib MiB on each of k cards.
func VRAM(mib int64, k int) PodOption {
	return func(p *v1.Pod) {
		Resource(v1alpha1.VRAMResource, mib*MiB)(p)
		if k != 1 {
			p.Annotations[v1alpha1.VRAMCardsAnnotation] = fmt.Sprint(k)
		}
	}
}

// Annotate sets an annotation.
func Annotate(key, value string) PodOption {
	return func(p *v1.Pod) { p.Annotations[key] = value }
}

// UID sets the UID, for tests without an API server.
func UID(uid string) PodOption {
	return func(p *v1.Pod) { p.UID = types.UID(uid) }
}

// OnNode binds the pod to a node.
func OnNode(node string) PodOption {
	return func(p *v1.Pod) { p.Spec.NodeName = node }
}

// Priority sets the pod's priority.
func Priority(n int32) PodOption {
	return func(p *v1.Pod) { p.Spec.Priority = &n }
}

// ForScheduler names another scheduler.
func ForScheduler(name string) PodOption {
	return func(p *v1.Pod) { p.Spec.SchedulerName = name }
}
