package gputopology

import (
	"context"
	"io"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = engine.CardsName

// Plugin implements the extension points of GPUTopology. One instance serves one profile; all share one engine.
type Plugin struct {
	engine *engine.Engine
	handle fwk.Handle
	args   *config.GPUTopologyArgs
	// caughtUp are the states of nodes that the ledger has caught up with.
	caughtUp *generations
	// gone is the pod that afterPodDeleted was asked about last, if it is gone.
	gone atomic.Pointer[gone]
}

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ScoreExtensions     = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
	_ io.Closer               = &Plugin{}
)

// New returns the factory of the plugin for a process whose state is shared.
func New(shared *engine.Engine) frameworkruntime.PluginFactory {
	return func(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.Read(Name, object, config.SetDefaults, config.Validate)
		if err != nil {
			return nil, err
		}
		if err := shared.Start(ctx, handle, args); err != nil {
			return nil, err
		}
		return &Plugin{engine: shared, handle: handle, args: args, caughtUp: &generations{}}, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// Close stops the engine's loops when the scheduler ends.
func (p *Plugin) Close() error { return p.engine.Close() }
