package config

import (
	"errors"
	"fmt"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The defaults of NCCLTopologyArgs.
const (
	defaultPCIWeight     = 0.4
	defaultNVLinkWeight  = 0.6
	defaultMaxPlacements = 64
)

// NCCLTopologyArgs are the arguments of the plugin NCCLTopology. All profiles of a process must have the same.
type NCCLTopologyArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Levels replaces the built-in vocabulary of node labels that describe the fabric. Each level stands once: host,
	// nvlink, leaf (or rack), spine, core, zone, region. Default: the labels of topograph, GKE, EKS, OCI, CoreWeave, Nebius,
	// Crusoe, Lingjun, GPU Feature Discovery and Kubernetes itself (topology.DefaultLevels).
	Levels []FabricLevel `json:"levels,omitempty"`
	// PCIWeight and NVLinkWeight are the parts of PCI proximity and of NVLink bandwidth in the score of a lone node. Each
	// is 0 to 1, and together they are 1. Default: 0.4 and 0.6.
	PCIWeight    *float64 `json:"pciWeight,omitempty"`
	NVLinkWeight *float64 `json:"nvlinkWeight,omitempty"`
	// AllowCrossZone lets a gang stand in several zones. Default: false.
	AllowCrossZone bool `json:"allowCrossZone,omitempty"`
	// MaxPlacements bounds the domains that are offered to one cycle of a native pod group, narrow ones first; the framework
	// tries each of them. 1 to 1000. Default: 64.
	MaxPlacements *int32 `json:"maxPlacements,omitempty"`
}

// FabricLevel says which labels describe one level.
type FabricLevel struct {
	// Level is the name of the level.
	Level string `json:"level"`
	// Keys in order of preference: the first that a node carries with a value counts.
	Keys []FabricKey `json:"keys"`
}

// FabricKey is the key of a node label.
type FabricKey struct {
	// Key is the label's key.
	Key string `json:"key"`
	// Prefix, unless empty, is one character: only the part of the value before it names the domain.
	Prefix string `json:"prefix,omitempty"`
}

// SetNCCLDefaults fills in what the file leaves out.
func SetNCCLDefaults(args *NCCLTopologyArgs) {
	switch {
	case args.PCIWeight == nil && args.NVLinkWeight == nil:
		args.PCIWeight, args.NVLinkWeight = pointer(defaultPCIWeight), pointer(defaultNVLinkWeight)
	case args.PCIWeight == nil:
		args.PCIWeight = pointer(1 - *args.NVLinkWeight)
	case args.NVLinkWeight == nil:
		args.NVLinkWeight = pointer(1 - *args.PCIWeight)
	}
	if args.MaxPlacements == nil {
		args.MaxPlacements = pointer(int32(defaultMaxPlacements))
	}
}

func pointer[T any](v T) *T { return &v }

// ValidateNCCL returns every fault of arguments that SetNCCLDefaults has been at, each with its field and value; nil
// without any.
func ValidateNCCL(args *NCCLTopologyArgs) error {
	var errs field.ErrorList
	weight := func(name string, w *float64) float64 {
		if w == nil || math.IsNaN(*w) || *w < 0 || *w > 1 {
			errs = append(errs, field.Invalid(field.NewPath(name), printed(w), "must be from 0 to 1"))
			return math.NaN()
		}
		return *w
	}
	sum := weight("pciWeight", args.PCIWeight) + weight("nvlinkWeight", args.NVLinkWeight)
	if math.Abs(sum-1) > 1e-9 { // false for NaN, which was reported
		errs = append(errs, field.Invalid(field.NewPath("nvlinkWeight"), printed(args.NVLinkWeight), fmt.Sprintf("pciWeight and nvlinkWeight together must be 1, not %g", sum)))
	}
	if args.MaxPlacements == nil || *args.MaxPlacements < 1 || *args.MaxPlacements > 1000 {
		errs = append(errs, field.Invalid(field.NewPath("maxPlacements"), printed(args.MaxPlacements), "must be from 1 to 1000"))
	}
	if _, err := args.FabricLevels(); err != nil {
		var spec *topology.SpecError
		if errors.As(err, &spec) {
			errs = append(errs, field.Invalid(field.NewPath(spec.Field), spec.Value, spec.Reason))
		} else {
			errs = append(errs, field.Invalid(field.NewPath("levels"), args.Levels, err.Error()))
		}
	}
	return errs.ToAggregate()
}

func printed[T any](v *T) any {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprint(*v)
}

// FabricLevels returns the levels as package topology wants them; none for the built-in vocabulary. The error is a
// *topology.SpecError.
func (args *NCCLTopologyArgs) FabricLevels() ([]topology.LevelKeys, error) {
	out := make([]topology.LevelKeys, 0, len(args.Levels))
	for i, l := range args.Levels {
		level, err := topology.ParseLevel(l.Level)
		if err != nil {
			return nil, &topology.SpecError{Field: fmt.Sprintf("levels[%d].level", i), Value: l.Level, Reason: err.Error()}
		}
		keys := topology.LevelKeys{Level: level}
		for _, k := range l.Keys {
			keys.Keys = append(keys.Keys, topology.LabelKey{Key: k.Key, Prefix: k.Prefix})
		}
		out = append(out, keys)
	}
	if err := topology.ValidateLevels(out); err != nil {
		return nil, err
	}
	return out, nil
}

// DeepCopyInto copies into out, which shares no memory with the receiver afterwards.
func (args *NCCLTopologyArgs) DeepCopyInto(out *NCCLTopologyArgs) {
	*out = *args
	out.Levels = slices.Clone(args.Levels)
	for i := range out.Levels {
		out.Levels[i].Keys = slices.Clone(out.Levels[i].Keys)
	}
	if args.PCIWeight != nil {
		out.PCIWeight = pointer(*args.PCIWeight)
	}
	if args.NVLinkWeight != nil {
		out.NVLinkWeight = pointer(*args.NVLinkWeight)
	}
	if args.MaxPlacements != nil {
		out.MaxPlacements = pointer(*args.MaxPlacements)
	}
}

// DeepCopy returns a copy.
func (args *NCCLTopologyArgs) DeepCopy() *NCCLTopologyArgs {
	if args == nil {
		return nil
	}
	out := new(NCCLTopologyArgs)
	args.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (args *NCCLTopologyArgs) DeepCopyObject() runtime.Object {
	if args == nil {
		return nil
	}
	return args.DeepCopy()
}
