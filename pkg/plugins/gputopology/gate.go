package gputopology

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

// GateName is the name of the plugin GPUCapacityGate in a KubeSchedulerConfiguration.
const GateName = engine.GateName

// Gate keeps pods out of the scheduling queue while no node has the cards that they ask for:
//
//	PostFilter    parks the pod whose attempt failed, if no node that admits it has its cards now, and it preempts nobody
//	PreEnqueue    keeps it parked; the scheduler asks no hint of a parked pod, whatever happens to others
//
// Members of gangs are kept out in the same way, by Coscheduling's PostFilter, while the first of their gang is tried in their stead.
//
// The engine wakes it when a node may have its cards, and after five minutes the scheduler itself. So a pod of which nobody can
// know whether it fits is never held back, and one that waits costs nothing: in a full cluster with 10 000 pods that wait, the
// scheduler would otherwise ask the hints of each of them about each pod that ends.
//
// It is a plugin of its own since the scheduler asks the hints of a parked pod only about the events of the plugin that parked it:
// Gate has but one, GPUTopology has many.
type Gate struct {
	engine *engine.Engine
	handle fwk.Handle
	// admission reports whether the profile filters nodes by what the engine takes for granted.
	admission func() bool
}

// admissionFilters are the filters by which the engine tells that a node does not admit a pod.
var admissionFilters = []string{names.NodeAffinity, names.NodeUnschedulable, names.TaintToleration}

var (
	_ fwk.PreEnqueuePlugin  = &Gate{}
	_ fwk.PostFilterPlugin  = &Gate{}
	_ fwk.EnqueueExtensions = &Gate{}
)

// NewGate returns the factory of GPUCapacityGate for a process whose state is shared. In a profile without GPUTopology, or without one
// of the filters NodeAffinity, NodeUnschedulable and TaintToleration, it parks nobody.
func NewGate(shared *engine.Engine) frameworkruntime.PluginFactory {
	return func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		// A profile's plugins are known once all of them are built.
		return &Gate{engine: shared, handle: handle, admission: sync.OnceValue(func() bool { return engine.Filters(handle, admissionFilters...) })}, nil
	}
}

// Name returns the plugin's name.
func (*Gate) Name() string { return GateName }

// EventsToRegister has PreEnqueue asked again when the pod itself is changed. No other event ends what Gate waits for.
func (*Gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}}}, nil // without a hint: always
}

// PreEnqueue refuses a pod that stays parked. What its user reads is what its last attempt said.
func (g *Gate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	switch {
	case g.engine.Parked(pod):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no node has as many free GPUs as the pod asks for")
	case g.engine.Gangs().Follows(pod):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the first waiting member of its gang is tried for all of them")
	}
	return nil
}

// PostFilter parks a pod of no gang that lacks cards on every node. Gangs are woken by the book. One that was woken before the
// scheduler's cache had heard why is tried again at once: it would back off, with its cards free.
func (g *Gate) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s := requestOf(state)
	if s == nil || !g.admission() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	logger, self := klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod}
	switch {
	case g.engine.Park(pod, s.request):
		// The scheduler puts a pod whose attempt failed aside without PreEnqueue, unless somebody wanted it tried meanwhile.
		g.handle.Activate(logger, self)
	case g.engine.Early(pod, s.request, g.handle.SnapshotSharedLister().NodeInfos()):
		time.AfterFunc(engine.Settle, func() { g.handle.Activate(logger, self) })
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}
