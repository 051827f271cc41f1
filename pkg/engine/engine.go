package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/introspect"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/reconcile"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// ErrNotSynced means that the ledger does not know all bound pods yet: nothing may be placed.
var ErrNotSynced = errors.New("the GPU ledger is being rebuilt from the bound pods")

// Options are what the process decides about an Engine, and the parts of it that tests replace.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// StateAddress is where the state endpoint listens; it is read by Start, once flags are parsed. nil turns it off.
	StateAddress *introspect.Address
	// Tracer makes the spans; nil for the one that the environment asks for when Start is called, if any.
	Tracer *tracing.Tracer
}

// Engine is the state that all profiles of one process share. Build it with New; it is safe for concurrent use.
type Engine struct {
	ledger  *ledger.Ledger
	chooser *allocate.Chooser
	clock   clock.WithTicker
	reports *reportQueue
	// stateAddress is Options.StateAddress.
	stateAddress *introspect.Address
	// tracer is nil where nobody wants spans. Start sets it, before any plugin runs.
	tracer *tracing.Tracer
	pools  pools
	// observer is set by Start.
	observer atomic.Pointer[observe.Observer]
	book     *book.Book
	// binds holds a token for each Binding under way.
	binds chan struct{}
	// pace has what Pace waits for.
	pace pace
	// recent has the records that were written last.
	recent *record.Recent
	// inFlight are the pods whose Binding is being sent.
	inFlight inFlight
	// wakes has a token when cards came free of which no event of the scheduler tells.
	wakes chan struct{}
	// wakeMembers says that members of gangs are to be tried again too.
	wakeMembers atomic.Bool
	// sweeps is set by Start.
	sweeps atomic.Pointer[reconcile.Loop]
	// leads is closed when placing becomes true.
	leads chan struct{}
	// fabric is set by StartFabric.
	fabric atomic.Pointer[fabric]
	// occupancy has a lock of its own.
	occupancy occupancy
	places    places
	// parking has a lock of its own.
	parking parking
	// placing is true once a scheduling cycle ran: this replica leads, so it is the one that sends events.
	placing atomic.Bool

	// takeOver is held while TakeOver reads, current is true once it has. The ledger's lock is taken while it is held.
	takeOver sync.Mutex
	current  atomic.Bool

	// election is what Elects was told, nil if nothing. Start makes fence and binder of it, which are nil without it: binder
	// sends Bindings through the fence.
	election *componentbaseconfig.LeaderElectionConfiguration
	fence    *fence
	binder   corev1client.PodsGetter

	// inSync remembers that HasSynced was true once, gangsInSync the same of GangsSynced; both stay true.
	inSync, gangsInSync atomic.Bool

	// mu guards what follows. StartGangs takes the book's lock while it is held; nothing else is locked under it.
	mu      sync.Mutex
	started bool
	args    *config.GPUTopologyArgs
	// profiles are the args of GPUTopology by schedulerName.
	profiles map[string]*config.GPUTopologyArgs
	gangs    *gangs
	synced   []cache.ResourceEventHandlerRegistration
	suspects map[ledger.PodUID]*suspect

	// ended is the informer of pods that have succeeded or failed, nil before endedPods.
	ended cache.SharedIndexInformer

	stops []context.CancelFunc
	done  sync.WaitGroup
}

// New returns an Engine that does nothing until Start.
func New(o Options) *Engine {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	l, c := ledger.New(), allocate.NewChooser()
	return &Engine{
		ledger:       l,
		parking:      newParking(l, c),
		book:         book.New(l, o.Clock),
		leads:        make(chan struct{}),
		wakes:        make(chan struct{}, 1),
		binds:        make(chan struct{}, bindsInFlight),
		pace:         newPace(),
		profiles:     map[string]*config.GPUTopologyArgs{},
		chooser:      c,
		clock:        o.Clock,
		reports:      newReportQueue(),
		stateAddress: o.StateAddress,
		tracer:       o.Tracer,
		suspects:     map[ledger.PodUID]*suspect{},
		recent:       record.NewRecent(),
		inFlight:     inFlight{pods: map[ledger.PodUID]bool{}},
	}
}

// Ledger returns the process's ledger.
func (e *Engine) Ledger() *ledger.Ledger { return e.ledger }

// Chooser returns the process's chooser of cards.
func (e *Engine) Chooser() *allocate.Chooser { return e.chooser }

// Clock returns the process's clock.
func (e *Engine) Clock() clock.WithTicker { return e.clock }

// Recent returns the records that the process wrote last, never nil.
func (e *Engine) Recent() *record.Recent { return e.recent }

// Observer returns the process's door from the API into the ledger, nil before Start.
func (e *Engine) Observer() *observe.Observer { return e.observer.Load() }

// Start registers the informer handlers and starts the loops. Every plugin instance calls it; calls after the first only
// check that their args agree on what the process shares. It does not block, and opens no
// connection; it listens on the address of the state endpoint. The loops end with ctx or Close.
func (e *Engine) Start(ctx context.Context, handle fwk.Handle, args *config.GPUTopologyArgs) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.profiles[handle.ProfileName()] = args
	if e.started {
		if !reflect.DeepEqual(e.args.ProcessWide(), args.ProcessWide()) {
			return fmt.Errorf("profile %q: bandwidths, or what keeps the ledger true, in GPUTopologyArgs differ from another profile's: the process has one ledger, so all profiles must agree on them", handle.ProfileName())
		}
		return nil
	}
	rates, err := args.Rates()
	if err != nil {
		return fmt.Errorf("profile %q: %w", handle.ProfileName(), err)
	}
	metrics.Register()
	if err := e.serveState(ctx); err != nil {
		return err
	}
	if err := e.trace(ctx); err != nil {
		return err
	}
	if err := e.show(handle); err != nil {
		return err
	}
	if err := e.openFence(handle); err != nil {
		return err
	}
	e.reports.recorder = handle.EventRecorder()
	observer := observe.New(e.ledger, observe.Options{
		Rates: rates, MaxAge: args.TopologyMaxAge.Duration, Cooling: args.ForceDeleteCooling.Duration,
		AdmissionFailures: int(*args.AdmissionFailures), AdmissionCooling: args.AdmissionCooling.Duration, Freed: e.freed, Relisted: e.Kick,
		Recent: e.recent,
	}, e, klog.FromContext(ctx), e.clock)
	e.synced, err = observer.Register(handle.SharedInformerFactory())
	if err != nil {
		return fmt.Errorf("watch nodes and pods: %w", err)
	}
	ended, err := observer.RegisterEnded(e.endedPods(ctx, handle))
	if err != nil {
		return fmt.Errorf("watch ended pods: %w", err)
	}
	e.synced = append(e.synced, ended)
	if err := e.parking.watch(handle); err != nil {
		return fmt.Errorf("watch waiting pods: %w", err)
	}
	e.observer.Store(observer)
	sweeps := e.newSweeps(ctx, handle, args, observer)
	e.sweeps.Store(sweeps)
	e.args = args
	e.started = true
	loops, stop := context.WithCancel(ctx)
	e.stops = append(e.stops, stop)
	e.done.Go(func() { e.reports.run(loops) })
	e.done.Go(func() { e.resolveLoop(loops, handle) })
	e.done.Go(func() { e.wakeLoop(loops, handle) })
	e.done.Go(func() { e.parkedLoop(loops, handle) })
	e.done.Go(func() { sweeps.Run(loops) })
	return nil
}

// Close stops the loops and waits for them. It may be called more than once.
func (e *Engine) Close() error {
	e.mu.Lock()
	stops := e.stops
	e.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	e.done.Wait()
	return e.flush()
}

// HasSynced reports whether every node and bound pod that existed at the start has reached the ledger.
func (e *Engine) HasSynced() bool {
	if e.inSync.Load() {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		return false
	}
	for _, r := range e.synced {
		if !r.HasSynced() {
			return false
		}
	}
	e.inSync.Store(true)
	return true
}

// Placing tells the engine that a scheduling cycle runs here, so that this replica reports what it sees.
func (e *Engine) Placing() {
	if e.placing.Load() || e.placing.Swap(true) {
		return
	}
	close(e.leads)
	if observer := e.Observer(); observer != nil {
		observer.Repeat()
	}
}

// Profile returns the arguments of GPUTopology in the profile of that schedulerName; nil if it does not run there.
func (e *Engine) Profile(schedulerName string) *config.GPUTopologyArgs {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.profiles[schedulerName]
}

// RequestOf returns what a pod asks for, by the defaults of its profile: nil for a pod without GPUs, and for one whose profile
// does not run GPUTopology. The error is a *request.InvalidError.
func (e *Engine) RequestOf(pod *v1.Pod) (*allocate.Request, error) {
	args := e.Profile(pod.Spec.SchedulerName)
	if args == nil {
		return nil, nil
	}
	return request.FromPodWithDefaults(pod, args.RequestDefaults())
}

// GiveBack ends the reservation of a pod: its cards are free again, unless it is bound or its bind has no known outcome.
// planID is the plan that the reservation came from, "" if none. It reports whether cards came free, and may be called any
// number of times.
func (e *Engine) GiveBack(uid ledger.PodUID, planID string) bool {
	return e.book.GiveBack(uid, planID)
}
