package cycle

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

const gpuResource = v1.ResourceName("nvidia.com/gpu")

// metricsEvery is how seldom kube-scheduler measures the plugins of a cycle: one pod in so many.
const metricsEvery = 10

// pass is one scheduler's work for one batch of pods.
type pass struct {
	world   *world
	pods    []*framework.QueuedPodInfo
	assumed []*v1.Pod
	// seconds and mallocs are what the turns so far took, refused the nodes that filters refused in them.
	seconds, mallocs float64
	refused          int
}

// newPass makes pods of so many GPUs, 0 for 1, 2 and 4 in turn, and puts them where the scheduler's informer has them.
func newPass(t testing.TB, w *world, serial, pods, gpus int) *pass {
	t.Helper()
	p := &pass{world: w}
	for i := range pods {
		n := gpus
		if n == 0 {
			n = 1 << (i % 3)
		}
		pod := newPod(fmt.Sprintf("pod-%d-%d", serial, i), n)
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.pods.Add(pod); err != nil {
			t.Fatal(err)
		}
		p.pods = append(p.pods, &framework.QueuedPodInfo{PodInfo: info})
	}
	return p
}

func newPod(name string, gpus int) *v1.Pod {
	amounts := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("4Gi"),
		gpuResource: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-of-" + name)},
		Spec: v1.PodSpec{
			SchedulerName: simulate.SchedulerName,
			// What the API server's admission adds.
			Tolerations: []v1.Toleration{
				{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
				{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
			},
			Containers: []v1.Container{{
				Name: "main", Image: "registry.example/worker",
				Resources: v1.ResourceRequirements{Limits: amounts, Requests: amounts},
			}},
		},
	}
}

// turn schedules the pods from one to another, and counts what that takes.
func (p *pass) turn(t testing.TB, from, to int) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cpuSeconds(t)
	for i := from; i < to; i++ {
		p.cycle(t, i)
	}
	p.seconds += cpuSeconds(t) - began
	runtime.ReadMemStats(&after)
	p.mallocs += float64(after.Mallocs - before.Mallocs)
	p.world.client.ClearActions()
}

// cycle is what kube-scheduler does for one pod, but that it binds in a goroutine of its own.
func (p *pass) cycle(t testing.TB, i int) {
	t.Helper()
	w, logger := p.world, klog.FromContext(p.world.ctx)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	state := framework.NewCycleState()
	state.SetRecordPluginMetrics(i%metricsEvery == 0)
	if err := w.scheduler.Cache.UpdateSnapshot(logger, w.snapshot); err != nil {
		t.Fatal(err)
	}
	result, err := w.scheduler.SchedulePod(ctx, w.profile, state, p.pods[i])
	if err != nil {
		t.Fatalf("%s: pod %d: %v", w.name, i, err)
	}
	p.refused += result.EvaluatedNodes - result.FeasibleNodes
	pod, node := p.pods[i].Pod.DeepCopy(), result.SuggestedHost
	pod.Spec.NodeName = node
	if err := w.scheduler.Cache.AssumePod(logger, pod); err != nil {
		t.Fatal(err)
	}
	p.assumed = append(p.assumed, pod)
	if s := w.profile.RunReservePluginsReserve(ctx, state, pod, node); !s.IsSuccess() {
		t.Fatal(s)
	}
	if _, s := w.profile.RunPermitPlugins(ctx, state, pod, node); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := w.profile.RunPreBindPlugins(ctx, state, pod, node); !s.IsSuccess() {
		t.Fatal(s)
	}
	if s := w.profile.RunBindPlugins(ctx, state, pod, node); !s.IsSuccess() {
		t.Fatal(s)
	}
	w.profile.RunPostBindPlugins(ctx, state, pod, node)
}

// end takes all pods away again and returns how many GPUs each node had in use.
func (p *pass) end(t testing.TB) map[string]int64 {
	t.Helper()
	used := map[string]int64{}
	for i, pod := range p.assumed {
		gpus := pod.Spec.Containers[0].Resources.Limits[gpuResource]
		used[pod.Spec.NodeName] += gpus.Value()
		if err := p.world.scheduler.Cache.ForgetPod(klog.FromContext(p.world.ctx), pod); err != nil {
			t.Fatal(err)
		}
		p.world.engine.Ledger().Release(ledger.PodUID(pod.UID))
		if err := p.world.pods.Delete(p.pods[i].Pod); err != nil {
			t.Fatal(err)
		}
	}
	return used
}

// cpuSeconds is the CPU time of this process.
func cpuSeconds(t testing.TB) float64 {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
