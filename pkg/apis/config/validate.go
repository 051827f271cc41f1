package config

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// minGBps is the smallest rate that is not rounded to 0: rates count in MB/s.
	minGBps = 0.001
	// maxGBps is the largest rate that topology accepts.
	maxGBps = 10_000
)

// Validate returns every fault of arguments that SetDefaults has been at, each with its field and value; nil without any.
func Validate(args *GPUTopologyArgs) error { return ValidateArgs(nil, args).ToAggregate() }

// ValidateArgs is Validate for arguments that stand at path.
func ValidateArgs(path *field.Path, args *GPUTopologyArgs) field.ErrorList {
	var errs field.ErrorList
	if policies := []NUMAPolicy{NUMAPolicyNone, NUMAPolicyPrefer, NUMAPolicyRequire}; !slices.Contains(policies, args.NUMAPolicy) {
		errs = append(errs, field.NotSupported(path.Child("numaPolicy"), args.NUMAPolicy, policies))
	}
	if packings := []NodePacking{NodePackingPack, NodePackingSpread}; !slices.Contains(packings, args.NodePacking) {
		errs = append(errs, field.NotSupported(path.Child("nodePacking"), args.NodePacking, packings))
	}
	for i, dialect := range args.RecordDialects {
		at := path.Child("recordDialects").Index(i)
		switch {
		case !slices.Contains(v1alpha1.Dialects(), dialect):
			errs = append(errs, field.NotSupported(at, dialect, v1alpha1.Dialects()))
		case slices.Contains(args.RecordDialects[:i], dialect):
			errs = append(errs, field.Duplicate(at, dialect))
		}
	}
	errs = append(errs, validateBandwidths(path.Child("bandwidths"), args)...)
	return append(errs, validateUpkeep(path, args)...)
}

// minReconcilePeriod keeps sweeps, which take up to 100 ms in a large cluster, from being all that is done; beyond maxReconcilePeriod
// nobody would call it a period, and its jitter might overflow.
const (
	minReconcilePeriod = time.Second
	maxReconcilePeriod = 24 * time.Hour
)

func validateUpkeep(path *field.Path, args *GPUTopologyArgs) field.ErrorList {
	var errs field.ErrorList
	if d := args.ReconcilePeriod; d == nil || d.Duration < minReconcilePeriod || d.Duration > maxReconcilePeriod {
		errs = append(errs, field.Invalid(path.Child("reconcilePeriod"), shown(d), "must be from "+minReconcilePeriod.String()+" to "+maxReconcilePeriod.String()))
	}
	if d := args.TopologyMaxAge.Duration; d < 0 {
		errs = append(errs, field.Invalid(path.Child("topologyMaxAge"), d.String(), "must be 0 or more"))
	}
	if d := args.ForceDeleteCooling; d != nil && d.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("forceDeleteCooling"), d.Duration.String(), "must be 0 or more"))
	}
	if n := args.AdmissionFailures; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("admissionFailures"), *n, "must be 0 or more"))
	}
	if d := args.AdmissionCooling; d == nil || d.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("admissionCooling"), shown(d), "must be more than 0; admissionFailures: 0 avoids no node"))
	}
	return errs
}

// shown is a duration as a person writes it.
func shown(d *metav1.Duration) any {
	if d == nil {
		return printed(d)
	}
	return d.Duration.String()
}

func validateBandwidths(path *field.Path, args *GPUTopologyArgs) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(args.Bandwidths)) {
		gbps, at := args.Bandwidths[name], path.Key(name)
		switch _, known := bandwidths[name]; {
		case !known:
			errs = append(errs, field.NotSupported(at, name, BandwidthNames()))
		case math.IsNaN(gbps) || gbps < minGBps || gbps > maxGBps:
			errs = append(errs, field.Invalid(at, gbps, "must be a rate from 0.001 to 10000 GB/s"))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	// What is left to go wrong is the order of the rates among each other.
	if err := args.rates().Validate(); err != nil {
		reason := err.Error()
		var spec *topology.SpecError
		if errors.As(err, &spec) {
			reason = spec.Field + ": " + spec.Reason
		}
		errs = append(errs, field.Invalid(path, args.Bandwidths, reason))
	}
	return errs
}
