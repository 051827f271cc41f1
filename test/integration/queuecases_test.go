package integration

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// halfway creates a gang of two and returns once the first waits at Permit. The second's cycles end with an error, so that
// the scheduler has time for other pods meanwhile.
func (s *stage) halfway(t *testing.T, group string, timeout time.Duration, pods ...*v1.Pod) {
	t.Helper()
	second := pods[1].Name
	s.door.breakDown(func(pod *v1.Pod) bool { return pod.Name == second })
	s.createGroup(t, group, 2, scheduleTimeout(int32(timeout/time.Second)))
	s.createPods(t, pods...)
	eventually(t, pods[0].Name+" waits at Permit", func(context.Context) (bool, error) {
		return s.door.waiting(pods[0].Name) == 1, nil
	})
}

// waitLeft waits until nobody of a gang waits at Permit or holds a card.
func (s *stage) waitLeft(t *testing.T, group string) {
	t.Helper()
	eventually(t, "gang "+group+" holds nothing", func(context.Context) (bool, error) {
		return s.door.waiting(group+"-") == 0 && len(s.holds(group+"-")) == 0, nil
	})
}

// TestCaseB045DeletedAtPermit: a member that waits for its sibling with all cards of the node is deleted. Another pod has them
// at once: the wait would have gone on for ten minutes, which no clock of this test reaches.
func TestCaseB045DeletedAtPermit(t *testing.T) {
	s := startStage(t, patientPlans)
	s.createNodes(t, kit.Node("n1", kit.N8s("n1")), kit.Node("m1", kit.N1("m1")))
	s.halfway(t, "a", 10*time.Minute,
		kit.Pod(namespace, "a-0", inGroup("a"), kit.GPUs(8)), kit.Pod(namespace, "a-1", inGroup("a"), kit.GPUs(1)))
	s.createPods(t, kit.Pod(namespace, "q", kit.GPUs(8)))
	s.waitRefused(t, "q")
	if free := s.r.freeCards(); free != 0 {
		t.Fatalf("%d cards are free while a waits: the test shows nothing", free)
	}
	s.deletePods(t, "a-0")
	s.waitBound(t, "q")
	s.waitLeft(t, "a")
	s.waitReason(t, "a", "1 of 2 members exist")
	s.waitStatus(t, "a", groupStatus{Phase: "Pending"})
	if n := s.boundOf(t, "a"); n != 0 {
		t.Errorf("%d members are bound", n)
	}
	s.check(t, s.r)
}

// TestCaseB048ReleaseOfAReservationWakesOthers: a gang whose sibling is gated holds nothing, so a solo pod has the card. One
// whose sibling is late holds it at Permit until its time is over; that, and nothing else, wakes the solo pod: no pod was
// deleted and no other event follows.
func TestCaseB048ReleaseOfAReservationWakesOthers(t *testing.T) {
	const timeout = 5 * time.Minute
	s := startStage(t, patientPlans)
	s.createNodes(t, nodes("n", 1, kit.N1)...)
	s.createGroup(t, "g", 2)
	pods := members("g", 2, kit.GPUs(1))
	gated(pods[1])
	s.createPods(t, pods...)
	s.waitSays(t, "2 of 2 members exist, 1 of them gated", "g-0")
	s.createPods(t, kit.Pod(namespace, "first", kit.GPUs(1)))
	s.waitBound(t, "first")
	s.deletePods(t, "first", "g-0", "g-1")
	s.waitFree(t, 1)

	s.halfway(t, "a", timeout, kit.Pod(namespace, "a-0", inGroup("a"), kit.GPUs(1)), kit.Pod(namespace, "a-1", inGroup("a")))
	s.createPods(t, kit.Pod(namespace, "s", kit.GPUs(1)))
	s.waitRefused(t, "s")
	s.clock.Step(timeout)
	s.waitBound(t, "s")
	s.waitLeft(t, "a")
	s.waitReason(t, "a", "not all members were bound within 5m0s")
	s.check(t, s.r)
}

// TestCaseB147PendingSiblingWakesTheOthers: two members are parked, and the third comes to be one in three ways. No event of
// the scheduler's own wakes the other two.
func TestCaseB147PendingSiblingWakesTheOthers(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	park := func(t *testing.T, group, reason string, pods ...*v1.Pod) {
		t.Helper()
		s.createGroup(t, group, 3)
		s.createPods(t, pods...)
		s.waitSays(t, reason, group+"-0", group+"-1")
	}
	t.Run("created", func(t *testing.T) {
		pods := members("a", 3, kit.GPUs(1))
		park(t, "a", "2 of 3 members exist", pods[:2]...)
		s.createPods(t, pods[2])
		s.waitBound(t, names(pods)...)
	})
	t.Run("labelled", func(t *testing.T) {
		s.door.set(func(pod *v1.Pod, _ string) string {
			if pod.Name == "b-2" && pod.Labels[v1alpha1.PodGroupLabel] == "" {
				return "it has no label yet"
			}
			return ""
		})
		pods := members("b", 2, kit.GPUs(1))
		park(t, "b", "2 of 3 members exist", append(pods, kit.Pod(namespace, "b-2", kit.GPUs(1)))...)
		s.waitSays(t, "it has no label yet", "b-2")
		_, err := s.client.CoreV1().Pods(namespace).Patch(t.Context(), "b-2", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+v1alpha1.PodGroupLabel+`":"b"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.waitBound(t, "b-0", "b-1", "b-2")
	})
	t.Run("ungated", func(t *testing.T) {
		pods := members("c", 3, kit.GPUs(1))
		gated(pods[2])
		park(t, "c", "3 of 3 members exist, 1 of them gated", pods...)
		s.ungate(t, "c-2")
		s.waitBound(t, names(pods)...)
	})
	s.check(t, s.r)
}

// cameTo counts the pods that a failed try has put into a queue of this process's schedulers.
func cameTo(t *testing.T, queue string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(schedmetrics.SchedulerQueueIncomingPods.WithLabelValues(queue, framework.ScheduleAttemptFailure))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCaseB148RejectedAtPermitAndConflict: a member that was rejected while it waited at Permit is woken when the missing
// sibling comes. A pod that was refused for lack of cards and then met a conflict when it was bound backs off, and is tried
// again although nothing happens.
func TestCaseB148RejectedAtPermitAndConflict(t *testing.T) {
	s := startStage(t, restless, patientPlans)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	t.Run("rejected at Permit", func(t *testing.T) {
		pods := members("a", 3, kit.GPUs(4), on("n1"))
		s.halfway(t, "a", 10*time.Minute, pods[:2]...)
		s.deletePods(t, "a-1")
		s.waitLeft(t, "a")
		s.waitSays(t, "1 of 2 members exist", "a-0")
		s.door.breakDown(nil)
		s.createPods(t, pods[2])
		s.waitBound(t, "a-0", "a-2")
		s.check(t, s.r)
	})
	t.Run("conflict", func(t *testing.T) {
		s.createPods(t, kit.Pod(namespace, "filler", kit.GPUs(8), on("n2")))
		s.waitBound(t, "filler")
		s.createPods(t, kit.Pod(namespace, "q", kit.GPUs(8)))
		if reason := s.waitRefused(t, "q"); !strings.Contains(reason, "whole GPUs") {
			t.Fatalf("q waits with %q, want our own plugin's reason", reason)
		}
		s.binds.refuse("q", http.StatusConflict, 1)
		backedOff := cameTo(t, "backoff")
		s.deletePods(t, "filler")
		s.waitBound(t, "q")
		if n := s.binds.answered(); n != 1 {
			t.Errorf("%d Bindings met the conflict, want 1", n)
		}
		if b := cameTo(t, "backoff") - backedOff; b < 1 {
			t.Errorf("after the conflict q came to the backoff queue %v times, want once", b)
		}
		s.check(t, s.r)
	})
}
