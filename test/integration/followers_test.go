package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// waitGated waits until the scheduling queue keeps n pods where it asks nobody about them.
func waitGated(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " pods are kept out of the queue"), func(context.Context) (bool, error) {
		if _, gated := parked(t); gated != n {
			return false, fmt.Errorf("%d are", gated)
		}
		return true, nil
	})
}

// TestFollowersWaitAtNoCost: of gangs that do not fit, the first members stand for all. Whoever is first does, and when there is
// room, all are bound.
func TestFollowersWaitAtNoCost(t *testing.T) {
	_, others := parked(t)
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createPods(t, kit.Pod(namespace, "holder", kit.GPUs(4), atOnce))
	s.waitBound(t, "holder")
	for name, n := range map[string]int{"a": 4, "b": 4, "c": 3} {
		s.createGroup(t, name, 3)
		s.createPods(t, members(name, n, kit.GPUs(2), atOnce)...)
		s.waitReason(t, name, "2 of 3 pods can be placed")
	}
	waitGated(t, others+8)

	s.deletePods(t, "a-0") // its lead: another one is it now
	waitGated(t, others+7)
	s.deletePods(t, "b-0", "b-1")
	s.waitReason(t, "b", "2 of 3 members exist")
	waitGated(t, others+6) // both that are left
	s.createPods(t, members("b", 1, kit.GPUs(2), atOnce)...)
	s.waitReason(t, "b", "2 of 3 pods can be placed")
	waitGated(t, others+6)

	s.deletePods(t, "holder")
	for range 3 {
		polls, bound := 0, map[string]bool{}
		eventually(t, "a gang is bound", func(ctx context.Context) (bool, error) {
			if polls%40 == 0 {
				s.clock.Step(time.Hour)
			}
			polls++
			all, err := s.pods(ctx)
			for i := range all {
				if all[i].Spec.NodeName != "" {
					bound[all[i].Name] = true
				}
			}
			return len(bound) == 3, err
		})
		s.check(t, s.r)
		s.deletePods(t, slices.Sorted(maps.Keys(bound))...)
	}
	waitGated(t, others)
}
