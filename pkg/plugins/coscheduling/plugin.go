package coscheduling

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = book.PluginName

// Plugin implements the extension points of Coscheduling. One instance serves one profile; all share one engine.
type Plugin struct {
	engine *engine.Engine
	book   *book.Book
	handle fwk.Handle
	nodes  corelisters.NodeLister
	// gated reports whether the profile keeps members out of the queue that wait for the first of their gang.
	gated func() bool

	// mu guards planner and known. Scheduling cycles run one at a time, so nobody waits for it.
	mu      sync.Mutex
	planner *placement.Planner
	// known is what the nodes offer to gangs of the last few kinds.
	known []*known
}

var (
	_ fwk.QueueSortPlugin   = &Plugin{}
	_ fwk.PreEnqueuePlugin  = &Plugin{}
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.PermitPlugin      = &Plugin{}
	_ fwk.PostBindPlugin    = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// New returns the factory of the plugin for a process whose state is shared.
func New(shared *engine.Engine) frameworkruntime.PluginFactory {
	return func(ctx context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.Read(Name, object, config.SetCoschedulingDefaults, config.ValidateCoscheduling)
		if err != nil {
			return nil, err
		}
		if err := shared.StartGangs(ctx, handle, args); err != nil {
			return nil, err
		}
		return &Plugin{
			engine: shared, book: shared.Gangs(), handle: handle, planner: placement.NewPlanner(shared.Chooser()),
			nodes: handle.SharedInformerFactory().Core().V1().Nodes().Lister(),
			// A profile's plugins are known once all of them are built.
			gated: sync.OnceValue(func() bool { return engine.Gates(handle) }),
		}, nil
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }
