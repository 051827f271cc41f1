package nccltopology

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// wide reports whether all nodes are to be looked at for a pod:
//
//   - members of gangs, which have a node by plan or stand near their mates,
//   - pods that were promised a node, and those of which no node of a shortlist served,
//   - pods that other plugins have something to say about that is not known of a node by itself: required or preferred affinity to
//     other pods, preferred nodes, topology spread, volumes that are not reached from everywhere, devices of DRA, extenders.
func (p *Plugin) wide(pod *v1.Pod) bool {
	spec := &pod.Spec
	if book.InGroup(pod) || pod.Status.NominatedNodeName != "" || len(spec.ResourceClaims) > 0 || len(spec.TopologySpreadConstraints) > 0 {
		return true
	}
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil ||
		a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0) {
		return true
	}
	return p.widened.has(pod) || p.spread(pod) || !p.reachable(pod) ||
		slices.ContainsFunc(p.handle.Extenders(), func(e fwk.Extender) bool { return e.IsInterested(pod) })
}

// spread reports whether default constraints, where there are any, spread the pod: it has a controller whose pods are alike, or is
// behind a Service.
func (p *Plugin) spread(pod *v1.Pod) bool {
	if engine.SpreadByController(pod) {
		return true
	}
	services, err := helper.GetPodServices(p.services, pod)
	return err != nil || len(services) > 0
}

// zoneLabels are the labels of a volume that the plugin VolumeZone goes by.
var zoneLabels = []string{v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion}

// reachable reports whether the pod's volumes are reached from every node, as those of a network file system: each claim is bound, to a
// volume that names neither nodes nor a zone.
func (p *Plugin) reachable(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral != nil {
			return false // its claim has just been made
		}
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(v.PersistentVolumeClaim.ClaimName)
		if err != nil || claim.Spec.VolumeName == "" {
			return false
		}
		volume, err := p.volumes.Get(claim.Spec.VolumeName)
		if err != nil || volume.Spec.NodeAffinity != nil {
			return false
		}
		for _, label := range zoneLabels {
			if _, zoned := volume.Labels[label]; zoned {
				return false
			}
		}
	}
	return true
}

// asker is what a pod wants of a node besides cards.
type asker struct {
	pod      *v1.Pod
	needs    fwk.Resource
	affinity nodeaffinity.RequiredNodeAffinity
	dialects []string
}

func (p *Plugin) askerOf(pod *v1.Pod) *asker {
	a := &asker{pod: pod, needs: engine.NeedsOf(pod), affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	if args := p.engine.Profile(pod.Spec.SchedulerName); args != nil {
		a.dialects = args.RecordDialects
	}
	return a
}

// serves reports whether a node, of which the cards are known to serve, admits the pod and has room for it.
func (p *Plugin) serves(a *asker, info fwk.NodeInfo) bool {
	node := info.Node()
	if !engine.Tolerated(node, a.pod.Spec.Tolerations) || !hasRoom(info, a.needs) || !nodeports.Fits(a.pod, info) {
		return false
	}
	if ok, err := a.affinity.Match(node); err != nil || !ok {
		return false // a selector that cannot be read is refused by Filter
	}
	if p.engine.Observer().Avoided(node.Name) {
		return false
	}
	if len(a.dialects) == 0 {
		return true
	}
	cards := p.engine.Ledger().Node(ledger.NodeName(node.Name))
	return cards != nil && record.CheckNode(cards.Topology, node.Name, a.dialects) == nil
}

// hasRoom reports whether a node has what a pod needs left, as NodeResourcesFit counts it.
func hasRoom(info fwk.NodeInfo, needs fwk.Resource) bool {
	has, used := info.GetAllocatable(), info.GetRequested()
	within := func(need, has, used int64) bool { return need <= 0 || need <= has-used }
	if len(info.GetPods()) >= has.GetAllowedPodNumber() || !within(needs.GetMilliCPU(), has.GetMilliCPU(), used.GetMilliCPU()) ||
		!within(needs.GetMemory(), has.GetMemory(), used.GetMemory()) ||
		!within(needs.GetEphemeralStorage(), has.GetEphemeralStorage(), used.GetEphemeralStorage()) {
		return false
	}
	for name, need := range needs.GetScalarResources() {
		if request.Counted(name) && !within(need, has.GetScalarResources()[name], used.GetScalarResources()[name]) {
			return false
		}
	}
	return true
}
