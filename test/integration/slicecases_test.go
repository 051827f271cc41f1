package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// hamiRecords has the choice written in HAMi's keys as well, which its node agent reads.
func hamiRecords(c *schedconfig.KubeSchedulerConfiguration) {
	for i := range c.Profiles {
		for _, p := range c.Profiles[i].PluginConfig {
			if args, ok := p.Args.(*config.GPUTopologyArgs); ok {
				args.RecordDialects = []string{"hami"}
			}
		}
	}
}

// TestCaseB155BurstOfSlicesWaitsForNoAgent: 48 slices come at once to one node with room for 64, and its agent says nothing to any
// of them. All are bound; so are those that come after others have been deleted, which never started. The node's object is not
// written for it: there is no lock to wait for, and none to be left behind.
func TestCaseB155BurstOfSlicesWaitsForNoAgent(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	r := startReplica(t, c.config, replicaOptions{configure: hamiRecords})
	version := func() string {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node.ResourceVersion
	}
	before := version()

	first, names := podsOf("slice", 48, kit.VRAM(10240, 1))
	c.createPods(t, first...)
	c.waitBound(t, names...)
	second, later := podsOf("later", 32, kit.VRAM(10240, 1))
	c.createPods(t, second...)
	c.waitBoundCount(t, 64)
	c.check(t, r)

	c.deletePods(t, names[:16]...)
	c.waitBound(t, later...)
	c.check(t, r)
	for i, use := range r.engine.Ledger().Node("n1").Use {
		if use.Holders != 8 {
			t.Errorf("card %d has %d pods, want 8", i, use.Holders)
		}
	}
	if after := version(); after != before {
		t.Errorf("the node was written: version %s, then %s", before, after)
	}
	for _, name := range later {
		if pod := c.pod(t, name); pod.Status.StartTime != nil {
			t.Errorf("pod %s was started: there is no agent that could", name)
		}
	}
}
