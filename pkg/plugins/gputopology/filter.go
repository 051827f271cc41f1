package gputopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
)

const (
	reasonNoGPUs     = "node(s) had no GPUs"
	reasonNoFacts    = "node(s) had GPUs that no source describes"
	reasonDialect    = "node(s) had GPUs that a record dialect cannot name"
	reasonPromised   = "node(s) had GPUs promised to a nominated pod"
	reasonFailed     = "node(s) had GPUs that failed since they were planned"
	reasonAvoided    = "node(s) lately failed GPU pods at admission"
	reasonPlanned    = "node(s) were not planned for this member of the gang"
	reasonQuarantine = "node(s) had contradicting GPU allocations"
)

// Filter says whether the cards that are free on the node can meet the request. Before it refuses a node that has changed
// it has the ledger catch up with the scheduler's own cache.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	s := requestOf(state)
	if s == nil || node.Node() == nil {
		return nil
	}
	name := node.Node().Name
	if s.member {
		if planned := p.engine.Gangs().Planned(ledger.PodUID(pod.UID)); planned != nil {
			return p.fitsPlan(planned, name)
		}
	}
	a := p.allocation(s, node)
	status := p.fits(ctx, s, pod, name, a)
	if status == nil {
		return nil
	}
	if _, dryRun := s.adjusted[ledger.NodeName(name)]; !dryRun && p.catchUp(a, name, node.GetGeneration()) {
		return p.fits(ctx, s, pod, name, p.allocation(s, node))
	}
	return status
}

// fitsPlan is the answer for a member of a gang that is planned: its cards are held already, on one node.
func (p *Plugin) fitsPlan(planned *book.Planned, node string) *fwk.Status {
	if string(planned.Node) != node {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonPlanned)
	}
	switch a := p.engine.Ledger().Node(planned.Node); {
	case a == nil || a.Topology == nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoFacts)
	case a.Quarantined:
		return fwk.NewStatus(fwk.Unschedulable, reasonQuarantine)
	case !usable(a, planned):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonFailed)
	}
	return nil
}

// usable reports whether the cards of a plan are all still there and sound.
func usable(a *ledger.NodeGPUAllocation, planned *book.Planned) bool {
	for i := range planned.Choice.Cards {
		at := planned.Choice.Cards[i].Index
		if uuid := planned.Choice.Cards[i].UUID; uuid != "" {
			at = a.Topology.IndexOf(uuid)
		}
		if !a.Topology.Usable().Has(at) {
			return false
		}
	}
	return true
}

// fits says whether the cards of a node that are free serve; a is the node, nil for one without GPUs.
func (p *Plugin) fits(ctx context.Context, s *requestState, pod *v1.Pod, node string, a *ledger.NodeGPUAllocation) *fwk.Status {
	switch {
	case a == nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoGPUs)
	case a.Topology == nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoFacts)
	case a.Free.Empty() && a.Topology.Len() == 0:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoGPUs)
	case a.Quarantined:
		return fwk.NewStatus(fwk.Unschedulable, reasonQuarantine)
	}
	if err := record.CheckNode(a.Topology, node, p.args.RecordDialects); err != nil {
		klog.FromContext(ctx).V(5).Info("Node cannot be told which cards to use", "pod", klog.KObj(pod), "node", node, "err", err)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonDialect)
	}
	if p.engine.Observer().Avoided(node) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonAvoided)
	}
	if s.promised[a.Name] {
		return fwk.NewStatus(fwk.Unschedulable, reasonPromised)
	}
	if len(s.reasons) > 0 {
		have, permanent, fits := allocate.FitsPlain(&a.View, len(s.reasons))
		if fits {
			return nil
		}
		p.explain(ctx, s, pod, a)
		return p.refuse(s, s.reasons[have:have+1:have+1], permanent, a)
	}
	rejection := p.engine.Chooser().Fits(&a.View, s.request)
	if rejection == nil {
		return nil
	}
	p.explain(ctx, s, pod, a)
	return p.refuse(s, []string{shortReason + rejection.Short()}, rejection.Permanent, a)
}

// explain logs why each card of the node does not serve, where the log is that verbose.
func (p *Plugin) explain(ctx context.Context, s *requestState, pod *v1.Pod, a *ledger.NodeGPUAllocation) {
	if klog.V(5).Enabled() {
		klog.FromContext(ctx).V(5).Info("Node does not fit", "pod", klog.KObj(pod), "node", a.Name, "reason", p.engine.Chooser().Fits(&a.View, s.request))
	}
}
