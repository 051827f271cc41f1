package engine

import (
	"context"
	"sort"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

const (
	// resolvePeriod is the time between two reads of pods whose bind has no known outcome.
	resolvePeriod = time.Second
	// lateCommit is the age after which a Binding that is not visible will never be: an API server gives a request
	// up after 60 s (kube-apiserver --request-timeout, default 1m0s); half as much again is margin.
	lateCommit = 90 * time.Second
	// readsAtOnce is the number of suspects that are read at a time: while the API server hangs each takes readBackTimeout.
	// When it comes back, so many reads are no load.
	readsAtOnce = 16
)

// suspect is a Binding whose outcome is not known.
type suspect struct {
	binding *v1.Binding
	since   time.Time
}

func (e *Engine) suspect(binding *v1.Binding) {
	uid := ledger.PodUID(binding.UID)
	if !e.ledger.Suspect(uid) {
		e.countSettled(binding)
		return // a pod event has settled it meanwhile
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.suspects[uid] = &suspect{binding: binding, since: e.clock.Now()}
}

// resolveLoop reads suspects and ends what only time ends. A round of reads that takes long delays neither the other nor Close;
// one that was asked for meanwhile follows it.
func (e *Engine) resolveLoop(ctx context.Context, handle fwk.Handle) {
	ticker := e.clock.NewTicker(resolvePeriod)
	defer ticker.Stop()
	wanted := make(chan struct{}, 1)
	var rounds sync.WaitGroup
	defer rounds.Wait()
	defer close(wanted)
	rounds.Go(func() {
		for range wanted {
			e.resolve(ctx, handle)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		select {
		case wanted <- struct{}{}:
		default:
		}
		if o := e.Observer(); o.CoolDown() || o.Readmit() {
			e.freed()
		}
	}
}

// resolve reads every suspect once, readsAtOnce at a time, and returns when all are read or ctx has ended.
func (e *Engine) resolve(ctx context.Context, handle fwk.Handle) {
	var reads sync.WaitGroup
	defer reads.Wait()
	slots := make(chan struct{}, readsAtOnce)
	for _, s := range e.openSuspects() {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		reads.Go(func() {
			defer func() { <-slots }()
			if e.resolveOne(ctx, handle, s) {
				e.settled(s)
			}
		})
	}
}

// settled ends a suspicion. The pod may have been tried again meanwhile, and be suspected for that.
func (e *Engine) settled(s *suspect) {
	uid := ledger.PodUID(s.binding.UID)
	e.mu.Lock()
	if e.suspects[uid] == s {
		delete(e.suspects, uid)
	}
	e.mu.Unlock()
	e.countSettled(s.binding)
	e.freed()
}

func (e *Engine) openSuspects() []*suspect {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := make([]*suspect, 0, len(e.suspects))
	for _, s := range e.suspects {
		open = append(open, s)
	}
	sort.Slice(open, func(i, j int) bool { return open[i].binding.UID < open[j].binding.UID })
	return open
}

// resolveOne returns true when the suspect is settled.
func (e *Engine) resolveOne(ctx context.Context, handle fwk.Handle, s *suspect) bool {
	logger := klog.FromContext(ctx)
	uid := ledger.PodUID(s.binding.UID)
	if _, stage, ok := e.ledger.Holding(uid); !ok || stage != ledger.StageUnknown {
		return true // a pod event was faster
	}
	age := e.clock.Since(s.since) // before the read: what it sees is at least that late
	pod, err := read(ctx, handle.ClientSet(), s.binding)
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != s.binding.UID:
		e.ledger.Release(uid)
		return true
	case err != nil:
		logger.V(4).Info("Pod with a bind of unknown outcome cannot be read yet", "pod", klog.KRef(s.binding.Namespace, s.binding.Name), "err", err)
		return false
	case pod.Spec.NodeName != "":
		e.Observer().PodSeen(pod)
		return true
	case age < lateCommit:
		return false
	}
	logger.V(2).Info("Bind of unknown outcome was never committed, its cards are free again", "pod", klog.KObj(pod), "node", s.binding.Target.Name)
	if e.ledger.Refute(uid) {
		metrics.Rollbacks.WithLabelValues(metrics.RollbackBind, metrics.StageBinding).Inc()
	}
	return true
}

// countSettled counts the outcome of a Binding that was unknown until now.
func (e *Engine) countSettled(binding *v1.Binding) {
	outcome := metrics.BindFailed
	held, stage, ok := e.ledger.Holding(ledger.PodUID(binding.UID))
	if ok && stage == ledger.StageBound && string(held.Node) == binding.Target.Name {
		outcome = metrics.BindConfirmed
	}
	metrics.BindOutcomes.WithLabelValues(outcome).Inc()
}
