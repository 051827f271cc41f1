package integration

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// siteLabel parts the nodes of a test's racks from those of another.
const siteLabel = "test/site"

// rack has n nodes of eight cards below one leaf of a site.
func rack(site, leaf string, n int) []*v1.Node {
	made := nodes(site+"-"+leaf+"-", n, kit.N8s)
	for _, node := range made {
		node.Labels[leafLabel] = site + "-" + leaf
		node.Labels["network.topology.nvidia.com/spine"] = site
		node.Labels[siteLabel] = site
	}
	return made
}

func atSite(site string) kit.PodOption {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{siteLabel: site} }
}

// TestCaseB126ReplacementAfterARestart: a member that is created again returns to the rack of its gang, also where a new
// scheduler has never seen the gang being placed; where the rack is full it waits if the rack is required, and takes the
// nearest place if not.
func TestCaseB126ReplacementAfterARestart(t *testing.T) {
	c := startGangCluster(t)
	sites := map[string]groupOption{
		"hard": func(g *schedulingv1alpha1.PodGroup) {
			g.Annotations = map[string]string{v1alpha1.RequiredTopologyAnnotation: "leaf"}
		},
		"soft": func(*schedulingv1alpha1.PodGroup) {},
	}
	r := startReplica(t, c.config, replicaOptions{})
	first := map[string]string{}
	for site, option := range sites {
		c.createNodes(t, append(rack(site, "r1", 5), rack(site, "r2", 5)...)...)
		c.createGroup(t, site, 4, option)
		c.createPods(t, members(site, 4, kit.GPUs(8), atSite(site))...)
	}
	for site := range sites {
		c.waitGroupBound(t, site, 4)
		first[site] = c.oneLeaf(t, site+"-0")
	}
	replace := func(site string) {
		t.Helper()
		c.deletePods(t, site+"-3")
		c.createPods(t, members(site, 4, kit.GPUs(8), atSite(site))[3])
		c.waitBound(t, site+"-3")
		if got := c.oneLeaf(t, site+"-3"); got != first[site] {
			t.Errorf("%s: the replacement is below %s, its gang below %s", site, got, first[site])
		}
	}
	for site := range sites {
		replace(site)
	}
	r.stop()
	r = startReplica(t, c.config, replicaOptions{})
	for site := range sites {
		replace(site)
	}
	for site := range sites {
		c.deletePods(t, site+"-3")
		for i := range 2 { // the member's own place and the rack's free one
			c.createPods(t, kit.Pod(namespace, fmt.Sprintf("%s-filler-%d", site, i), kit.GPUs(8), func(p *v1.Pod) {
				p.Spec.NodeSelector = map[string]string{leafLabel: first[site]}
			}))
			c.waitBound(t, fmt.Sprintf("%s-filler-%d", site, i))
		}
		c.createPods(t, members(site, 4, kit.GPUs(8), atSite(site))[3])
	}
	c.waitBound(t, "soft-3")
	if got := c.oneLeaf(t, "soft-3"); got == first["soft"] || got == "" {
		t.Errorf("soft: the replacement is below %q, whose nodes are all full", got)
	}
	if reason := c.waitRefused(t, "hard-3"); reason == "" {
		t.Error("hard: the replacement waits without a reason")
	}
	eventually(t, "ledger in sync", func(context.Context) (bool, error) { return r.engine.HasSynced(), nil })
	c.check(t, r)
}
