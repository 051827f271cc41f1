package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Start is what one start of a scheduler measured, in a cluster where pods wait for one.
type Start struct {
	Variant string `json:"variant"`
	Nodes   int    `json:"nodes"`
	// SyncSeconds is the time from the start of the process to the moment in which its caches are in sync, FirstBindSeconds
	// that from there to the first bind, both as exact as /readyz is asked: to 50 ms.
	SyncSeconds      float64 `json:"syncSeconds"`
	FirstBindSeconds float64 `json:"firstBindSeconds"`
	// MillisPerPod is the time from the first bind to the last for each pod in between, SchedulerCPU the scheduler's CPU time
	// from there on, in seconds per 1000 pods.
	MillisPerPod float64 `json:"msPerPod"`
	SchedulerCPU float64 `json:"schedulerCPU"`
	// RSSSynced is the resident memory in MiB when the caches are in sync, RSSBound when all pods are bound and nothing is
	// left to do, RSSPeak the most that it was.
	RSSSynced float64 `json:"rssSynced"`
	RSSBound  float64 `json:"rssBound"`
	RSSPeak   float64 `json:"rssPeak"`
}

// startOnce creates the pods that wait, starts the scheduler, and leaves the cluster as it was.
func (b *bench) startOnce(ctx context.Context, v *variant) (Start, error) {
	ctx, cancel := context.WithTimeout(ctx, roundPatience)
	defer cancel()
	if err := errors.Join(b.createGroups(ctx, v.members), b.createPods(ctx, v.members)); err != nil {
		return Start{}, err
	}
	if err := take(ctx, b.client, ""); err != nil {
		return Start{}, err
	}
	first, err := b.watch(ctx, 1)
	if err != nil {
		return Start{}, err
	}
	all, err := b.watch(ctx, b.size.pods())
	if err != nil {
		return Start{}, err
	}
	s := Start{Variant: v.name, Nodes: b.size.Nodes}
	begin := time.Now()
	pid, stop, err := b.start(ctx, v)
	if err != nil {
		return Start{}, err
	}
	if err := s.measure(ctx, pid, begin, first, all); err != nil {
		return Start{}, b.blame(v, err, stop)
	}
	if err := b.checkAll(ctx, v); err != nil {
		return Start{}, b.blame(v, err, stop)
	}
	if err := stop(); err != nil {
		return Start{}, err
	}
	return s, b.clear(ctx)
}

// measure waits until all pods are bound. The scheduler is in sync when it is called.
func (s *Start) measure(ctx context.Context, pid int, begin time.Time, first, all func() (*binds, error)) error {
	synced := time.Now()
	inSync, err := memoryOf(pid)
	if err != nil {
		return err
	}
	if _, err := first(); err != nil {
		return err
	}
	before, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	seen, err := all()
	if err != nil {
		return err
	}
	if err := awaitIdle(ctx, pid); err != nil {
		return err
	}
	after, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	bound, err := memoryOf(pid)
	if err != nil {
		return err
	}
	pods := len(seen.times)
	s.SyncSeconds, s.FirstBindSeconds = synced.Sub(begin).Seconds(), seen.first().Sub(synced).Seconds()
	s.MillisPerPod = seen.last().Sub(seen.first()).Seconds() * 1000 / float64(pods-1)
	s.SchedulerCPU = (after - before) * 1000 / float64(pods)
	s.RSSSynced, s.RSSBound, s.RSSPeak = inSync.resident, bound.resident, bound.peak
	return nil
}

// blame adds the variant and the end of the scheduler's log to an error, and stops the scheduler.
func (b *bench) blame(v *variant, err error, stop func() error) error {
	err = fmt.Errorf("%s: %w\nthe log of the scheduler ends with:\n%s", v.name, err, b.cluster.SchedulerLog())
	if stopErr := stop(); stopErr != nil {
		return fmt.Errorf("%w\n%w", err, stopErr)
	}
	return err
}
