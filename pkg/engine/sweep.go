package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/reconcile"
)

// newSweeps makes the loop that compares the ledger with the API. It does not run yet.
func (e *Engine) newSweeps(ctx context.Context, handle fwk.Handle, args *config.GPUTopologyArgs, observer *observe.Observer) *reconcile.Loop {
	return reconcile.New(reconcile.Options{
		Ledger: e.ledger, Observer: observer, Flight: flight{e, handle}, Report: e, Logger: klog.FromContext(ctx), Clock: e.clock,
		Period: args.ReconcilePeriod.Duration, Seed: uint64(e.clock.Now().UnixNano()), //nolint:gosec // any seed will do
		Synced: e.HasSynced, Freed: e.freed,
	})
}

// Kick asks for a sweep soon: something may have been missed. It does not block, and does nothing before Start.
func (e *Engine) Kick() {
	if l := e.sweeps.Load(); l != nil {
		l.Kick()
	}
}

// LastSweep returns what the sweeps of this process did so far; the zero value before Start.
func (e *Engine) LastSweep() reconcile.Summary {
	if l := e.sweeps.Load(); l != nil {
		return l.Last()
	}
	return reconcile.Summary{}
}

// flight implements reconcile.Flight.
type flight struct {
	*Engine
	handle fwk.Handle
}

// InFlight implements reconcile.Flight.
func (f flight) InFlight(uid ledger.PodUID) bool {
	return f.handle.GetWaitingPod(types.UID(uid)) != nil || f.Binding(uid)
}
