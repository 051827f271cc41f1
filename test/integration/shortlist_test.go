package integration

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestSinglesFillRacks: pods of no gang fill one rack after the other, whatever part of a node they take and however full the nodes are.
// The cluster is large enough for kube-scheduler to look at a sample of nodes.
func TestSinglesFillRacks(t *testing.T) {
	const racks, each = 40, 4
	for name, c := range map[string]struct {
		gpus, pods int64
		// held is how many GPUs of each node are taken before.
		held    int64
		options []testkit.PodOption
	}{
		"one GPU": {gpus: 1, pods: 64}, "two GPUs": {gpus: 2, pods: 32}, "half a node": {gpus: 4, pods: 16}, "whole nodes": {gpus: 8, pods: 8},
		"half a node, nodes half full": {gpus: 4, pods: 8, held: 4},
		"most of a node's CPU":         {gpus: 1, pods: 8, options: []testkit.PodOption{testkit.Resource(v1.ResourceCPU, 100)}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := startCluster(t)
			cluster.createNodes(t, leaves(nodes("n", racks*each, testkit.N8s), each)...)
			if c.held > 0 {
				for i := range racks * each {
					cluster.createPods(t, testkit.Pod(namespace, fmt.Sprint("held-", i), testkit.GPUs(c.held), testkit.OnNode(fmt.Sprint("n", i+1))))
				}
			}
			r := startReplica(t, cluster.config, replicaOptions{})
			made := shortlists(t, metrics.ShortlistMade)
			pods, names := podsOf("p", int(c.pods), append(c.options, testkit.GPUs(c.gpus))...)
			cluster.createPods(t, pods[0]) // the first of its kind is looked at on a sample
			cluster.waitBound(t, names[0])
			cluster.createPods(t, pods[1:]...)
			cluster.waitBound(t, names...)
			if got := cluster.leavesOf(t, names...); len(got) != 2 {
				t.Errorf("pods by rack: %v, want two racks", got)
			}
			if n := shortlists(t, metrics.ShortlistMade) - made; n < float64(c.pods-1) {
				t.Errorf("%.0f of %d pods were looked at on the best nodes alone", n, c.pods)
			}
			cluster.check(t, r)
		})
	}
}

// TestShortlistAroundPodsThatRepel: pods on the best nodes keep a new one off. It goes elsewhere at its first attempt, and nobody is evicted
// for it, though all are of lower priority.
func TestShortlistAroundPodsThatRepel(t *testing.T) {
	c := startCluster(t)
	const rack = 12
	c.createNodes(t, leaves(nodes("n", 2*rack, testkit.N8s), rack)...)
	var first []string
	for i := range rack {
		pod := testkit.Pod(namespace, fmt.Sprint("alone-", i), testkit.GPUs(4), testkit.OnNode(fmt.Sprint("n", i+1)))
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"noisy": "yes"}},
		}}}}
		c.createPods(t, pod)
		first = append(first, pod.Name)
	}
	r := startReplica(t, c.config, replicaOptions{})
	failed := shortlists(t, metrics.ShortlistFailed)
	c.createPods(t, testkit.Pod(namespace, "quiet", testkit.GPUs(1))) // the next of its kind is looked at on a shortlist
	c.waitBound(t, "quiet")
	c.createPriorityClass(t, "high", 1000)
	noisy := testkit.Pod(namespace, "noisy", testkit.GPUs(1))
	noisy.Spec.PriorityClassName = "high"
	noisy.Labels = map[string]string{"noisy": "yes"}
	c.createPods(t, noisy)
	c.waitBound(t, "noisy")
	if leaf := c.leavesOf(t, "noisy"); leaf["leaf-2"] != 1 {
		t.Errorf("the pod is in %v, want the second rack: those in the first keep it off", leaf)
	}
	for _, name := range first {
		if c.pod(t, name).DeletionTimestamp != nil {
			t.Errorf("%s was evicted", name)
		}
	}
	if n := shortlists(t, metrics.ShortlistFailed) - failed; n != 0 {
		t.Errorf("%.0f attempts failed", n)
	}
	c.check(t, r)
}

// shortlists is how many pods of this process were looked at on the best nodes alone, by result.
func shortlists(t *testing.T, result string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.Shortlists.WithLabelValues(result))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
