package book

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// evictPeriod is how soon an eviction that was refused is asked for again: a PodDisruptionBudget that is used up refuses
// with 429 until other pods are back.
const evictPeriod = 5 * time.Second

// eviction is a member that must go, since its gang is broken.
type eviction struct {
	pod    *v1.Pod
	reason string
}

func (b *Book) wakeEvictions() {
	select {
	case b.evict <- struct{}{}:
	default:
	}
}

// RunEvictions evicts members of broken gangs until ctx ends. Call it once.
func (b *Book) RunEvictions(ctx context.Context) {
	ticker := b.clock.NewTicker(evictPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.evict:
		case <-ticker.C():
		}
		b.evictAll(ctx)
	}
}

func (b *Book) evictAll(ctx context.Context) {
	for uid, e := range b.openEvictions() {
		if ctx.Err() != nil {
			return
		}
		err := b.host.Evict(ctx, e.pod, e.reason)
		switch {
		case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			b.mu.Lock()
			delete(b.evictions, uid)
			b.mu.Unlock()
			b.logger.V(2).Info("Member of a broken gang is evicted", "pod", klog.KObj(e.pod), "reason", e.reason, "err", err)
		default:
			b.logger.Info("Member of a broken gang cannot be evicted yet", "pod", klog.KObj(e.pod), "err", err)
		}
	}
}

// openEvictions returns those that still make sense, and forgets the others.
func (b *Book) openEvictions() map[ledger.PodUID]eviction {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range slices.Collect(maps.Keys(b.evictions)) {
		if m := b.members[uid]; m == nil || m.ended() || m.sighting.Terminating || !m.group.known {
			delete(b.evictions, uid)
		}
	}
	return maps.Clone(b.evictions)
}
