package observe

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

func (o *Observer) claimHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    o.claimEvent,
		UpdateFunc: func(_, c any) { o.claimEvent(c) },
	}
}

// claimEvent charges the pods of a claim anew: the claim may have come, or been allocated, after its pod was bound.
func (o *Observer) claimEvent(event any) {
	claim, ok := objectOf[*resourcev1.ResourceClaim](o.logger, event)
	if !ok || claim.Status.Allocation == nil {
		return
	}
	for _, user := range claim.Status.ReservedFor {
		if user.APIGroup != "" || user.Resource != "pods" {
			continue
		}
		pod, err := o.pods.Pods(claim.Namespace).Get(user.Name)
		if err == nil && pod.UID == user.UID {
			o.chargeClaims(pod)
		}
	}
}

// chargeClaims counts the claims of a bound pod anew. The cards that the ledger has for it stay, whatever its record says
// by now.
func (o *Observer) chargeClaims(pod *v1.Pod) {
	held, stage, known := o.ledger.Holding(ledger.PodUID(pod.UID))
	if !known || stage != ledger.StageBound || len(held.Cards) == 0 {
		o.PodSeen(pod)
		return
	}
	if h, ok := o.holdingOf(pod); ok {
		held.UnknownCards, held.UnknownMIG = h.UnknownCards, h.UnknownMIG
		o.adopted(pod, o.ledger.Adopt(held))
	}
}

// claimed counts the GPUs that a pod holds through ResourceClaims. Which cards they are is left open: the ledger sets
// that many free ones aside. A claim that cannot be seen yet counts as one GPU on a node whose GPUs a DRA driver may offer,
// until claimEvent has seen it.
func (o *Observer) claimed(pod *v1.Pod) int {
	if o.claims == nil {
		return 0
	}
	gpus := 0
	for _, name := range claimNames(pod) {
		claim, err := o.claims.ResourceClaims(pod.Namespace).Get(name)
		switch {
		case err == nil && claim.Status.Allocation != nil:
			gpus += gpusOf(claim)
		case o.mayOfferDRA(pod.Spec.NodeName):
			gpus++
		}
	}
	return gpus
}

// claimNames lists the claims of a pod, named ones and ones made from a template. The claim that stands for extended
// resources is left out: those are charged as the requests that they are.
func claimNames(pod *v1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
		}
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names = append(names, *s.ResourceClaimName)
		}
	}
	return names
}

func gpusOf(claim *resourcev1.ResourceClaim) int {
	if claim.Status.Allocation == nil {
		return 0
	}
	gpus := 0
	for _, device := range claim.Status.Allocation.Devices.Results {
		if device.Driver == inventory.DRADriver {
			gpus++
		}
	}
	return gpus
}

// mayOfferDRA is true for a node that is not known yet too.
func (o *Observer) mayOfferDRA(node string) bool {
	return o.ledger.Node(ledger.NodeName(node)) == nil || o.offersDRA(node)
}

func (o *Observer) offersDRA(node string) bool {
	a := o.ledger.Node(ledger.NodeName(node))
	return a != nil && a.Topology != nil && a.Topology.Source() == inventory.SourceDRA
}
