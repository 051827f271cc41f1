package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// profileSeconds is how long a scheduler is profiled: less than the shortest round takes on two cores.
const profileSeconds = 2

// profile begins to profile the scheduler's CPU time, if that is wanted, and returns what waits for the end of it and keeps the
// profile.
func (b *bench) profile(ctx context.Context, v *variant) func() error {
	if b.profiles == "" || !v.scheduler {
		return func() error { return nil }
	}
	b.profiled++
	file := filepath.Join(b.profiles, fmt.Sprintf("%s-%d.pprof", v.name, b.profiled))
	done := make(chan error, 1)
	go func() {
		text, err := b.cluster.SchedulerProfile(ctx, profileSeconds)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		done <- err
	}()
	return func() error { return <-done }
}
