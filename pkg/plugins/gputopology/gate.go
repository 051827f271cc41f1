package gputopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

// GateName is the name of the plugin GPUCapacityGate in a KubeSchedulerConfiguration.
const GateName = "GPUCapacityGate"

// Gate keeps pods out of the scheduling queue while no node has the cards that they ask for:
//
//	PostFilter    parks the pod whose attempt failed, if no node has its cards now; after preemption, which comes first
//	PreEnqueue    keeps it parked; the scheduler asks no hint of a parked pod, whatever happens in the cluster
//
// The engine wakes it when a node may have its cards, and after five minutes the scheduler itself. So a pod of which nobody can
// know whether it fits is never held back, and one that waits costs nothing: in a full cluster with 10 000 pods that wait, the
// scheduler would otherwise ask the hints of each of them about each pod that ends.
//
// It is a plugin of its own since the scheduler asks the hints of a parked pod only about the events of the plugin that parked it:
// Gate has none, GPUTopology has many.
type Gate struct {
	engine *engine.Engine
	handle fwk.Handle
}

var (
	_ fwk.PreEnqueuePlugin  = &Gate{}
	_ fwk.PostFilterPlugin  = &Gate{}
	_ fwk.EnqueueExtensions = &Gate{}
)

// NewGate returns the factory of GPUCapacityGate for a process whose state is shared. Without GPUTopology in its profile it does
// nothing.
func NewGate(shared *engine.Engine) frameworkruntime.PluginFactory {
	return func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return &Gate{engine: shared, handle: handle}, nil
	}
}

// Name returns the plugin's name.
func (*Gate) Name() string { return GateName }

// EventsToRegister returns none: no event of the scheduler ends what Gate waits for.
func (*Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

// PreEnqueue refuses a pod that stays parked. What its user reads is what its last attempt said.
func (g *Gate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if g.engine.Parked(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no node has as many free GPUs as the pod asks for")
	}
	return nil
}

// PostFilter parks a pod of no gang that lacks cards on every node. Gangs are woken by the book.
func (g *Gate) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s := requestOf(state)
	if s != nil && !s.member && pod.Spec.SchedulingGroup == nil && g.engine.Park(pod, s.request) {
		// The scheduler puts a pod whose attempt failed aside without PreEnqueue, unless somebody wanted it tried meanwhile.
		g.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}
