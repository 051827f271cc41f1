package simulate

import (
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
)

const (
	// SchedulerName is the profile of manifests/base/scheduler-config.yaml.
	SchedulerName = "gpu-topology-scheduler"
	// workloadNamespace is where simulated pods live.
	workloadNamespace = "default"
)

// Pod is one pod of a workload: the object and, told apart from it, what it means.
type Pod struct {
	Name string
	// Ask is what it wants, in the oracle's words.
	Ask oracle.Ask
	// Machine is the only kind of machine that it may run on; nil for any.
	Machine *Machine
	// Dialect names whose keys it uses, empty for Kubernetes' and our own.
	Dialect string
	// Fits is false for a pod that must stay Pending.
	Fits bool

	limits      map[v1.ResourceName]string
	annotations map[string]string
}

// Object builds the pod. Its CPU and memory are small beside any node, so that GPUs alone decide.
func (p *Pod) Object() (*v1.Pod, error) {
	limits := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("4Gi")}
	for name, text := range p.limits {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, err
		}
		limits[name] = q
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: workloadNamespace, Annotations: maps.Clone(p.annotations)},
		Spec: v1.PodSpec{
			SchedulerName: SchedulerName,
			Containers: []v1.Container{{
				Name: "main", Image: "registry.example/" + p.Name,
				Resources: v1.ResourceRequirements{Limits: limits},
			}},
		},
	}
	if p.Machine != nil {
		pod.Spec.NodeSelector = map[string]string{ProductLabel: p.Machine.label()}
	}
	return pod, nil
}

// only limits a pod to one kind of machine.
func only(m *Machine, p Pod) Pod {
	p.Machine = m
	return p
}

// pending says that no node can hold the pod.
func pending(p Pod) Pod {
	p.Fits = false
	return p
}

// wholePod asks for n cards as most pods do.
func wholePod(name string, n int) Pod {
	return Pod{
		Name: name, Fits: true, Ask: oracle.Ask{Kind: oracle.Whole, Count: n},
		limits: map[v1.ResourceName]string{gpuResource: strconv.Itoa(n)},
	}
}

// sharePod asks for memory on each of n cards.
func sharePod(name string, gib int64, n int) Pod {
	p := Pod{
		Name: name, Fits: true, Ask: oracle.Ask{Kind: oracle.Share, Count: n, Bytes: gib << 30},
		limits: map[v1.ResourceName]string{v1alpha1.VRAMResource: strconv.FormatInt(gib, 10) + "Gi"},
	}
	if n > 1 {
		p.annotations = map[string]string{v1alpha1.VRAMCardsAnnotation: strconv.Itoa(n)}
	}
	return p
}

// hamiPod asks for memory and compute of one card as HAMi's users do.
func hamiPod(name string, memoryMiB int64, computePercent int32) Pod {
	return Pod{
		Name: name, Fits: true, Dialect: "HAMi",
		Ask: oracle.Ask{Kind: oracle.Share, Count: 1, Bytes: memoryMiB * mib, ComputeMilli: computePercent * 10},
		limits: map[v1.ResourceName]string{
			gpuResource:           "1",
			"nvidia.com/gpumem":   strconv.FormatInt(memoryMiB, 10),
			"nvidia.com/gpucores": strconv.Itoa(int(computePercent)),
		},
	}
}

// kaiPod asks for a part of one card as KAI's users do; percent is 1 to 99.
func kaiPod(name string, percent int64) Pod {
	return Pod{
		Name: name, Fits: true, Dialect: "KAI", Ask: oracle.Ask{Kind: oracle.Share, Count: 1, Percent: percent},
		annotations: map[string]string{"gpu-fraction": strconv.FormatFloat(float64(percent)/100, 'f', 2, 64)},
	}
}

// migPod asks for one MIG instance.
func migPod(name, profile string) Pod {
	return Pod{
		Name: name, Fits: true, Ask: oracle.Ask{Kind: oracle.MIG, Count: 1, Profile: profile},
		limits: map[v1.ResourceName]string{v1.ResourceName(migPrefix + profile): "1"},
	}
}

// demoMachines are the kinds of machine of the demo's cluster and how many there are of each.
func demoMachines() []machines {
	return []machines{{&HGXH100, 4}, {&DGX1, 4}, {&L40S, 4}, {&MIGA100, 4}}
}

type machines struct {
	machine *Machine
	count   int
}

// demoPods is the demo's workload in the order of its creation.
func demoPods() []Pod {
	return []Pod{
		wholePod("pretrain-a", 8),
		wholePod("pretrain-b", 8),
		wholePod("finetune-a", 4),
		wholePod("finetune-b", 2),
		wholePod("notebook", 1),
		only(&DGX1, wholePod("legacy-ring", 8)),
		only(&DGX1, wholePod("legacy-pair", 2)),
		only(&DGX1, wholePod("legacy-four", 4)),
		only(&L40S, wholePod("render-a", 4)),
		only(&L40S, wholePod("render-b", 2)),
		only(&L40S, sharePod("chat-a", 20, 1)),
		only(&L40S, sharePod("chat-b", 20, 1)),
		only(&L40S, hamiPod("embed", 4000, 20)),
		only(&L40S, kaiPod("rerank", 25)),
		only(&L40S, sharePod("wide", 10, 2)),
		migPod("classify", "1g.10gb"),
		migPod("summarize", "3g.40gb"),
		wholePod("finetune-c", 4),
		pending(sharePod("too-wide", 60, 8)),
		wholePod("finetune-d", 4),
		wholePod("overflow", 4),
	}
}
