package observe

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Reporter takes what a person should hear of. It must not block.
type Reporter interface {
	// Report is a warning event about an object: reason and action in UpperCamelCase, detail in one sentence.
	Report(regarding runtime.Object, reason, action, detail string)
}

// Observer holds what the handlers need between two events. Safe for concurrent use.
type Observer struct {
	ledger *ledger.Ledger
	report Reporter
	logger klog.Logger
	clock  clock.PassiveClock

	// nodes, pods and slices are the informers' stores, set by Register. A store is never older than an event of its
	// informer, so events of nodes and slices only say where to look: whatever the order in which handlers and queueing
	// hints run, the last one sees the last state.
	nodes  corelisters.NodeLister
	pods   corelisters.PodLister
	slices cache.Indexer
	claims resourcelisters.ResourceClaimLister

	// settled maps the name of a live node to the NodeInfo generation at which CatchUp last looked at it.
	settled sync.Map

	// mu makes reading a node's sources and telling the ledger one step. The ledger's lock is taken while it is held,
	// never the other way round.
	mu        sync.Mutex
	inventory *inventory.Cache
	// problems and quarantines hold what was last reported of a node, so that it is reported once.
	problems    map[string][]inventory.Problem
	quarantines map[string]string
	// owners maps the UUID of a card to the node that lists it, listed a node to such UUIDs.
	owners map[string]string
	listed map[string][]string
	// faults holds what was reported of the annotations of bound pods.
	faults map[ledger.PodUID]podFault
}

// sliceIndex finds the ResourceSlices of the GPU driver by the node they describe.
const sliceIndex = "gputopology.io/node"

// New returns an Observer that writes to l.
func New(l *ledger.Ledger, rates topology.Rates, report Reporter, logger klog.Logger, c clock.PassiveClock) *Observer {
	return &Observer{
		ledger:    l,
		report:    report,
		logger:    logger,
		clock:     c,
		inventory: inventory.NewCache(inventory.Options{Rates: rates}),
		problems:  map[string][]inventory.Problem{},

		quarantines: map[string]string{},
		owners:      map[string]string{},
		listed:      map[string][]string{},
		faults:      map[ledger.PodUID]podFault{},
	}
}

// Register adds the handlers to the informers of the factory. The caller starts the factory; the returned registrations
// tell when the first list has been delivered. Call it once, before the factory starts.
func (o *Observer) Register(factory informers.SharedInformerFactory) ([]cache.ResourceEventHandlerRegistration, error) {
	o.nodes, o.pods = factory.Core().V1().Nodes().Lister(), factory.Core().V1().Pods().Lister()
	watched := []watch{
		{"Node", factory.Core().V1().Nodes().Informer(), o.nodeHandler()},
		{"Pod", factory.Core().V1().Pods().Informer(), o.podHandler()},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		slices := factory.Resource().V1().ResourceSlices().Informer()
		if err := slices.AddIndexers(cache.Indexers{sliceIndex: describedNode}); err != nil {
			return nil, fmt.Errorf("ResourceSlice informer: %w", err)
		}
		o.slices = slices.GetIndexer()
		claims := factory.Resource().V1().ResourceClaims()
		o.claims = claims.Lister()
		watched = append(watched, watch{"ResourceSlice", slices, o.sliceHandler()}, watch{"ResourceClaim", claims.Informer(), o.claimHandler()})
	}
	var registrations []cache.ResourceEventHandlerRegistration
	for _, w := range watched {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, fmt.Errorf("%s informer: %w", w.kind, err)
		}
		registrations = append(registrations, registration)
	}
	return registrations, nil
}

type watch struct {
	kind     string
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// objectOf returns the object of an event, also where a delete was missed and a tombstone stands for it.
func objectOf[T runtime.Object](logger klog.Logger, event any) (T, bool) {
	if tombstone, ok := event.(cache.DeletedFinalStateUnknown); ok {
		event = tombstone.Obj
	}
	object, ok := event.(T)
	if !ok {
		logger.Error(nil, "Event carries an unexpected object and is left to the next list", "type", fmt.Sprintf("%T", event))
	}
	return object, ok
}
