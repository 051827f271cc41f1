package record

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const gib = int64(1) << 30

var now = time.Date(2026, 1, 2, 15, 4, 5, 678, time.UTC)

// box is a container with limits given as name, quantity, name, quantity.
func box(name string, pairs ...string) v1.Container {
	c := v1.Container{Name: name}
	for i := 0; i < len(pairs); i += 2 {
		if c.Resources.Limits == nil {
			c.Resources.Limits = v1.ResourceList{}
		}
		c.Resources.Limits[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	c.Resources.Requests = c.Resources.Limits
	return c
}

func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u1"}, Spec: v1.PodSpec{Containers: containers}}
}

func withInit(pod *v1.Pod, containers ...v1.Container) *v1.Pod {
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, containers...)
	return pod
}

// bind does to a copy of the pod what the API server does with a Binding.
func bind(pod *v1.Pod, node string, annotations map[string]string) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	for k, v := range annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
	}
	return pod
}

// node has six cards of 80 GiB and two in MIG mode, on an NVSwitch.
func node(t testing.TB) *topology.Node {
	t.Helper()
	spec := topology.Spec{NVSwitch: true}
	for i := range 8 {
		c := topology.Card{UUID: fmt.Sprintf("GPU-%d", i), Product: "NVIDIA H100 80GB HBM3", VRAMBytes: 80 * gib, NUMA: i / 4, Healthy: true}
		if i >= 6 {
			c.MIGEnabled = true
			c.MIG = []topology.MIGInstance{
				{Profile: "1g.10gb", Start: 0, Size: 1, VRAMBytes: 10 * gib}, {Profile: "1g.10gb", Start: 1, Size: 1, VRAMBytes: 10 * gib},
				{Profile: "2g.20gb", Start: 2, Size: 2, VRAMBytes: 20 * gib}, {Profile: "3g.40gb", Start: 4, Size: 4, VRAMBytes: 40 * gib},
			}
		}
		spec.Cards = append(spec.Cards, c)
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// choose places a pod on the empty node.
func choose(t testing.TB, n *topology.Node, pod *v1.Pod) allocate.Choice {
	t.Helper()
	asked, err := request.FromPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	use := make([]allocate.CardUse, n.Len())
	view := &allocate.View{Topology: n, Use: use, Free: allocate.FreeCards(n, use, 0)}
	choice, rejection, err := allocate.NewChooser().Choose(view, asked)
	if err != nil || rejection != nil {
		t.Fatalf("Choose: %v, %v", rejection, err)
	}
	return choice
}

func whole(i int) allocate.CardShare {
	return allocate.CardShare{Index: i, UUID: fmt.Sprintf("GPU-%d", i), SliceMask: allocate.WholeCard, VRAMBytes: 80 * gib, ComputeMilli: 1000}
}
