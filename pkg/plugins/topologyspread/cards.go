package topologyspread

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
)

const (
	// productLabel is the label by which GPU Feature Discovery names the product of a node's cards.
	productLabel = "nvidia.com/gpu.product"
	migPrefix    = "nvidia.com/mig-"
	wholeCards   = v1.ResourceName("nvidia.com/gpu")
)

// cards is the kind of GPUs that a pod asks for: with ignoreNonGPUNodes, only nodes that have it give a domain standing.
type cards struct {
	// products are the values of productLabel that the pod accepts, ascending; empty for any.
	products []string
	// instances are resources of MIG instances that a node must offer, ascending; none for whole cards and shares.
	instances []string
}

// cardsOf returns nil for a pod for which every node gives standing.
func (p *Plugin) cardsOf(pod *v1.Pod) *cards {
	if !*p.args.IgnoreNonGPUNodes {
		return nil
	}
	asked, err := p.engine.RequestOf(pod)
	if err != nil || asked == nil {
		return nil // GPUTopology refuses a request that cannot be read
	}
	c := &cards{products: productsOf(&pod.Spec)}
	for i := range asked.Claims {
		if claim := &asked.Claims[i]; claim.Kind == allocate.KindMIG {
			c.instances = append(c.instances, migPrefix+claim.Profile)
		}
	}
	slices.Sort(c.instances)
	c.instances = slices.Compact(c.instances)
	return c
}

// productsOf returns the products that a pod's node selector or required affinity allows, nil for any.
func productsOf(spec *v1.PodSpec) []string {
	if product, ok := spec.NodeSelector[productLabel]; ok {
		return []string{product}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	var out []string
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		at := slices.IndexFunc(term.MatchExpressions, func(r v1.NodeSelectorRequirement) bool {
			return r.Key == productLabel && r.Operator == v1.NodeSelectorOpIn
		})
		if at < 0 {
			return nil // one way to satisfy the affinity names no product
		}
		out = append(out, term.MatchExpressions[at].Values...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// on reports whether a node has the cards, used or not. What the node object says decides; the ledger is asked for nodes of
// which only ResourceSlices speak.
func (c *cards) on(e *engine.Engine, info fwk.NodeInfo) bool {
	if c == nil {
		return true
	}
	node := info.Node()
	if len(c.products) > 0 && !slices.Contains(c.products, node.Labels[productLabel]) {
		return false
	}
	offers := info.GetAllocatable().GetScalarResources()
	for _, instance := range c.instances {
		if offers[v1.ResourceName(instance)] <= 0 {
			return false
		}
	}
	if len(c.instances) > 0 || offers[wholeCards] > 0 || inventory.Describes(node) {
		return true
	}
	a := e.AllocationOf(info)
	return a != nil && a.Topology != nil && a.Topology.Len() > 0
}

// write adds the cards to a key.
func (c *cards) write(k *keyWriter) {
	k.flag(c != nil)
	if c != nil {
		k.texts(c.products)
		k.texts(c.instances)
	}
}
