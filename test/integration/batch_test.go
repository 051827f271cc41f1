package integration

import (
	"testing"

	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestBatchedPodsFillRacks: pods of no gang that ask for the same are batched, which must cost nothing of where they stand. Eight
// racks of four nodes; the pods fill two of them, and no node in part.
func TestBatchedPodsFillRacks(t *testing.T) {
	for name, gpus := range map[string]int64{"one GPU": 1, "two GPUs": 2, "half a node": 4} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t)
			c.createNodes(t, leaves(nodes("n", 32, testkit.N8s), 4)...)
			r := startReplica(t, c.config, replicaOptions{})
			c.createPods(t, testkit.Pod(namespace, "first", testkit.GPUs(gpus))) // all nodes are known from here on
			c.waitBound(t, "first")
			before := hintsUsed(t)
			pods, names := podsOf("p", int(64/gpus)-1, testkit.GPUs(gpus))
			c.createPods(t, pods...)
			c.waitBound(t, names...)
			names = append(names, "first")
			if got := c.leavesOf(t, names...); len(got) != 2 {
				t.Errorf("pods by rack: %v, want two racks", got)
			}
			if used := c.nodesOf(t, names...); len(used) != 8 {
				t.Errorf("the pods are on %d nodes, want 8 full ones", len(used))
			}
			if n := hintsUsed(t) - before; n < float64(len(pods))/4 {
				t.Errorf("%.0f of %d pods were batched: the test shows nothing", n, len(pods))
			}
			c.check(t, r)
		})
	}
}

// hintsUsed is how many pods of the shipped profile went where their batch said, in this process.
func hintsUsed(t *testing.T) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.BatchAttemptStats.WithLabelValues(testkit.SchedulerName, metrics.BatchAttemptHintUsed))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
