package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
)

// The scheduler decodes and prints its configuration with one scheme, and fills in and converts the arguments of plugins with
// another. Both are complete before main runs, and nothing reads them before.
func init() {
	utilruntime.Must(AddToScheme(scheme.Scheme))
	utilruntime.Must(AddToScheme(schedulerv1.GetPluginArgConversionScheme()))
}

// AddToScheme enters the arguments of this module's plugins into group kubescheduler.config.k8s.io, with their defaults. The
// scheduler looks for arguments by the plugin's name and "Args".
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(schedulerconfig.SchemeGroupVersion, &GPUTopologyArgs{}, &CoschedulingArgs{}, &NCCLTopologyArgs{})
	s.AddKnownTypes(schedulerv1.SchemeGroupVersion, &GPUTopologyArgs{}, &CoschedulingArgs{}, &NCCLTopologyArgs{})
	addTopologySpread(s, schedulerconfig.SchemeGroupVersion, schedulerv1.SchemeGroupVersion)
	s.AddTypeDefaultingFunc(&GPUTopologyArgs{}, func(object any) {
		if args, ok := object.(*GPUTopologyArgs); ok {
			SetDefaults(args)
		}
	})
	s.AddTypeDefaultingFunc(&CoschedulingArgs{}, func(object any) {
		if args, ok := object.(*CoschedulingArgs); ok {
			SetCoschedulingDefaults(args)
		}
	})
	s.AddTypeDefaultingFunc(&NCCLTopologyArgs{}, func(object any) {
		if args, ok := object.(*NCCLTopologyArgs); ok {
			SetNCCLDefaults(args)
		}
	})
	return nil
}
