package gputopology

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// PreFilter reads the request. It skips pods without GPUs, refuses input that cannot be understood with the field and value
// at fault, and holds every GPU pod back until the ledger knows all bound pods.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	asked, err := p.requestOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	p.engine.Placing()
	if asked == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := record.Check(asked, p.args.RecordDialects); err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if err := p.engine.TakeOver(ctx, p.handle); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if held, stage, ok := p.engine.Ledger().Holding(ledger.PodUID(pod.UID)); ok {
		switch stage {
		case ledger.StageUnknown:
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, engine.ErrBindUnknown.Error())
		case ledger.StageBound:
			// The queue entry is older than the bind: nothing may be chosen or written again.
			klog.FromContext(ctx).V(2).Info("Pod is already bound", "pod", klog.KObj(pod), "node", held.Node)
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pod is already bound to node "+string(held.Node))
		case ledger.StageAssumed:
			// A cycle of a native pod group may plan again over its own reservation, and a member's plan holds its cards.
			// Anything else is left over: a pod's next cycle begins after the last one has ended.
			if uid := ledger.PodUID(pod.UID); !state.IsPodGroupSchedulingCycle() && p.engine.Gangs().Planned(uid) == nil && p.engine.ForgetIdle(uid) {
				metrics.DriftRepairs.WithLabelValues(metrics.LeftOver).Inc()
				klog.FromContext(ctx).Info("Reservation of an earlier cycle was left over and is given back", "pod", klog.KObj(pod), "node", held.Node)
			}
		}
	}
	_, member := book.KeyOf(pod)
	state.Write(requestKey, &requestState{
		request: asked, reasons: plainReasons(asked), member: member, terminating: p.engine.Observer().AnyTerminating(),
	})
	return nil, nil
}

// PreFilterExtensions returns the dry-run steps of preemption.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// requestOf returns nil for a pod without GPUs, and the profile's default NUMA policy where the pod names none.
func (p *Plugin) requestOf(pod *v1.Pod) (*allocate.Request, error) {
	return request.FromPodWithDefaults(pod, p.args.RequestDefaults())
}

// AddPod puts a pod on a node for a dry run: one that the ledger knows with the cards it holds, another one (nominated,
// not placed yet) with the cards it would be given.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, toAdd fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	s, before := p.dryRun(state, node)
	if before == nil {
		return nil
	}
	pod := toAdd.GetPod()
	uid := ledger.PodUID(pod.UID)
	held, _, known := p.engine.Ledger().Holding(uid)
	switch {
	case !known || held.Node != before.Name:
		var status *fwk.Status
		if held, status = p.wouldHold(s, before, pod); held.UID == "" {
			return status
		}
	case !s.removed[uid]:
		return nil // the node counts it already
	}
	after, err := before.With(held)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("dry run: add pod %s/%s to node %s: %w", pod.Namespace, pod.Name, before.Name, err))
	}
	delete(s.removed, uid)
	s.adjust(after)
	return nil
}

// wouldHold returns what a pod that is not placed yet would be given on the node. It has no UID for a pod that would get
// nothing: one without GPUs, or one that waits for cards to come free, to whom the node is promised then.
func (p *Plugin) wouldHold(s *requestState, a *ledger.NodeGPUAllocation, pod *v1.Pod) (ledger.Holding, *fwk.Status) {
	asked, err := p.requestOf(pod)
	if err != nil || asked == nil || a.Topology == nil {
		return ledger.Holding{}, nil // a request that cannot be read is refused in its own cycle
	}
	choice, rejection, err := p.engine.Chooser().Choose(&a.View, asked)
	if err != nil {
		return ledger.Holding{}, fwk.AsStatus(err)
	}
	if rejection != nil {
		s.promise(a.Name)
		return ledger.Holding{}, nil
	}
	return ledger.Holding{UID: ledger.PodUID(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Node: a.Name, Cards: choice.Cards}, nil
}

// RemovePod takes a pod from a node for a dry run: exactly the cards that the ledger has for it come free.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, toRemove fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	s, before := p.dryRun(state, node)
	if before == nil {
		return nil
	}
	pod := toRemove.GetPod()
	held, _, known := p.engine.Ledger().Holding(ledger.PodUID(pod.UID))
	if !known || held.Node != before.Name {
		return nil
	}
	after, err := before.Without(held)
	if errors.Is(err, ledger.ErrNotHeld) && s.adjusted[before.Name] == nil {
		// The pod came between the reading of the node and of its holding.
		if before = p.engine.Ledger().Node(before.Name); before != nil {
			after, err = before.Without(held)
		}
	}
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("dry run: remove pod %s/%s from node %s: %w", pod.Namespace, pod.Name, held.Node, err))
	}
	s.remove(held.UID)
	s.adjust(after)
	return nil
}

// dryRun returns the node as the dry run has left it so far; nil where there is nothing to change.
func (p *Plugin) dryRun(state fwk.CycleState, node fwk.NodeInfo) (*requestState, *ledger.NodeGPUAllocation) {
	s := requestOf(state)
	if s == nil || node.Node() == nil {
		return nil, nil
	}
	return s, p.allocation(s, node)
}

// allocation returns the node as this cycle sees it, nil for a node without GPUs.
func (p *Plugin) allocation(s *requestState, node fwk.NodeInfo) *ledger.NodeGPUAllocation {
	if len(s.adjusted) > 0 {
		if a, ok := s.adjusted[ledger.NodeName(node.Node().Name)]; ok {
			return a
		}
	}
	return p.engine.AllocationOf(node)
}
