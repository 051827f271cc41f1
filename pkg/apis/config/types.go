package config

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// NUMAPolicy says what pods want of the NUMA nodes of their cards.
type NUMAPolicy string

// The NUMA policies.
const (
	// NUMAPolicyNone ignores NUMA nodes.
	NUMAPolicyNone NUMAPolicy = "None"
	// NUMAPolicyPrefer picks the set on fewer NUMA nodes among sets of equal bandwidth.
	NUMAPolicyPrefer NUMAPolicy = "Prefer"
	// NUMAPolicyRequire accepts only cards of one NUMA node.
	NUMAPolicyRequire NUMAPolicy = "Require"
)

// NodePacking says which of two nodes that serve a pod equally fast is better.
type NodePacking string

// The ways of packing.
const (
	// NodePackingPack takes the node with fewer free cards, so that large pods find whole nodes.
	NodePackingPack NodePacking = "Pack"
	// NodePackingSpread takes the node with more free cards.
	NodePackingSpread NodePacking = "Spread"
)

// GPUTopologyArgs are the arguments of the plugin GPUTopology.
type GPUTopologyArgs struct {
	metav1.TypeMeta `json:",inline"`

	// NUMAPolicy is the policy of pods without the annotation gputopology.io/numa-policy: None, Prefer or Require.
	// Default: Prefer.
	NUMAPolicy NUMAPolicy `json:"numaPolicy,omitempty"`
	// NodePacking is Pack or Spread. Default: Pack.
	NodePacking NodePacking `json:"nodePacking,omitempty"`
	// RecordDialects are the node agents whose annotations are written beside the record: hami, koordinator, volcano.
	// Default: none.
	RecordDialects []string `json:"recordDialects,omitempty"`
	// Bandwidths replaces built-in rates, in GB/s of one direction, by the names that BandwidthNames lists. All
	// profiles of a process must have the same. Default: the rates of topology.DefaultRates.
	Bandwidths map[string]float64 `json:"bandwidths,omitempty"`

	// What follows keeps the ledger true. All profiles of a process must have the same.

	// ReconcilePeriod is the time between two sweeps that compare the ledger with the pods of the API; each sweep starts
	// up to a tenth of it later, at random. 1s to 24h. Default: 60s.
	ReconcilePeriod *metav1.Duration `json:"reconcilePeriod,omitempty"`
	// TopologyMaxAge is the age at which an annotation gputopology.io/topology that says when it was observed is stale:
	// the node's cards are closed to new pods then, and keep their holders. 0 never lets one grow stale. Default: 0.
	TopologyMaxAge metav1.Duration `json:"topologyMaxAge,omitempty"`
	// ForceDeleteCooling is how long the cards of a running pod stay held after the pod was deleted without having
	// terminated: its containers may still run. 0 frees them at once. Default: 5s.
	ForceDeleteCooling *metav1.Duration `json:"forceDeleteCooling,omitempty"`
	// AdmissionFailures is how many GPU pods a node's kubelet may fail at admission within a minute before the node is
	// avoided for AdmissionCooling, more than 0. 0 failures never avoid a node. Default: 3 failures, 5m.
	AdmissionFailures *int32           `json:"admissionFailures,omitempty"`
	AdmissionCooling  *metav1.Duration `json:"admissionCooling,omitempty"`
}

// RequestDefaults returns the policies of pods that name none, for request.FromPodWithDefaults. It is a request
// without claims.
func (args *GPUTopologyArgs) RequestDefaults() allocate.Request {
	switch args.NUMAPolicy {
	case NUMAPolicyNone:
		return allocate.Request{NUMA: allocate.NUMANone}
	case NUMAPolicyRequire:
		return allocate.Request{NUMA: allocate.NUMARequire}
	case NUMAPolicyPrefer:
		return allocate.Request{NUMA: allocate.NUMAPrefer}
	}
	return allocate.Request{NUMA: allocate.NUMAPrefer}
}

// ProcessWide returns the arguments that all profiles of a process must have alike; the others are left out.
func (args *GPUTopologyArgs) ProcessWide() *GPUTopologyArgs {
	wide := args.DeepCopy()
	wide.TypeMeta, wide.NUMAPolicy, wide.NodePacking, wide.RecordDialects = metav1.TypeMeta{}, "", "", nil
	return wide
}

// DeepCopyInto copies into out, which shares no memory with the receiver afterwards.
func (args *GPUTopologyArgs) DeepCopyInto(out *GPUTopologyArgs) {
	*out = *args
	out.RecordDialects = slices.Clone(args.RecordDialects)
	out.Bandwidths = maps.Clone(args.Bandwidths)
	out.ReconcilePeriod, out.ForceDeleteCooling = copied(args.ReconcilePeriod), copied(args.ForceDeleteCooling)
	out.AdmissionFailures, out.AdmissionCooling = copied(args.AdmissionFailures), copied(args.AdmissionCooling)
}

// DeepCopy returns a copy.
func (args *GPUTopologyArgs) DeepCopy() *GPUTopologyArgs {
	if args == nil {
		return nil
	}
	out := new(GPUTopologyArgs)
	args.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (args *GPUTopologyArgs) DeepCopyObject() runtime.Object {
	if args == nil {
		return nil
	}
	return args.DeepCopy()
}
