package nccltopology

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
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
	batch  *batch

	// pciWeight and nvlinkWeight are 1 together.
	pciWeight, nvlinkWeight float64
	maxPlacements           int
	// composite says that groups may have groups as members.
	composite bool
}

var (
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
		return &Plugin{
			engine: shared, handle: handle, batch: newBatch(),
			pciWeight: *args.PCIWeight, nvlinkWeight: *args.NVLinkWeight, maxPlacements: int(*args.MaxPlacements),
			composite: utilfeature.DefaultFeatureGate.Enabled(features.CompositePodGroup),
		}, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }
