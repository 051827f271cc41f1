package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

// ErrNotSynced means that the ledger does not know all bound pods yet: nothing may be placed.
var ErrNotSynced = errors.New("the GPU ledger is being rebuilt from the bound pods")

// Options are the parts of an Engine that tests replace.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// Engine is the state that all profiles of one process share. Build it with New; it is safe for concurrent use.
type Engine struct {
	ledger  *ledger.Ledger
	chooser *allocate.Chooser
	clock   clock.WithTicker
	reports *reportQueue
	// observer is set by Start.
	observer atomic.Pointer[observe.Observer]
	// placing is true once a scheduling cycle ran: this replica leads, so it is the one that sends events.
	placing atomic.Bool

	// inSync remembers that HasSynced was true once; it stays true.
	inSync atomic.Bool

	// mu guards what follows. No other lock is taken while it is held.
	mu       sync.Mutex
	started  bool
	args     *config.GPUTopologyArgs
	synced   []cache.ResourceEventHandlerRegistration
	suspects map[ledger.PodUID]*suspect

	stop context.CancelFunc
	done sync.WaitGroup
}

// New returns an Engine that does nothing until Start.
func New(o Options) *Engine {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Engine{
		ledger:   ledger.New(),
		chooser:  allocate.NewChooser(),
		clock:    o.Clock,
		reports:  newReportQueue(),
		suspects: map[ledger.PodUID]*suspect{},
	}
}

// Ledger returns the process's ledger.
func (e *Engine) Ledger() *ledger.Ledger { return e.ledger }

// Chooser returns the process's chooser of cards.
func (e *Engine) Chooser() *allocate.Chooser { return e.chooser }

// Clock returns the process's clock.
func (e *Engine) Clock() clock.WithTicker { return e.clock }

// Observer returns the process's door from the API into the ledger, nil before Start.
func (e *Engine) Observer() *observe.Observer { return e.observer.Load() }

// Start registers the informer handlers and starts the loops. Every plugin instance calls it; calls after the first only
// check that their args agree on what the process shares. It does not block and does no I/O.
// The loops end with ctx or Close.
func (e *Engine) Start(ctx context.Context, handle fwk.Handle, args *config.GPUTopologyArgs) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		if !reflect.DeepEqual(e.args.Bandwidths, args.Bandwidths) {
			return fmt.Errorf("profile %q: GPUTopologyArgs.bandwidths differ from another profile's: the process has one ledger, so all profiles must agree on them", handle.ProfileName())
		}
		return nil
	}
	rates, err := args.Rates()
	if err != nil {
		return fmt.Errorf("profile %q: %w", handle.ProfileName(), err)
	}
	metrics.Register()
	e.reports.recorder = handle.EventRecorder()
	observer := observe.New(e.ledger, rates, e, klog.FromContext(ctx), e.clock)
	e.synced, err = observer.Register(handle.SharedInformerFactory())
	if err != nil {
		return fmt.Errorf("watch nodes and pods: %w", err)
	}
	e.observer.Store(observer)
	e.args = args
	e.started = true
	loops, stop := context.WithCancel(ctx)
	e.stop = stop
	e.done.Add(2)
	go func() { defer e.done.Done(); e.reports.run(loops) }()
	go func() { defer e.done.Done(); e.resolveLoop(loops, handle) }()
	return nil
}

// Close stops the loops and waits for them. It may be called more than once.
func (e *Engine) Close() error {
	e.mu.Lock()
	stop := e.stop
	e.mu.Unlock()
	if stop != nil {
		stop()
	}
	e.done.Wait()
	return nil
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
	if observer := e.Observer(); observer != nil {
		observer.Repeat()
	}
}
