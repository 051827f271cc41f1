package topologyspread

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/spread"
)

// Name is the plugin's name in a KubeSchedulerConfiguration. The framework refuses the name of an in-tree plugin.
const Name = "PodTopologySpreadTuned"

// systemConstraints are the constraints that Kubernetes gives pods without any (kubernetes.io/docs/concepts/scheduling-eviction/
// topology-spread-constraints, "Built-in default constraints").
var systemConstraints = []v1.TopologySpreadConstraint{
	{MaxSkew: 3, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway},
	{MaxSkew: 5, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway},
}

// Plugin implements the extension points of PodTopologySpreadTuned. One instance serves one profile; all of one process share
// the counts.
type Plugin struct {
	engine   *engine.Engine
	handle   fwk.Handle
	args     *config.TopologySpreadArgs
	features feature.Features
	cache    *spread.Cache
	groups   *groupStates

	// defaults are the constraints of pods that have none; system says that they are Kubernetes' own.
	defaults []v1.TopologySpreadConstraint
	system   bool
	owners   owners
}

// owners list what selects the pods that default constraints spread. The fields are nil where there are no such constraints.
type owners struct {
	services    corelisters.ServiceLister
	controllers corelisters.ReplicationControllerLister
	replicas    appslisters.ReplicaSetLister
	stateful    appslisters.StatefulSetLister
	// complete reports whether services lists all that there were at the start.
	complete func() bool
}

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ScoreExtensions     = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
)

// New returns the factory of the plugin for a process whose state is shared. The counts belong to the factory: every instance
// that it builds uses them, and nobody else.
func New(shared *engine.Engine) frameworkruntime.PluginFactory {
	cache, groups := spread.NewCache(1), newGroupStates()
	return func(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, err := config.Read(Name, object, config.SetTopologySpreadDefaults, config.ValidateTopologySpread)
		if err != nil {
			return nil, err
		}
		if handle.SnapshotSharedLister() == nil {
			return nil, errors.New("the framework has no snapshot of the nodes")
		}
		cache.Allow(int(*args.MaxConstraintSets))
		p := &Plugin{
			engine: shared, handle: handle, args: args, cache: cache, groups: groups, defaults: args.DefaultConstraints,
			features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
		}
		if args.DefaultingType == schedulerconfig.SystemDefaulting {
			p.defaults, p.system = systemConstraints, true
		}
		if len(p.defaults) > 0 {
			if handle.SharedInformerFactory() == nil {
				return nil, errors.New("the framework has no informers, which default constraints need")
			}
			p.owners = ownersOf(handle.SharedInformerFactory())
		}
		return p, nil
	}
}

func ownersOf(factory informers.SharedInformerFactory) owners {
	services := factory.Core().V1().Services()
	return owners{
		services: services.Lister(), controllers: factory.Core().V1().ReplicationControllers().Lister(),
		replicas: factory.Apps().V1().ReplicaSets().Lister(), stateful: factory.Apps().V1().StatefulSets().Lister(),
		complete: services.Informer().HasSynced,
	}
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }
