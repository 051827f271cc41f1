package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func rollbacks(t *testing.T) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.GangRollbacks)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// oneOf waits until one of two groups has n pods bound, and returns it and the other.
func (s *stage) oneOf(t *testing.T, n int, x, y string) (winner, loser string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods of %s or %s bound", n, x, y), func(ctx context.Context) (bool, error) {
		for _, g := range [][2]string{{x, y}, {y, x}} {
			bound, err := s.bound(ctx, g[0])
			if err != nil {
				return false, err
			}
			if bound == n {
				winner, loser = g[0], g[1]
				return true, nil
			}
		}
		return false, nil
	})
	return winner, loser
}

// TestCaseB001TwoGangsThatFitAloneButNotTogether: both come to be complete in the same moment. One runs whole, the other
// holds nothing and runs when the first ends.
func TestCaseB001TwoGangsThatFitAloneButNotTogether(t *testing.T) {
	s := startStage(t, restless)
	before := rollbacks(t)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	for _, group := range []string{"a", "b"} {
		s.createGroup(t, group, 2)
		pods := members(group, 2, kit.GPUs(8))
		gated(pods[1])
		s.createPods(t, pods...)
	}
	s.waitSays(t, "2 of 2 members exist, 1 of them gated", "a-0", "b-0")
	if free := s.r.freeCards(); free != 16 {
		t.Errorf("%d cards are free while both gangs miss a member, want 16", free)
	}
	s.ungate(t, "a-1")
	s.ungate(t, "b-1")
	winner, loser := s.oneOf(t, 2, "a", "b")
	s.waitReason(t, loser, "0 of 2 pods can be placed")
	s.waitSays(t, "0 of 2 pods can be placed", loser+"-0", loser+"-1")
	if held := s.holds(loser); len(held) > 0 || s.boundOf(t, loser) > 0 {
		t.Errorf("the gang that waits holds %v, %d of its pods are bound", held, s.boundOf(t, loser))
	}
	if n := rollbacks(t) - before; n > 3 {
		t.Errorf("halves were given back %.0f times, want at most 3", n)
	}
	s.finish(t, winner+"-0", v1.PodSucceeded)
	s.finish(t, winner+"-1", v1.PodSucceeded)
	s.waitGroupBound(t, loser, 2)
	s.check(t, s.r)
}

// TestCaseB002GangThatLacksOneCardHoldsNone: ten members, nine cards. Another pod takes one of them at once.
func TestCaseB002GangThatLacksOneCardHoldsNone(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 5, kit.N2)...)
	s.createPods(t, kit.Pod(namespace, "used", kit.GPUs(1)))
	s.waitBound(t, "used")
	s.createGroup(t, "a", 10)
	pods := members("a", 10, kit.GPUs(1))
	s.createPods(t, pods...)
	s.waitReason(t, "a", "9 of 10")
	if free := s.r.freeCards(); free != 9 {
		t.Errorf("%d cards are free while the gang waits, want 9", free)
	}
	s.createPods(t, kit.Pod(namespace, "s", kit.GPUs(1)))
	s.waitBound(t, "s")
	s.waitSays(t, "of 10 pods can be placed", names(pods)...)
	s.waitFree(t, 8)
	s.check(t, s.r)
	s.deletePods(t, "s", "used")
	s.rest(t, pods)
	s.check(t, s.r)
}

// TestCaseB003FragmentedCluster: enough cards are free in all, and on no three blocks of four. Small pods pass by at once,
// and the reason names the fragmentation. How often the gang is tried is TestCaseB003AttemptsFollowTheBackoff.
func TestCaseB003FragmentedCluster(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 4, kit.N8s)...)
	var fillers []string
	for node, n := range map[string]int64{"n1": 2, "n2": 6, "n3": 6, "n4": 6} {
		s.createPods(t, kit.Pod(namespace, "filler-"+node, kit.GPUs(n), on(node)))
		fillers = append(fillers, "filler-"+node)
	}
	s.waitBound(t, fillers...)
	s.createGroup(t, "a", 3, minResources(12))
	pods := members("a", 3, kit.GPUs(4))
	s.createPods(t, pods...)
	solo, soloNames := podsOf("solo", 4, kit.GPUs(1))
	s.createPods(t, solo...)
	s.waitBound(t, soloNames...)
	s.deletePods(t, soloNames...)
	s.waitFree(t, 12)
	s.waitReason(t, "a", "1 of 3 pods can be placed")
	s.waitReason(t, "a", "largest free block")
	s.check(t, s.r)
	s.deletePods(t, "filler-n2", "filler-n3")
	s.waitBound(t, names(pods)...)
	s.check(t, s.r)
}

// TestCaseB004BigGangDoesNotBlockSmallOnes: the oldest group does not fit. Whoever came later and fits is placed, a higher
// priority goes first, and the big one is placed once there is room for it.
func TestCaseB004BigGangDoesNotBlockSmallOnes(t *testing.T) {
	s := startStage(t, restless)
	s.createPriorityClass(t, "high", 1000)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "big", 16)
	big := members("big", 16, kit.GPUs(1))
	s.createPods(t, big...)
	s.waitReason(t, "big", "8 of 16 pods can be placed")
	for i := range 8 {
		group := fmt.Sprintf("small%d", i)
		s.createGroup(t, group, 1)
		s.createPods(t, members(group, 1, kit.GPUs(1))...)
		s.waitBound(t, group+"-0")
	}
	for _, group := range []string{"late", "urgent"} {
		s.createGroup(t, group, 1)
		pods := members(group, 1, kit.GPUs(1))
		if group == "urgent" {
			pods[0].Spec.PriorityClassName = "high"
		}
		s.createPods(t, pods...)
		s.waitReason(t, group, "0 of 1 pod can be placed")
	}
	s.finish(t, "small0-0", v1.PodSucceeded)
	s.waitBound(t, "urgent-0")
	s.waitSays(t, "0 of 1 pod can be placed", "late-0")
	s.check(t, s.r)
	s.createNodes(t, nodes("m", 3, kit.N8s)...)
	s.waitBound(t, append(names(big), "late-0")...)
	s.check(t, s.r)
}

// TestCaseB006GroupAfterItsPods: pods that came before their PodGroup say so, and are bound when it comes; so in any order
// of the five objects. All 120 of them, in a world of its own, are TestCaseB006AnyOrderOfObjects.
func TestCaseB006GroupAfterItsPods(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 2, kit.N2)...)
	pods := members("a", 4, kit.GPUs(1))
	s.createPods(t, pods...)
	s.waitSays(t, "there is no PodGroup of that name", names(pods)...)
	if n := s.boundOf(t, "a"); n != 0 {
		t.Errorf("%d pods are bound without their PodGroup", n)
	}
	s.createGroup(t, "a", 4)
	s.waitBound(t, names(pods)...)
	s.check(t, s.r)
	s.deletePods(t, names(pods)...)

	random := rand.New(rand.NewPCG(6, 0))
	for run := range 10 {
		group := fmt.Sprintf("r%d", run)
		pods := members(group, 4, kit.GPUs(1))
		for _, object := range random.Perm(5) {
			if object == 4 {
				s.createGroup(t, group, 4)
			} else {
				s.createPods(t, pods[object])
			}
		}
		s.waitBound(t, names(pods)...)
		s.deletePods(t, names(pods)...)
	}
	s.check(t, s.r)
}

// TestCaseB007LateSibling: one that waits for its sibling is no failure. Were it one, the gang would rest for an hour.
func TestCaseB007LateSibling(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "a", 2)
	pods := members("a", 2, kit.GPUs(1))
	s.createPods(t, pods[0])
	s.waitSays(t, "1 of 2 members exist", "a-0")
	s.createPods(t, pods[1])
	s.waitBound(t, names(pods)...)
	s.check(t, s.r)
}

// TestCaseB009JobOfTwoGroupsIsTwoGangs: that several PodGroups are one job is not supported (docs/gangs.md, limits). Each is
// a gang of its own: whole or without cards, in the order of their creation, whatever the others do. As one PodGroup they
// are one unit.
func TestCaseB009JobOfTwoGroupsIsTwoGangs(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	for _, group := range []string{"xa", "yc", "xb", "yd"} {
		s.createGroup(t, group, 2)
		s.createPods(t, members(group, 2, kit.GPUs(2))...)
		if group == "xa" || group == "yc" {
			s.waitGroupBound(t, group, 2)
		}
	}
	for _, group := range []string{"xb", "yd"} {
		s.waitReason(t, group, "0 of 2 pods can be placed")
		if held := s.holds(group); len(held) > 0 {
			t.Errorf("group %s waits and holds %v", group, held)
		}
	}
	s.check(t, s.r)
	s.deletePods(t, "xa-0", "xa-1")
	winner, loser := s.oneOf(t, 2, "xb", "yd")
	s.deletePods(t, "yc-0", "yc-1", winner+"-0", winner+"-1")
	s.waitGroupBound(t, loser, 2)
	s.deletePods(t, loser+"-0", loser+"-1")

	for _, group := range []string{"x", "y"} {
		s.createGroup(t, group, 4)
		s.createPods(t, members(group, 4, kit.GPUs(2))...)
	}
	_, loser = s.oneOf(t, 4, "x", "y")
	s.waitReason(t, loser, "0 of 4 pods can be placed")
	if held := s.holds(loser + "-"); len(held) > 0 {
		t.Errorf("group %s waits and holds %v", loser, held)
	}
	s.check(t, s.r)
}

// TestCaseB011TimeoutBeyondTheFrameworks: 2000 s are more than the framework waits. The effective wait is stated in an event.
// It is a wait for siblings' cycles, so a member that comes after 1950 s finds its sibling ready all the same.
func TestCaseB011TimeoutBeyondTheFrameworks(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "a", 2, scheduleTimeout(2000))
	pods := members("a", 2, kit.GPUs(1))
	s.createPods(t, kit.Pod(namespace, "first", kit.GPUs(1)))
	s.waitBound(t, "first")
	s.createPods(t, pods[0])
	s.waitEvent(t, "PermitTimeoutClamped", "a")
	s.waitSays(t, "1 of 2 members exist", "a-0")
	s.clock.Step(1950 * time.Second)
	s.waitSays(t, "1 of 2 members exist", "a-0")
	if held := s.holds("a-"); len(held) > 0 {
		t.Errorf("%v are held while a member is missing", held)
	}
	s.createPods(t, pods[1])
	s.waitBound(t, names(pods)...)
	s.check(t, s.r)
}

// TestCaseB013HighGoesBeforeLow: the low gang is there first and lacks what another pod has. When that ends, the high gang
// gets the node, and the low one follows it, twenty times.
func TestCaseB013HighGoesBeforeLow(t *testing.T) {
	s := startStage(t, restless)
	s.createPriorityClass(t, "high", 1000)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	for run := range 20 {
		s.highBeforeLow(t, "n1", fmt.Sprint(run))
	}
	s.check(t, s.r)
}

func (s *stage) highBeforeLow(t *testing.T, node, run string) {
	half := kit.Pod(namespace, "half-"+run, kit.GPUs(4), on(node))
	s.createPods(t, half)
	s.waitBound(t, half.Name)
	low, high := members("low-"+run, 2, kit.GPUs(4), on(node)), members("high-"+run, 2, kit.GPUs(4), on(node))
	for _, pod := range high {
		pod.Spec.PriorityClassName = "high"
	}
	s.createGroup(t, "low-"+run, 2)
	s.createPods(t, low...)
	s.waitReason(t, "low-"+run, "1 of 2 pods can be placed")
	s.createGroup(t, "high-"+run, 2)
	s.createPods(t, high...)
	s.waitReason(t, "high-"+run, "1 of 2 pods can be placed")
	s.deletePods(t, half.Name)
	s.waitBound(t, names(high)...)
	if n := s.boundOf(t, "low-"+run); n != 0 {
		t.Errorf("%d pods of the low gang are bound beside the high one", n)
	}
	s.deletePods(t, names(high)...)
	s.waitBound(t, names(low)...)
	s.deletePods(t, names(low)...)
}

// TestCaseB014LastMemberComesAfterTheOthersRun: the fifth member is never created while four wait. Nothing is held, everybody
// says what is missing, and a smaller minMember lets the four go without touching them.
func TestCaseB014LastMemberComesAfterTheOthersRun(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "a", 5)
	pods := members("a", 4, kit.GPUs(1))
	s.createPods(t, pods...)
	s.clock.Step(5 * time.Minute)
	s.waitSays(t, "4 of 5 members exist", names(pods)...)
	s.waitReason(t, "a", "4 of 5 members exist")
	if free := s.r.freeCards(); free != 8 {
		t.Errorf("%d cards are free while a member is missing, want 8", free)
	}
	patch := []byte(`{"spec":{"minMember":4}}`)
	if _, err := s.groups().SchedulingV1alpha1().PodGroups(namespace).Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitBound(t, names(pods)...)
	s.check(t, s.r)
}
