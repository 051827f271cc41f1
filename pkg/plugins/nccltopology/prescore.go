package nccltopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// PreScore reads where the pod's gang is and how full the domains of the nodes are. It skips pods for which other steps have
// decided or that take no GPUs: planned members have one node, and a native group's cycle compares whole placements.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		return fwk.NewStatus(fwk.Skip)
	}
	asked, err := p.engine.RequestOf(pod)
	if err != nil || asked == nil {
		return fwk.NewStatus(fwk.Skip) // GPUTopology refuses a request that cannot be read
	}
	s := &scoring{request: asked, fabric: p.engine.Fabric(), hinted: p.engine.Hinted()}
	if total, ok := asked.Plain(); ok {
		s.plain = total
	}
	company := book.Company{Waiting: 1}
	if _, member := book.KeyOf(pod); member {
		if p.engine.Gangs().Planned(ledger.PodUID(pod.UID)) != nil {
			return fwk.NewStatus(fwk.Skip)
		}
		company = p.engine.Gangs().MatesOf(pod)
	}
	if s.fabric != nil {
		s.mates = newMates(s.fabric, company.Nodes)
		s.room = p.newRoom(s.fabric, nodes, cardsWanted(pod, company.Waiting))
		p.hints.tidy(s.fabric)
	}
	state.Write(scoringKey, s)
	return nil
}

// cardsWanted is what a pod and the members that wait beside it want together, in whole cards; 0 for a pod that is the last:
// Filter has found that every node in question holds it.
func cardsWanted(pod *v1.Pod, waiting int) int {
	if waiting <= 1 {
		return 0
	}
	cards, _ := request.FromPodForeign(pod)
	return cards * waiting
}
