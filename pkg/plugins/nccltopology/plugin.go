package nccltopology

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = "NCCLTopology"

// Plugin implements the extension points of NCCLTopology. One instance serves one profile; all share one engine.
type Plugin struct {
	engine *engine.Engine
	handle fwk.Handle
	hints  hintCache
	lists  shortlists
	// names is what mayName answers once profile is done, and filters are those that the profile runs: the framework lists its
	// plugins after New.
	profile sync.Once
	names   bool
	filters []string
	widened widened
	// services are what default spread constraints go by.
	services corelisters.ServiceLister
	claims   corelisters.PersistentVolumeClaimLister
	volumes  corelisters.PersistentVolumeLister

	// pciWeight and nvlinkWeight are 1 together.
	pciWeight, nvlinkWeight float64
	maxPlacements           int
	// composite says that groups may have groups as members.
	composite bool
}

var (
	_ fwk.PreFilterPlugin          = &Plugin{}
	_ fwk.PostFilterPlugin         = &Plugin{}
	_ fwk.EnqueueExtensions        = &Plugin{}
	_ fwk.PreScorePlugin           = &Plugin{}
	_ fwk.ScorePlugin              = &Plugin{}
	_ fwk.ScoreExtensions          = &Plugin{}
	_ fwk.PlacementGeneratePlugin  = &Plugin{}
	_ fwk.PlacementScorePlugin     = &Plugin{}
	_ fwk.PlacementScoreExtensions = &Plugin{}
	_ fwk.SignPlugin               = &Plugin{}
)

// New returns the factory of the plugin for a process whose state is shared.
func New(shared *engine.Engine) frameworkruntime.PluginFactory {
	return func(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.Read(Name, object, config.SetNCCLDefaults, config.ValidateNCCL)
		if err != nil {
			return nil, err
		}
		if err := shared.StartFabric(handle, args, klog.FromContext(ctx)); err != nil {
			return nil, err
		}
		core := handle.SharedInformerFactory().Core().V1()
		p := &Plugin{
			engine: shared, handle: handle, widened: widened{lister: core.Pods().Lister()},
			services: core.Services().Lister(), claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
			pciWeight: *args.PCIWeight, nvlinkWeight: *args.NVLinkWeight, maxPlacements: int(*args.MaxPlacements),
			composite: utilfeature.DefaultFeatureGate.Enabled(features.CompositePodGroup),
		}
		p.lists.ledger, p.lists.value = shared.Ledger(), p.value
		return p, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }
