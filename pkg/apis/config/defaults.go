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
	if args.ReconcilePeriod.Duration == 0 {
		args.ReconcilePeriod.Duration = defaultReconcilePeriod
	}
	if args.ForceDeleteCooling == nil {
		args.ForceDeleteCooling = &metav1.Duration{Duration: defaultForceDeleteCooling}
	}
	if args.AdmissionFailures == nil {
		args.AdmissionFailures = new(defaultAdmissionFailures)
	}
	if args.AdmissionCooling.Duration == 0 {
		args.AdmissionCooling.Duration = defaultAdmissionCooling
	}
}
