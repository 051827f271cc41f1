package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/backlog"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// gauge reads a metric of this process; labels are those that it must have.
func gauge(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			found := 0
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == l.GetValue() {
					found++
				}
			}
			if found == len(labels) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// parked returns how many pods are parked, and how many the scheduling queue keeps where it asks nobody about them: those and,
// since all tests are one process, others.
func parked(t *testing.T) (parked, gated int) {
	t.Helper()
	return int(gauge(t, "gpu_topology_scheduler_parked_pods", nil)), int(gauge(t, "scheduler_pending_pods", map[string]string{"queue": "gated"}))
}

// waitParked waits until n pods are parked, and gated are in the queue beside them.
func waitParked(t *testing.T, n, gated int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " pods are parked"), func(context.Context) (bool, error) {
		p, g := parked(t)
		if p != n || g != gated+n {
			return false, fmt.Errorf("%d are parked, the queue keeps %d apart, of which %d are others", p, g, gated)
		}
		return true, nil
	})
}

func woken(t *testing.T) int {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.PodsWoken)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// waiting are pods that want so many cards.
func waitingPods(n int, options ...kit.PodOption) (pods []*v1.Pod, names []string) {
	for i := range n {
		name := fmt.Sprintf("w-%03d", i)
		pods, names = append(pods, kit.Pod(namespace, name, append(options, atOnce)...)), append(names, name)
	}
	return pods, names
}

// TestBacklogWaitsAtNoCost: a hundred pods wait for cards. Pods that come, fit and end wake none of them; what comes free wakes
// some, the most important first, and in the end all are bound.
func TestBacklogWaitsAtNoCost(t *testing.T) {
	const n = 100
	_, others := parked(t)
	c := startCluster(t)
	r := startReplica(t, c.config, replicaOptions{configure: withoutBackoff})
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	c.createPatientClass(t, "urgent", 1000)
	c.createPods(t, kit.Pod(namespace, "holder", kit.GPUs(7), atOnce))
	c.waitBound(t, "holder")
	pods, names := waitingPods(n, kit.GPUs(4))
	c.createPods(t, pods...)
	for _, name := range names {
		c.waitRefused(t, name)
	}
	waitParked(t, n, others)
	before := woken(t)
	for i := range 5 {
		name := fmt.Sprint("small-", i)
		c.createPods(t, kit.Pod(namespace, name, kit.GPUs(1), atOnce))
		c.waitBound(t, name)
		c.deletePods(t, name)
	}
	if n := woken(t); n != before {
		t.Errorf("%d pods were woken by pods that made no room for them", n-before)
	}
	waitParked(t, n, others)
	urgent := kit.Pod(namespace, "urgent", kit.GPUs(4), ofClass("urgent"), atOnce)
	c.createPods(t, urgent)
	waitParked(t, n+1, others)
	c.deletePods(t, "holder")
	c.waitBoundCount(t, 2)
	c.waitBound(t, "urgent")
	if n := woken(t) - before; n >= len(names) {
		t.Errorf("%d pods were woken for two places", n)
	}
	bound := map[string]bool{}
	for len(bound) < n {
		all, err := c.pods(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if all[i].Spec.NodeName != "" {
				bound[all[i].Name] = true
				c.deletePods(t, all[i].Name)
			}
		}
	}
	eventually(t, "nobody is parked", func(context.Context) (bool, error) {
		return gauge(t, "gpu_topology_scheduler_parked_pods", nil) == 0, nil
	})
	c.check(t, r)
}

// createPatientClass makes a priority class whose pods preempt nobody.
func (c *cluster) createPatientClass(t *testing.T, name string, value int32) {
	t.Helper()
	never := v1.PreemptNever
	class := priorityClass(name, value)
	class.PreemptionPolicy = &never
	if _, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestBacklogEnds: what ends the wait of a parked pod beside a pod that ends, one by one; the fake clock lets nothing else.
func TestBacklogEnds(t *testing.T) {
	_, others := parked(t)
	c := startCluster(t)
	clock := testingclock.NewFakeClock(time.Now())
	r := startReplica(t, c.config, replicaOptions{clock: clock, configure: withoutBackoff})
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	c.createPriorityClass(t, "high", 1000)
	c.createPods(t, kit.Pod(namespace, "holder", kit.GPUs(8), atOnce))
	c.waitBound(t, "holder")
	park := func(t *testing.T, name string, options ...kit.PodOption) {
		t.Helper()
		c.createPods(t, kit.Pod(namespace, name, append(options, atOnce)...))
		c.waitRefused(t, name)
		waitParked(t, 1, others)
	}
	t.Run("a node comes", func(t *testing.T) {
		park(t, "a", kit.GPUs(1))
		c.createNodes(t, kit.Node("m1", kit.N1("m1")))
		c.waitBound(t, "a")
		waitParked(t, 0, others)
	})
	t.Run("it asks for less", func(t *testing.T) {
		c.deletePods(t, "a")
		park(t, "b", kit.VRAM(1024, 2)) // of two cards, and one is free
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, v1alpha1.VRAMCardsAnnotation)
		if _, err := c.client.CoreV1().Pods(namespace).Patch(t.Context(), "b", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		c.waitBound(t, "b")
		waitParked(t, 0, others)
	})
	t.Run("it is deleted", func(t *testing.T) {
		park(t, "c", kit.GPUs(4))
		c.deletePods(t, "c")
		eventually(t, "nobody is parked", func(context.Context) (bool, error) {
			clock.Step(backlog.ParkedMost / 4)
			return gauge(t, "gpu_topology_scheduler_parked_pods", nil) == 0, nil
		})
	})
	t.Run("preemption", func(t *testing.T) {
		park(t, "d", kit.GPUs(8))
		c.createPods(t, kit.Pod(namespace, "high", kit.GPUs(8), ofClass("high"), atOnce))
		c.waitBound(t, "high")
	})
	c.check(t, r)
}

// TestBacklogLeavesPreemptionAlone: seven cards of a node are held by a pod that may be preempted, and the eighth is broken. Who wants
// eight waits for something that frees no card: the repair.
func TestBacklogLeavesPreemptionAlone(t *testing.T) {
	_, others := parked(t)
	c := startCluster(t)
	r := startReplica(t, c.config, replicaOptions{configure: withoutBackoff})
	c.createPriorityClass(t, "high", 1000)
	broken := kit.N8s("n1")
	broken.Cards[7].Healthy = false
	c.createNodes(t, kit.Node("n1", broken))
	c.createPods(t, kit.Pod(namespace, "low", kit.GPUs(7), atOnce))
	c.waitBound(t, "low")
	c.createPods(t, kit.Pod(namespace, "high", kit.GPUs(8), ofClass("high"), atOnce), kit.Pod(namespace, "level", kit.GPUs(1), atOnce))
	c.waitRefused(t, "high")
	c.waitRefused(t, "level")
	waitParked(t, 1, others) // level, which can preempt nobody
	text, err := v1alpha1.FormatTopology(kit.N8s("n1"))
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.TopologyAnnotation, text)
	if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitBound(t, "high")
	c.check(t, r)
}

// TestBacklogBesideClosedNodes: a node with all its cards that is cordoned, or of another pool, keeps nobody from being parked, and
// the end of the cordon wakes.
func TestBacklogBesideClosedNodes(t *testing.T) {
	_, others := parked(t)
	c := startCluster(t)
	r := startReplica(t, c.config, replicaOptions{configure: withoutBackoff})
	cordoned, elsewhere := kit.Node("n1", kit.N8s("n1")), kit.Node("n2", kit.N8s("n2"))
	cordoned.Labels["pool"], elsewhere.Labels["pool"] = "a", "b"
	cordoned.Spec.Unschedulable = true
	c.createNodes(t, cordoned, elsewhere)
	inA := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "a"} }
	c.createPods(t, kit.Pod(namespace, "w", kit.GPUs(8), inA, atOnce))
	c.waitRefused(t, "w")
	waitParked(t, 1, others)
	c.cordon(t, "n1", false)
	c.waitBound(t, "w")
	waitParked(t, 0, others)
	c.check(t, r)
}
