package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of GPUTopologyArgs.
const (
	defaultReconcilePeriod    = time.Minute
	defaultForceDeleteCooling = 5 * time.Second
	defaultAdmissionFailures  = int32(3)
	defaultAdmissionCooling   = 5 * time.Minute
)

// SetDefaults fills in what the file leaves out.
func SetDefaults(args *GPUTopologyArgs) {
	if args.NUMAPolicy == "" {
		args.NUMAPolicy = NUMAPolicyPrefer
	}
	if args.NodePacking == "" {
		args.NodePacking = NodePackingPack
	}
	setDefault(&args.ReconcilePeriod, metav1.Duration{Duration: defaultReconcilePeriod})
	setDefault(&args.ForceDeleteCooling, metav1.Duration{Duration: defaultForceDeleteCooling})
	setDefault(&args.AdmissionFailures, defaultAdmissionFailures)
	setDefault(&args.AdmissionCooling, metav1.Duration{Duration: defaultAdmissionCooling})
}

// setDefault fills in a field that is absent. A zero that stands in the file is a value like any other: honoured where the field
// says what it means, and refused by name where it means nothing.
func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}
