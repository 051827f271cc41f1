package integration

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB062FinishedPodsHoldNothing: a pod without labels comes to its end in several ways, and its object is kept. Another
// pod that waits for the whole node has it then, and not before: phase Unknown is no end.
func TestCaseB062FinishedPodsHoldNothing(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	r := startReplica(t, c.config, replicaOptions{configure: withoutBackoff})
	tests := map[string]struct {
		unknown bool
		phase   v1.PodPhase
		reason  string
	}{
		"succeeded":      {phase: v1.PodSucceeded},
		"evicted":        {phase: v1.PodFailed, reason: "Evicted"},
		"unknown-failed": {unknown: true, phase: v1.PodFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job, next := "job-"+name, "next-"+name
			c.createPods(t, kit.Pod(namespace, job, kit.GPUs(8), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }))
			c.waitBound(t, job)
			if labels := c.pod(t, job).Labels; labels != nil {
				t.Fatalf("the pod has labels %v: the test shows nothing", labels)
			}
			c.finish(t, job, v1.PodRunning)
			c.createPods(t, kit.Pod(namespace, next, kit.GPUs(8)))
			c.waitRefused(t, next)
			if tt.unknown {
				c.finish(t, job, v1.PodUnknown)
				probe := kit.Pod(namespace, "probe-"+name, kit.GPUs(1))
				c.createPods(t, probe)
				c.waitRefused(t, probe.Name) // was tried with the phase known: it came through the same watch, later
				uid := ledger.PodUID(c.pod(t, job).UID)
				if held, stage, ok := r.engine.Ledger().Holding(uid); !ok || stage != ledger.StageBound || len(held.Cards) != 8 || r.freeCards() != 0 {
					t.Errorf("a pod in phase Unknown holds %d cards, stage %v, %d are free", len(held.Cards), stage, r.freeCards())
				}
				c.deletePods(t, probe.Name)
			}
			pod := c.pod(t, job)
			pod.Status.Phase, pod.Status.Reason = tt.phase, tt.reason
			if _, err := c.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			c.waitBound(t, next)
			c.check(t, r)
			if phase := c.pod(t, job).Status.Phase; phase != tt.phase {
				t.Errorf("the object of the finished pod is in phase %s", phase)
			}
			c.deletePods(t, next)
			r.waitFree(t, 8)
		})
	}
}

// TestCaseB066TerminatingPodsHoldTheirCards: a gang is deleted and its pods have ten minutes to stop. The next gang, which
// needs all of the node, waits for the last of them and says that they terminate; nowhere do their cards count as free.
func TestCaseB066TerminatingPodsHoldTheirCards(t *testing.T) {
	const note = "held by terminating pods"
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	pods := s.running(t, "a", 2)
	for _, pod := range pods {
		s.terminate(t, pod.Name)
	}
	s.createGroup(t, "b", 1)
	s.createPods(t, members("b", 1, kit.GPUs(8))...)
	s.createPods(t, kit.Pod(namespace, "solo", kit.GPUs(8)))
	s.waitReason(t, "b", note)
	s.waitSays(t, note, "b-0", "solo")
	if n := s.r.engine.Ledger().Node("n1"); !n.Free.Empty() {
		t.Errorf("cards %v count as free while their pods terminate", n.Free)
	}
	if node := s.pod(t, "b-0").Spec.NodeName; node != "" {
		t.Errorf("b-0 is on node %s", node)
	}
	s.check(t, s.r)

	s.deletePods(t, "solo", pods[0].Name)
	s.waitFree(t, 4)
	t.Logf("b waits: %s", s.waitReason(t, "b", "4 of 8 are free", note)) // half is free, the other half is still held
	s.deletePods(t, pods[1].Name)
	s.waitBound(t, "b-0")
	s.check(t, s.r)
	s.createPods(t, kit.Pod(namespace, "late", kit.GPUs(1)))
	if reason := s.waitRefused(t, "late"); contains(reason, note) {
		t.Errorf("late waits with %q, and nobody terminates", reason)
	}
	s.waitNoReason(t, "b")
}
