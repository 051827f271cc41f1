package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/coscheduling"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/nccltopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/topologyspread"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// pluginsOfShippedConfig builds the shipped profile as the scheduler does at its start, under the gates that are set, and
// returns which plugins run at which point.
func pluginsOfShippedConfig(t *testing.T, change func(*schedconfig.KubeSchedulerProfile)) (*schedconfig.Plugins, error) {
	t.Helper()
	loaded, err := options.LoadConfigFromFile(klog.Background(), checkout.SchedulerConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&loaded.Profiles[0])
	}
	shared := engine.New(engine.Options{})
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	built, err := scheduler.New(quietContext(t), client, scheduler.NewInformerFactory(client, 0, nil), nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithKubeConfig(&rest.Config{Host: "http://127.0.0.1:1"}), // nobody asks it before the informers start
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			gputopology.Name: gputopology.New(shared), coscheduling.Name: coscheduling.New(shared), nccltopology.Name: nccltopology.New(shared),
			topologyspread.Name: topologyspread.New(shared), gputopology.GateName: gputopology.NewGate(shared),
		}),
	)
	t.Cleanup(func() {
		if err := shared.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err != nil {
		return nil, err
	}
	return built.Profiles[loaded.Profiles[0].SchedulerName].ListPlugins(), nil
}

func namesOf(set schedconfig.PluginSet) []string {
	names := []string{}
	for _, p := range set.Enabled {
		names = append(names, p.Name)
	}
	return names
}

// TestCaseB135ShippedConfigUnderGates: whatever gates of native groups are on, the shipped configuration loads, each plugin
// runs once at a point, and NCCLTopology alone makes placements.
func TestCaseB135ShippedConfigUnderGates(t *testing.T) {
	inTree, both := []string{nccltopology.Name, "NodeResourcesFit"}, []string{nccltopology.Name, "NodeResourcesFit", "PodGroupPodsCount"}
	tests := map[string]struct {
		gates featuregatetesting.FeatureOverrides
		want  []string // what scores placements
	}{
		"off":    {featuregatetesting.FeatureOverrides{}, inTree},
		"groups": {featuregatetesting.FeatureOverrides{features.GenericWorkload: true}, inTree},
		"groups and placements": {featuregatetesting.FeatureOverrides{
			features.GenericWorkload: true, features.TopologyAwareWorkloadScheduling: true,
		}, both},
		"composite groups": {featuregatetesting.FeatureOverrides{
			features.GenericWorkload: true, features.TopologyAwareWorkloadScheduling: true, features.CompositePodGroup: true,
		}, both},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, tt.gates)
			got, err := pluginsOfShippedConfig(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{nccltopology.Name}, namesOf(got.PlacementGenerate)); diff != "" {
				t.Errorf("what makes placements (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, namesOf(got.PlacementScore)); diff != "" {
				t.Errorf("what scores placements (-want +got):\n%s", diff)
			}
			if w := got.PlacementScore.Enabled[0].Weight; w != 1000 {
				t.Errorf("placements: weight %d, want 1000", w)
			}
			for _, set := range []schedconfig.PluginSet{got.PreScore, got.Score, got.PlacementGenerate, got.PlacementScore, got.Filter, got.Reserve, got.Permit} {
				names := namesOf(set)
				if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
					t.Errorf("a plugin runs twice at one point: %v", names)
				}
			}
			if i := slices.IndexFunc(got.Score.Enabled, func(p schedconfig.Plugin) bool { return p.Name == nccltopology.Name }); i < 0 || got.Score.Enabled[i].Weight != 5 {
				t.Errorf("score plugins %v: want %s with weight 5", got.Score.Enabled, nccltopology.Name)
			}
		})
	}
}

// TestTwoPlacementGenerators: without the line that turns the in-tree plugin off, the scheduler would not start once its gate
// is on.
func TestTwoPlacementGenerators(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.GenericWorkload: true, features.TopologyAwareWorkloadScheduling: true,
	})
	_, err := pluginsOfShippedConfig(t, func(p *schedconfig.KubeSchedulerProfile) {
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: "TopologyPlacementGenerator"})
	})
	if err == nil {
		t.Error("two plugins that make placements are accepted: the line in the configuration is idle")
	}
}

const leafLabel = "network.topology.nvidia.com/leaf"

func leaves(nodes []*v1.Node, each int) []*v1.Node {
	for i, n := range nodes {
		n.Labels[leafLabel] = fmt.Sprintf("leaf-%d", i/each+1)
	}
	return nodes
}

// leavesOf returns how many of the pods are in each leaf.
func (c *cluster) leavesOf(t *testing.T, pods ...string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, name := range pods {
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), c.pod(t, name).Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out[node.Labels[leafLabel]]++
	}
	return out
}

// nodesOf returns the nodes of the pods.
func (c *cluster) nodesOf(t *testing.T, pods ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, name := range pods {
		out[c.pod(t, name).Spec.NodeName] = true
	}
	return out
}

// TestCaseB133SinglesThenNativeGang: four racks of four nodes. 16 singles share one rack, and two nodes of it, so that
// groups find three whole ones, whether a rack is required or only better.
func TestCaseB133SinglesThenNativeGang(t *testing.T) {
	c := startNativeCluster(t)
	c.createNodes(t, leaves(nodes("n", 16, testkit.N8s), 4)...)
	r, _ := startNativeReplica(t, c, nil)
	singles, single := podsOf("solo", 16, testkit.GPUs(1))
	for i := range singles {
		c.createPods(t, singles[i])
		c.waitBound(t, single[i])
	}
	if got := c.leavesOf(t, single...); len(got) != 1 {
		t.Errorf("singles by rack: %v, want one rack", got)
	}
	if used := c.nodesOf(t, single...); len(used) != 2 {
		t.Errorf("singles are on nodes %v, want two", used)
	}
	c.nativeGroup(t, "big", 4, leafLabel)
	c.nativeGroup(t, "better", 4, "")
	for _, group := range []string{"big", "better"} {
		members := nativeMembers(group, 4, testkit.GPUs(8))
		c.createPods(t, members...)
		c.waitBound(t, names(members)...)
		if got := c.leavesOf(t, names(members)...); len(got) != 1 {
			t.Errorf("group %s by rack: %v, want one rack", group, got)
		}
	}
	c.nativeGroup(t, "small", 2, "")
	small := nativeMembers("small", 2, testkit.GPUs(8))
	c.createPods(t, small...)
	c.waitBound(t, names(small)...)
	if got, want := c.oneLeaf(t, names(small)...), c.oneLeaf(t, single...); got != want {
		t.Errorf("a group for which the rack of the singles has just room left is in rack %q, want %q", got, want)
	}
	c.check(t, r)
}

// oneLeaf is the rack of all the pods, "" if there is more than one.
func (c *cluster) oneLeaf(t *testing.T, pods ...string) string {
	t.Helper()
	leaf := ""
	for name := range c.leavesOf(t, pods...) {
		if leaf != "" {
			return ""
		}
		leaf = name
	}
	return leaf
}
