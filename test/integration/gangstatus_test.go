package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// waitReason waits until the PodGroup says that it waits for something with all parts, and returns the sentence.
func (c *cluster) waitReason(t *testing.T, group string, parts ...string) string {
	t.Helper()
	reason := ""
	eventually(t, fmt.Sprintf("PodGroup %s waits for %q", group, parts), func(ctx context.Context) (bool, error) {
		g, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Get(ctx, group, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		reason = g.Annotations[v1alpha1.WaitingReasonAnnotation]
		for _, part := range parts {
			if !strings.Contains(reason, part) {
				return false, fmt.Errorf("it waits for %q", reason)
			}
		}
		return reason != "", nil
	})
	return reason
}

func (c *cluster) waitNoReason(t *testing.T, group string) {
	t.Helper()
	eventually(t, "PodGroup "+group+" does not wait", func(ctx context.Context) (bool, error) {
		g, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Get(ctx, group, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if reason, has := g.Annotations[v1alpha1.WaitingReasonAnnotation]; has {
			return false, fmt.Errorf("it waits for %q", reason)
		}
		return true, nil
	})
}

// waitTold waits until the condition of every pod says the reason.
func (c *cluster) waitTold(t *testing.T, reason string, pods ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v say %q", pods, reason), func(ctx context.Context) (bool, error) {
		for _, name := range pods {
			pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			said := conditionOf(pod)
			if said.Status != v1.ConditionFalse || said.Reason != v1.PodReasonUnschedulable || !strings.Contains(said.Message, reason) {
				return false, fmt.Errorf("pod %s says %s %s %q", name, said.Status, said.Reason, said.Message)
			}
		}
		return true, nil
	})
}

// conditionOf is the pod's PodScheduled condition, empty if it has none.
func conditionOf(pod *v1.Pod) v1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled {
			return condition
		}
	}
	return v1.PodCondition{}
}

// notes are the texts of the events with that reason about an object.
func (c *cluster) notes(ctx context.Context, reason, about string) (map[string]int, error) {
	list, err := c.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.Regarding.Name == about {
			out[e.Note]++
			if e.Series != nil {
				out[e.Note] += int(e.Series.Count)
			}
		}
	}
	return out, nil
}

// plans counts the plans with that result that this process has made.
func plans(t *testing.T, result string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.GangPlans.WithLabelValues(result))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// touch changes a label of a node, so that pods which it refused are tried again.
func (c *cluster) touch(ctx context.Context, node, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"touched":%q}}}`, value)
	_, err := c.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// TestGangStatus follows gangs through the status of their PodGroups and the conditions of their members.
func TestGangStatus(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	r := startReplica(t, c.config, replicaOptions{})
	t.Run("from Pending to Finished", func(t *testing.T) { c.gangFromPendingToFinished(t) })
	t.Run("members that were never tried", func(t *testing.T) {
		c.createGroup(t, "b", 4)
		pods := members("b", 4, testkit.GPUs(1))
		gated(pods[2])
		c.createPods(t, pods[:3]...)
		reason := c.waitReason(t, "b", "3 of 4 members exist", "1 of them gated")
		c.waitTold(t, reason, "b-0", "b-1")
		c.waitStatus(t, "b", groupStatus{Phase: "Pending"})
		if n, err := c.countEvents(t.Context(), "FailedScheduling", "b-0"); n != 0 || err != nil {
			t.Errorf("b-0 was tried: %d events, error %v", n, err)
		}
		c.createPods(t, pods[3])
		c.ungate(t, "b-2")
		c.waitBound(t, names(pods)...)
		c.waitNoReason(t, "b")
	})
	t.Run("the PodGroup is missing", func(t *testing.T) {
		c.createPods(t, members("c", 2, testkit.GPUs(1))...)
		c.waitTold(t, "no PodGroup", "c-0", "c-1")
		c.createGroup(t, "c", 2)
		c.waitBound(t, "c-0", "c-1")
	})
	c.check(t, r)
}

func (c *cluster) gangFromPendingToFinished(t *testing.T) {
	c.createGroup(t, "a", 4)
	c.waitStatus(t, "a", groupStatus{Phase: "Pending"})
	pods := members("a", 4, testkit.GPUs(4))
	c.createPods(t, pods...)
	reason := c.waitReason(t, "a", "gang team/a", "2 of 4 pods")
	c.waitTold(t, reason, names(pods)...)
	c.waitStatus(t, "a", groupStatus{Phase: "PreScheduling"})
	c.reasonIsToldOnce(t, "a", reason)

	c.createNodes(t, testkit.Node("n2", testkit.N8s("n2")))
	c.waitBound(t, names(pods)...)
	c.waitNoReason(t, "a")
	c.waitStatus(t, "a", groupStatus{Phase: "Scheduled"})
	for _, pod := range pods {
		if said := conditionOf(c.pod(t, pod.Name)); said.Status != v1.ConditionTrue {
			t.Errorf("pod %s is bound and says %s %q", pod.Name, said.Status, said.Message)
		}
	}
	if c.podGroup(t, "a").Status.ScheduleStartTime.IsZero() {
		t.Error("the status does not say when the gang was first tried")
	}
	c.setPhases(t, pods, v1.PodRunning, v1.PodRunning, v1.PodRunning, v1.PodRunning)
	c.waitStatus(t, "a", groupStatus{"Running", 4, 0, 0})
	c.setPhases(t, pods, v1.PodSucceeded, v1.PodSucceeded, v1.PodSucceeded, v1.PodSucceeded)
	c.waitStatus(t, "a", groupStatus{"Finished", 0, 4, 0})
}

// reasonIsToldOnce has the gang fail a few times more for the same reason, and holds that this makes no event.
func (c *cluster) reasonIsToldOnce(t *testing.T, group, reason string) {
	t.Helper()
	c.waitEvent(t, "GangWaiting", group)
	refused := plans(t, metrics.PlanRefused)
	tried := 0
	eventually(t, "refused again", func(ctx context.Context) (bool, error) {
		tried++
		if err := c.touch(ctx, "n1", fmt.Sprint(tried)); err != nil {
			return false, err
		}
		return plans(t, metrics.PlanRefused) >= refused+2, nil
	})
	notes, err := c.notes(t.Context(), "GangWaiting", group)
	if err != nil {
		t.Fatal(err)
	}
	if notes[reason] != 1 {
		t.Errorf("%q was reported %d times, want once; all reports: %v", reason, notes[reason], notes)
	}
}

// ungate takes the gates from a pod.
func (c *cluster) ungate(t *testing.T, name string) {
	t.Helper()
	_, err := c.client.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"schedulingGates":[]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("ungate pod %s: %v", name, err)
	}
}

// TestGangReasonsSurviveFaults: the first writes of the annotation and of conditions fail, in ways that say nothing about
// whether they were done.
func TestGangReasonsSurviveFaults(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	var mu sync.Mutex
	left := map[string]int{"group": 3, "pod": 3}
	failing := func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		kind := ""
		switch {
		case isGroupWrite(r, "/a"):
			kind = "group"
		case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") && strings.Contains(r.URL.Path, "/pods/a-"):
			kind = "pod"
		}
		if left[kind] == 0 {
			return 0
		}
		left[kind]--
		return http.StatusInternalServerError
	}
	r := startReplica(t, c.config, replicaOptions{wrap: func(next http.RoundTripper) http.RoundTripper { return &answers{next, failing} }})
	c.createGroup(t, "a", 3)
	pods := members("a", 3, testkit.GPUs(1))
	c.createPods(t, pods[:2]...)
	reason := c.waitReason(t, "a", "2 of 3 members exist")
	c.waitTold(t, reason, "a-0", "a-1")
	mu.Lock()
	if left["group"]+left["pod"] != 0 {
		t.Errorf("faults that were not met: %v", left)
	}
	left["group"] = 3 // the annotation has to go as well
	mu.Unlock()
	c.createPods(t, pods[2])
	c.waitBound(t, names(pods)...)
	c.waitNoReason(t, "a")
	c.check(t, r)
}

// TestGangStatusExternal: phase and counts belong to another controller; what the gang waits for is ours to say.
func TestGangStatusExternal(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	theirs := groupStatus{"Scheduling", 7, 0, 1}
	g := c.createGroup(t, "a", 2)
	g.Status = schedulingv1alpha1.PodGroupStatus{Phase: "Scheduling", Running: 7, Failed: 1}
	if _, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).UpdateStatus(t.Context(), g, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, c.config, replicaOptions{configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
		gangArgs(loaded, func(args *config.CoschedulingArgs) { args.Status = config.StatusExternal })
	}})
	pods := members("a", 2, testkit.GPUs(1))
	c.createPods(t, pods[0])
	c.waitTold(t, c.waitReason(t, "a", "1 of 2 members exist"), "a-0")
	c.createPods(t, pods[1])
	c.waitBound(t, names(pods)...)
	c.waitNoReason(t, "a") // is written after, or together with, the status that must not be
	if have := statusOf(c.podGroup(t, "a")); have != theirs {
		t.Errorf("the status is %+v, want what the other controller wrote: %+v", have, theirs)
	}
	for _, owner := range c.podGroup(t, "a").ManagedFields {
		if owner.Manager == "gpu-topology-scheduler" && owner.Subresource == "status" {
			t.Error("the scheduler owns fields of a status that another controller keeps")
		}
	}
	c.check(t, r)
}
