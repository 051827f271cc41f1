package config

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// topologySpreadKind is the kind of TopologySpreadArgs: the scheduler looks for the arguments of a plugin under its name and
// "Args".
const topologySpreadKind = "PodTopologySpreadTunedArgs"

// The default and the highest value of TopologySpreadArgs.maxConstraintSets.
const (
	defaultMaxConstraintSets = 256
	highestMaxConstraintSets = 10_000
)

// TopologySpreadArgs are the arguments of the plugin PodTopologySpreadTuned; their kind is PodTopologySpreadTunedArgs.
type TopologySpreadArgs struct {
	metav1.TypeMeta `json:",inline"`

	// DefaultConstraints are the constraints of pods that have none. As in PodTopologySpreadArgs they have no labelSelector, and
	// defaultingType must be List where there are any.
	DefaultConstraints []v1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	// DefaultingType is System (the constraints that Kubernetes defines: hosts and zones, both soft) or List
	// (DefaultConstraints). Default: System.
	DefaultingType schedulerconfig.PodTopologySpreadConstraintsDefaulting `json:"defaultingType,omitempty"`
	// GangAware has soft constraints leave the members of a gang together where its plan puts them, hard ones at the levels zone
	// and region count gangs instead of pods, and refuses a gang whose constraints contradict the domain that it requires.
	// Default: true.
	GangAware *bool `json:"gangAware,omitempty"`
	// IgnoreNonGPUNodes leaves domains without a node that has the GPUs a pod asks for out of the minimum of its hard
	// constraints. Default: true.
	IgnoreNonGPUNodes *bool `json:"ignoreNonGPUNodes,omitempty"`
	// MaxConstraintSets bounds the constraint sets whose counts are kept, those used last. The process keeps as many as the
	// profile with the most allows. 1 to 10000. Default: 256.
	MaxConstraintSets *int32 `json:"maxConstraintSets,omitempty"`
}

// SetTopologySpreadDefaults fills in what the file leaves out.
func SetTopologySpreadDefaults(args *TopologySpreadArgs) {
	if args.DefaultingType == "" {
		args.DefaultingType = schedulerconfig.SystemDefaulting
	}
	if args.GangAware == nil {
		args.GangAware = pointer(true)
	}
	if args.IgnoreNonGPUNodes == nil {
		args.IgnoreNonGPUNodes = pointer(true)
	}
	if args.MaxConstraintSets == nil {
		args.MaxConstraintSets = pointer(int32(defaultMaxConstraintSets))
	}
}

// ValidateTopologySpread returns every fault of arguments that SetTopologySpreadDefaults has been at, each with its field and
// value; nil without any. The constraints are held to what holds for those of PodTopologySpreadArgs, and their optional fields, which
// the in-tree plugin takes as they are, to what the API asks of those of a pod.
func ValidateTopologySpread(args *TopologySpreadArgs) error {
	var errs []error
	inTree := schedulerconfig.PodTopologySpreadArgs{DefaultConstraints: args.DefaultConstraints, DefaultingType: args.DefaultingType}
	if err := validation.ValidatePodTopologySpreadArgs(nil, &inTree); err != nil {
		errs = append(errs, err)
	}
	for i := range args.DefaultConstraints {
		errs = append(errs, validateOptional(field.NewPath("defaultConstraints").Index(i), &args.DefaultConstraints[i])...)
	}
	if args.GangAware == nil {
		errs = append(errs, field.Required(field.NewPath("gangAware"), "must be true or false"))
	}
	if args.IgnoreNonGPUNodes == nil {
		errs = append(errs, field.Required(field.NewPath("ignoreNonGPUNodes"), "must be true or false"))
	}
	if n := args.MaxConstraintSets; n == nil || *n < 1 || *n > highestMaxConstraintSets {
		errs = append(errs, field.Invalid(field.NewPath("maxConstraintSets"), printed(n), "must be from 1 to 10000"))
	}
	return utilerrors.NewAggregate(errs)
}

// validateOptional returns the faults of the fields that a constraint may leave out.
func validateOptional(at *field.Path, c *v1.TopologySpreadConstraint) (errs []error) {
	if n := c.MinDomains; n != nil && (*n < 1 || c.WhenUnsatisfiable != v1.DoNotSchedule) {
		errs = append(errs, field.Invalid(at.Child("minDomains"), *n, "must be 1 or more, with whenUnsatisfiable DoNotSchedule"))
	}
	known := []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore}
	for _, p := range []struct {
		name   string
		policy *v1.NodeInclusionPolicy
	}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
		if p.policy != nil && !slices.Contains(known, *p.policy) {
			errs = append(errs, field.NotSupported(at.Child(p.name), *p.policy, known))
		}
	}
	for i, key := range c.MatchLabelKeys {
		for _, err := range metav1validation.ValidateLabelName(key, at.Child("matchLabelKeys").Index(i)) {
			errs = append(errs, err)
		}
	}
	return errs
}

// addTopologySpread enters the arguments into a scheme, under the kind that goes with the plugin's name, with their defaults.
func addTopologySpread(s *runtime.Scheme, versions ...schema.GroupVersion) {
	for _, v := range versions {
		s.AddKnownTypeWithName(v.WithKind(topologySpreadKind), &TopologySpreadArgs{})
	}
	s.AddTypeDefaultingFunc(&TopologySpreadArgs{}, func(object any) {
		if args, ok := object.(*TopologySpreadArgs); ok {
			SetTopologySpreadDefaults(args)
		}
	})
}

// DeepCopyInto copies into out, which shares no memory with the receiver afterwards.
func (args *TopologySpreadArgs) DeepCopyInto(out *TopologySpreadArgs) {
	*out = *args
	out.DefaultConstraints = slices.Clone(args.DefaultConstraints)
	for i := range out.DefaultConstraints {
		args.DefaultConstraints[i].DeepCopyInto(&out.DefaultConstraints[i])
	}
	out.GangAware, out.IgnoreNonGPUNodes, out.MaxConstraintSets = copied(args.GangAware), copied(args.IgnoreNonGPUNodes), copied(args.MaxConstraintSets)
}

// DeepCopy returns a copy.
func (args *TopologySpreadArgs) DeepCopy() *TopologySpreadArgs {
	if args == nil {
		return nil
	}
	out := new(TopologySpreadArgs)
	args.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (args *TopologySpreadArgs) DeepCopyObject() runtime.Object {
	if args == nil {
		return nil
	}
	return args.DeepCopy()
}
