package main

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

const (
	// namespace is where pods and groups live.
	namespace   = "gangs"
	gpuResource = v1.ResourceName("nvidia.com/gpu")
	// groupLabel names a pod's PodGroup of groupResource.
	groupLabel = "scheduling.x-k8s.io/pod-group"
)

// groupResource is the PodGroup that a CRD defines.
var groupResource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// machine is what every node is.
var machine = simulate.HGXH100

// size is how much is scheduled. The sizes are those of the workload Gang of test/perf/scheduler.
type size struct {
	Name string `json:"name"`
	// Nodes of 8 GPUs; Gangs of Members pods that ask for GPUs each.
	Nodes   int `json:"nodes"`
	Gangs   int `json:"gangs"`
	Members int `json:"members"`
	GPUs    int `json:"gpus"`
}

var sizes = []size{
	{Name: "256Nodes_60Gangs", Nodes: 256, Gangs: 60, Members: 8, GPUs: 4},
	{Name: "512Nodes_125Gangs", Nodes: 512, Gangs: 125, Members: 8, GPUs: 4},
	{Name: "5000Nodes_100Gangs", Nodes: 5000, Gangs: 100, Members: 30, GPUs: 8},
	{Name: "5000Nodes_3Gangs", Nodes: 5000, Gangs: 3, Members: 1000, GPUs: 8},
}

func sizeByName(name string) (size, error) {
	i := slices.IndexFunc(sizes, func(s size) bool { return s.Name == name })
	if i < 0 {
		names := make([]string, len(sizes))
		for j := range sizes {
			names[j] = sizes[j].Name
		}
		return size{}, fmt.Errorf("--size %.64q: must be one of %v", name, names)
	}
	return sizes[i], nil
}

func (s *size) pods() int { return s.Gangs * s.Members }

// room is how many pods fit on all nodes.
func (s *size) room() int { return s.Nodes * (machine.Count / s.GPUs) }

func gangName(i int) string { return "gang-" + strconv.Itoa(i) }

// membership is how pods name their gang.
type membership int

const (
	noGang membership = iota
	byLabel
	byField
)

// pod builds pod i; pods of one gang are neighbours.
func (s *size) pod(i int, m membership) *v1.Pod {
	p := newPod(podPrefix+strconv.Itoa(i), s.GPUs)
	gang := gangName(i / s.Members)
	switch m {
	case byLabel:
		p.Labels = map[string]string{groupLabel: gang}
	case byField:
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
	case noGang:
	}
	return p
}

// newPod asks for GPUs, and for little else so that they alone decide.
func newPod(name string, gpus int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1.PodSpec{
			SchedulerName: simulate.SchedulerName,
			Containers: []v1.Container{{
				Name: "main", Image: "registry.example/worker",
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
					v1.ResourceCPU:    resource.MustParse("1"),
					v1.ResourceMemory: resource.MustParse("4Gi"),
					gpuResource:       *resource.NewQuantity(int64(gpus), resource.DecimalSI),
				}},
			}},
		},
	}
}

func (s *size) crdGroup(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupResource.GroupVersion().String(),
		"kind":       "PodGroup",
		"metadata":   map[string]any{"name": gangName(i), "namespace": namespace},
		"spec":       map[string]any{"minMember": int64(s.Members)},
	}}
}

func (s *size) nativeGroup(i int) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: gangName(i), Namespace: namespace},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(s.Members)},
			},
		},
	}
}
