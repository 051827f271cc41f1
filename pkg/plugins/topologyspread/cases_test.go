package topologyspread

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// placed returns n pods with the label app=a on a node.
func placed(n int, on string, options ...kit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", on, i)
		pods[i] = kit.Pod("ns", name, append([]kit.PodOption{named(name), kit.OnNode(on), labelled("app", "a")}, options...)...)
	}
	return pods
}

// passing are the nodes without a reason against them.
func passing(verdicts map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(verdicts)), func(name string) bool { return verdicts[name] != "" })
}

func policy(affinity, taints v1.NodeInclusionPolicy) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) {
		if affinity != "" {
			c.NodeAffinityPolicy = &affinity
		}
		if taints != "" {
			c.NodeTaintsPolicy = &taints
		}
	}
}

// TestCaseB138NodesThatThePodMayNotUse: racks r1 and r2 hold two pods each, r3 is empty and out of the pod's reach.
func TestCaseB138NodesThatThePodMayNotUse(t *testing.T) {
	needs := map[string]kit.PodOption{
		"node selector": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{productLabel: "H100"} },
		"affinity": func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: productLabel, Operator: v1.NodeSelectorOpIn, Values: []string{"H100"}}}}},
			}}}
		},
	}
	policies := map[v1.NodeInclusionPolicy][]string{v1.NodeInclusionPolicyHonor: {"n1", "n2"}, "": {"n1", "n2"}, v1.NodeInclusionPolicyIgnore: nil}
	for how, need := range needs {
		for honor, want := range policies {
			t.Run(fmt.Sprintf("%s, %s", how, honor), func(t *testing.T) {
				f := newFixture(t, options{})
				f.holds(t, []*v1.Node{
					node("n1", rackKey, "r1", productLabel, "H100"), node("n2", rackKey, "r2", productLabel, "H100"), node("n3", rackKey, "r3"),
				}, append(placed(2, "n1"), placed(2, "n2")...)...)
				got := f.verdicts(t, kit.Pod("ns", "x", labelled("app", "a"), need, spreads(rackKey, 1, v1.DoNotSchedule, "a", policy(honor, ""))))
				delete(got, "n3") // NodeAffinity refuses it
				if diff := cmp.Diff(want, passing(got)); diff != "" && len(want)+len(passing(got)) > 0 {
					t.Errorf("nodes that pass (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestCaseB139TaintedDomains: each of three workers holds a pod, three tainted nodes hold none.
func TestCaseB139TaintedDomains(t *testing.T) {
	for taints, want := range map[v1.NodeInclusionPolicy]map[string]int{
		"":                           {reasonSkew: 3, "node(s) had untolerated taint(s)": 3},
		v1.NodeInclusionPolicyIgnore: {reasonSkew: 3, "node(s) had untolerated taint(s)": 3},
		v1.NodeInclusionPolicyHonor:  {"": 3, "node(s) had untolerated taint(s)": 3},
	} {
		t.Run("nodeTaintsPolicy "+string(taints), func(t *testing.T) {
			f := newFixture(t, options{})
			var nodes []*v1.Node
			var pods []*v1.Pod
			for i := range 3 {
				worker, control := node(fmt.Sprintf("w%d", i)), node(fmt.Sprintf("c%d", i))
				control.Spec.Taints = []v1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule}}
				nodes, pods = append(nodes, worker, control), append(pods, placed(1, worker.Name)...)
			}
			f.holds(t, nodes, pods...)
			built, err := tainttoleration.New(f.ctx, nil, f.handle, f.features)
			if err != nil {
				t.Fatal(err)
			}
			tolerates := built.(fwk.FilterPlugin) //nolint:errcheck // it is one
			pod := kit.Pod("ns", "x", labelled("app", "a"), spreads(hostKey, 1, v1.DoNotSchedule, "a", policy("", taints)))
			got := map[string]int{} // what a user reads: every reason with its number of nodes
			spread := f.verdicts(t, pod)
			for _, info := range f.refresh(t) {
				reason := tolerates.Filter(f.ctx, framework.NewCycleState(), pod, info).Message()
				if reason == "" {
					reason = spread[info.Node().Name]
				} else {
					reason = "node(s) had untolerated taint(s)"
				}
				got[reason]++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCaseB141NoNodeHasTheKey: a hard constraint waits, a soft one does not hinder, and the label cures.
func TestCaseB141NoNodeHasTheKey(t *testing.T) {
	f := newFixture(t, options{})
	nodes := []*v1.Node{node("n1"), node("n2"), node("n3"), node("n4")}
	infos := f.holds(t, nodes)
	hard := kit.Pod("ns", "x", labelled("app", "a"), spreads(rackKey, 1, v1.DoNotSchedule, "a"))
	for name, reason := range f.verdicts(t, hard) {
		if reason != reasonLabel {
			t.Errorf("node %s: %q, want %q", name, reason, reasonLabel)
		}
	}
	soft := kit.Pod("ns", "y", labelled("app", "a"), spreads(rackKey, 1, v1.ScheduleAnyway, "a"))
	if got := passing(f.verdicts(t, soft)); len(got) != 4 {
		t.Errorf("soft: nodes %v pass, want all", got)
	}
	if diff := cmp.Diff(map[string]int64{"n1": 0, "n2": 0, "n3": 0, "n4": 0}, f.scoresOf(t, soft, infos)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	after := nodes[2].DeepCopy()
	after.Labels[rackKey] = "r1"
	if hint, err := f.afterNodeChange(f.logger, hard, nodes[2], after); hint != fwk.Queue || err != nil {
		t.Errorf("the label wakes the pod: %v, %v", hint, err)
	}
	f.cache.UpdateNode(f.logger, nodes[2], after)
	if diff := cmp.Diff([]string{"n3"}, passing(f.verdicts(t, hard))); diff != "" {
		t.Errorf("nodes that pass (-want +got):\n%s", diff)
	}
}

// scoresOf runs the scoring steps.
func (f *fixture) scoresOf(t testing.TB, pod *v1.Pod, infos []fwk.NodeInfo) map[string]int64 {
	t.Helper()
	state := framework.NewCycleState()
	if status := f.PreScore(f.ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	list := make(fwk.NodeScoreList, len(infos))
	for i, info := range infos {
		points, status := f.Score(f.ctx, state, pod, info)
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		list[i] = fwk.NodeScore{Name: info.Node().Name, Score: points}
	}
	if status := f.NormalizeScore(f.ctx, state, pod, list); !status.IsSuccess() {
		t.Fatalf("NormalizeScore: %v", status)
	}
	out := map[string]int64{}
	for _, s := range list {
		out[s.Name] = s.Score
	}
	return out
}

// TestCaseB143MatchLabelKeys: a pod as a new API server stores it (keys merged into the selector), one as an old one did, and one
// whose label was changed since are each counted once, by the right selector.
func TestCaseB143MatchLabelKeys(t *testing.T) {
	keys := func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} }
	merged := func(c *v1.TopologySpreadConstraint) {
		keys(c)
		c.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "version", Operator: metav1.LabelSelectorOpIn, Values: []string{"2"}}}
	}
	empty := func(c *v1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }
	tests := map[string]struct {
		version string
		edit    func(*v1.TopologySpreadConstraint)
		want    []string
	}{
		// n1 has three pods of version 1, n2 one of version 2.
		"merged":                {"2", merged, []string{"n1"}},
		"not merged":            {"2", keys, []string{"n1"}},
		"relabelled since":      {"1", merged, []string{"n1", "n2"}}, // still counted with version 2, but it adds nothing itself
		"without keys":          {"2", func(*v1.TopologySpreadConstraint) {}, []string{"n2"}},
		"empty selector":        {"2", empty, []string{"n1", "n2"}},
		"no value for the keys": {"", keys, []string{"n2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options{})
			f.holds(t, []*v1.Node{node("n1"), node("n2")}, append(placed(3, "n1", labelled("version", "1")), placed(1, "n2", labelled("version", "2"))...)...)
			pod := kit.Pod("ns", "x", labelled("app", "a"), spreads(hostKey, 1, v1.DoNotSchedule, "a", tt.edit))
			if tt.version != "" {
				pod.Labels["version"] = tt.version
			}
			if diff := cmp.Diff(tt.want, passing(f.verdicts(t, pod))); diff != "" {
				t.Errorf("nodes that pass (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCaseB144AssumedPodsCountOnce: az1 holds two pods, az2 none; two more go to az2, whether they are pods by themselves or a gang
// whose first member waits at Permit.
func TestCaseB144AssumedPodsCountOnce(t *testing.T) {
	for name, group := range map[string]kit.PodOption{"pods": func(*v1.Pod) {}, "gang": labelled(groupLabel, "g")} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options{fabric: true})
			f.seesGroup("g", 2, "")
			f.holds(t, []*v1.Node{node("n1", zoneKey, "az1"), node("n2", zoneKey, "az2"), node("n3", zoneKey, "az2")}, placed(2, "n1")...)
			var comes []*v1.Pod
			for i := range 2 {
				pod := kit.Pod("ns", fmt.Sprint("x", i), named(fmt.Sprint("x", i)), labelled("app", "a"), group, spreads(zoneKey, 1, v1.DoNotSchedule, "a"))
				comes = append(comes, pod)
				f.engine.Gangs().PodSeen(pod)
			}
			for i, pod := range comes {
				if diff := cmp.Diff([]string{"n2", "n3"}, passing(f.verdicts(t, pod))); diff != "" {
					t.Errorf("pod %d: nodes that pass (-want +got):\n%s", i, diff)
				}
				assumed := pod.DeepCopy()
				assumed.Spec.NodeName = "n2"
				if err := f.cache.AssumePod(f.logger, assumed); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]int{"az1": 2, "az2": 2}
			if diff := cmp.Diff(want, f.podsBy(t, zoneKey)); diff != "" {
				t.Errorf("both assumed (-want +got):\n%s", diff)
			}
			bound := comes[0].DeepCopy()
			bound.Spec.NodeName = "n2"
			if err := f.cache.AddPod(f.logger, bound); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, f.podsBy(t, zoneKey)); diff != "" {
				t.Errorf("one is bound (-want +got):\n%s", diff)
			}
			rejected := comes[1].DeepCopy()
			rejected.Spec.NodeName = "n2"
			if err := f.cache.ForgetPod(f.logger, rejected); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]int{"az1": 2, "az2": 1}, f.podsBy(t, zoneKey)); diff != "" {
				t.Errorf("the other is rejected (-want +got):\n%s", diff)
			}
		})
	}
}

// podsBy returns the counts of pods with app=a, as a pod by itself finds them.
func (f *fixture) podsBy(t testing.TB, key string) map[string]int {
	t.Helper()
	state := framework.NewCycleState()
	pod := kit.Pod("ns", "observer", spreads(key, 1, v1.DoNotSchedule, "a"))
	if _, status := f.PreFilter(f.ctx, state, pod, f.refresh(t)); !status.IsSuccess() {
		t.Fatal(status)
	}
	s, err := stateOf[*filterState](state, filterKey)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	s.trials[0].All(func(domain string, pods int) { out[domain] = pods })
	return out
}

// TestCaseB146CostDoesNotGrowWithThePods: of 2000 nodes a cycle reads the one that changed, with few pods and with many. (The times
// are BenchmarkPreScore's.)
func TestCaseB146CostDoesNotGrowWithThePods(t *testing.T) {
	f := newFixture(t, options{args: func(a *config.TopologySpreadArgs) { *a.MaxConstraintSets = 4 }})
	var nodes []*v1.Node
	for i := range 2000 {
		nodes = append(nodes, node(fmt.Sprintf("n%04d", i), rackKey, fmt.Sprint("r", i/20)))
	}
	f.holds(t, nodes)
	pod := kit.Pod("ns", "x", labelled("app", "a"), spreads(rackKey, 1, v1.ScheduleAnyway, "a"), spreads(hostKey, 1, v1.ScheduleAnyway, "a"))
	reads := func() uint64 {
		before := f.Plugin.cache.Stats().Reads
		f.scoresOf(t, pod, f.refresh(t))
		return f.Plugin.cache.Stats().Reads - before
	}
	if n := reads(); n != 2000 {
		t.Fatalf("the first cycle reads %d nodes, want all", n)
	}
	for i := range 50 * len(nodes) {
		name := fmt.Sprint("p", i)
		if err := f.cache.AssumePod(f.logger, kit.Pod("ns", name, named(name), kit.OnNode(nodes[i%len(nodes)].Name), labelled("app", "a"))); err != nil {
			t.Fatal(err)
		}
		switch i % 5000 {
		case 0:
			if n := reads(); n > 2000 {
				t.Fatalf("%d reads", n)
			}
		case 1:
			if n := reads(); n != 1 {
				t.Fatalf("with %d pods a cycle reads %d nodes, want the one that changed", i, n)
			}
		}
	}
}
