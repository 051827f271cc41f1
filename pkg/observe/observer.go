package observe

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

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
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Reporter takes what a person should hear of. It must not block.
type Reporter interface {
	// Report is a warning event about an object: reason and action in UpperCamelCase, detail in one sentence.
	Report(regarding runtime.Object, reason, action, detail string)
}

// Options say how an Observer judges what it sees.
type Options struct {
	// Rates are the bandwidths of links.
	Rates topology.Rates
	// MaxAge is the age at which a dated description of a node's GPUs is stale; 0 for never.
	MaxAge time.Duration
	// Cooling is how long cards stay held after the delete of a running pod that had not terminated; 0 for not at all.
	Cooling time.Duration
	// AdmissionFailures within a minute have a node avoided for AdmissionCooling; 0 for never.
	AdmissionFailures int
	AdmissionCooling  time.Duration
	// Freed is called when cards came free of which no event of the scheduler tells. It must not block. Nil for nobody.
	Freed func()
	// Relisted is called when an object is found to have gone unseen: a watch was broken, and what came of it may not be
	// all that was missed. It must not block. Nil for nobody.
	Relisted func()
	// Recent keeps the records that this process writes, so that they need not be read; nil where nobody does.
	Recent *record.Recent
}

// Observer holds what the handlers need between two events. Safe for concurrent use.
type Observer struct {
	ledger  *ledger.Ledger
	report  Reporter
	logger  klog.Logger
	clock   clock.PassiveClock
	options Options

	// nodes, pods and slices are the informers' stores, set by Register. A store is never older than an event of its
	// informer, so events of nodes and slices only say where to look: whatever the order in which handlers and queueing
	// hints run, the last one sees the last state.
	nodes corelisters.NodeLister
	pods  corelisters.PodLister
	// nodeStore and podStore are the stores behind nodes and pods, with nodeIndex and podIndex.
	nodeStore, podStore cache.Indexer
	slices              cache.Indexer
	claims              resourcelisters.ResourceClaimLister

	// settled maps the name of a live node to the NodeInfo generation at which CatchUp last looked at it.
	settled sync.Map

	// ended is the store of pods that have succeeded or failed, nil before RegisterEnded.
	ended     cache.Store
	cooling   cooling
	admission admission
	ahead     ahead

	// mu makes reading a node's sources and telling the ledger one step. The ledger's lock is taken while it is held,
	// never the other way round.
	mu        sync.Mutex
	inventory *inventory.Cache
	// problems and quarantines hold what was last reported of a node, so that it is reported once.
	problems    map[string][]inventory.Problem
	quarantines map[string]string
	// owners maps the hash of a card's UUID, by seed, to the node that lists it, listed a node to the cards that it lists. A large
	// cluster has a hundred thousand cards: their UUIDs are kept once.
	owners map[uint64]*listing
	listed map[string]*listing
	seed   maphash.Seed
	// faults holds what was reported of the annotations of bound pods.
	faults map[ledger.PodUID]podFault
}

// sliceIndex finds the ResourceSlices of the GPU driver by the node they describe.
const sliceIndex = "gputopology.io/node"

// New returns an Observer that writes to l.
func New(l *ledger.Ledger, options Options, report Reporter, logger klog.Logger, c clock.PassiveClock) *Observer {
	return &Observer{
		options:   options,
		cooling:   cooling{running: map[ledger.PodUID]bool{}, until: map[ledger.PodUID]time.Time{}},
		admission: admission{nodes: map[string]*refusals{}},
		ahead:     ahead{pods: map[ledger.PodUID]sighting{}, ends: map[ledger.PodUID]string{}},
		ledger:    l,
		report:    report,
		logger:    logger,
		clock:     c,
		inventory: inventory.NewCache(inventory.Options{Rates: options.Rates, MaxAge: options.MaxAge}),
		problems:  map[string][]inventory.Problem{},

		quarantines: map[string]string{},
		owners:      map[uint64]*listing{},
		listed:      map[string]*listing{},
		seed:        maphash.MakeSeed(),
		faults:      map[ledger.PodUID]podFault{},
	}
}

// Register adds the handlers to the informers of the factory. The caller starts the factory; the returned registrations
// tell when the first list has been delivered. Call it once, before the factory starts.
func (o *Observer) Register(factory informers.SharedInformerFactory) ([]cache.ResourceEventHandlerRegistration, error) {
	o.nodes, o.pods = factory.Core().V1().Nodes().Lister(), factory.Core().V1().Pods().Lister()
	nodes, pods := factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()
	if err := nodes.AddIndexers(cache.Indexers{nodeIndex: bucketOfNode}); err != nil {
		return nil, fmt.Errorf("informer of nodes: %w", err)
	}
	if err := pods.AddIndexers(cache.Indexers{podIndex: bucketOfGPUPod, terminatingIndex: nodeOfTerminating}); err != nil {
		return nil, fmt.Errorf("informer of pods: %w", err)
	}
	o.nodeStore, o.podStore = nodes.GetIndexer(), pods.GetIndexer()
	watched := []watch{
		{"Node", nodes, o.nodeHandler()},
		{"Pod", pods, o.podHandler()},
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
		registration, err := w.informer.AddEventHandler(relistHandler{w.handler, o.options.Relisted})
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
