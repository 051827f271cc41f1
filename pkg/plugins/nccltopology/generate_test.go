package nccltopology

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// generate returns the nodes of each placement by its name, and the names in their order.
func (f *fixture) generate(t testing.TB, g fwk.PodGroupInfo) (map[string][]string, []string, *framework.CycleState) {
	t.Helper()
	state := framework.NewCycleState()
	result, status := f.GeneratePlacements(f.ctx, state, g, &fwk.Placement{Nodes: f.infos})
	if !status.IsSuccess() {
		t.Fatalf("GeneratePlacements: %v", status)
	}
	names := make([]string, len(result.Placements))
	for i, p := range result.Placements {
		names[i] = p.Name
	}
	return nodesOf(t, result), names, state
}

func nodesOf(t testing.TB, result *fwk.GeneratePlacementsResult) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, p := range result.Placements {
		if _, twice := out[p.Name]; twice {
			t.Fatalf("two placements are named %q", p.Name)
		}
		var nodes []string
		for _, info := range p.Nodes {
			nodes = append(nodes, info.Node().Name)
		}
		slices.Sort(nodes)
		out[p.Name] = nodes
	}
	return out
}

func maxPlacements(n int32) func(*config.NCCLTopologyArgs) {
	return func(a *config.NCCLTopologyArgs) { a.MaxPlacements = &n }
}

func TestGeneratePlacements(t *testing.T) {
	withNativeGroups(t)
	type use map[string]int
	tests := map[string]struct {
		used  use
		group *framework.PodGroupInfo
		limit int32
		want  []string // names in order; "" is all nodes
	}{
		"no cards: all nodes":    {nil, nativeGroup("g", 2, "", nativePods("g", 2)...), 64, []string{""}},
		"a node holds it":        {nil, nativeGroup("g", 2, "", nativePods("g", 2, kit.GPUs(4))...), 3, []string{"host/r1n1", "leaf/r1", ""}},
		"fullest node first":     {use{"r2n2": 4}, nativeGroup("g", 1, "", nativePods("g", 2, kit.GPUs(2))...), 2, []string{"host/r2n2", ""}},
		"racks hold it":          {nil, nativeGroup("g", 2, "", nativePods("g", 2, kit.GPUs(8))...), 64, []string{"leaf/r1", "leaf/r2", "leaf/r3", "leaf/r4", "spine/s1", "spine/s2", ""}},
		"fullest rack first":     {use{"r3n1": 1, "r2n1": 8}, nativeGroup("g", 2, "", nativePods("g", 4, kit.GPUs(4))...), 3, []string{"leaf/r1", "spine/s1", ""}},
		"spines hold it":         {nil, nativeGroup("g", 3, "", nativePods("g", 3, kit.GPUs(8))...), 64, []string{"spine/s1", "spine/s2", ""}},
		"one spine holds it":     {use{"r1n1": 8, "r1n2": 1}, nativeGroup("g", 3, "", nativePods("g", 3, kit.GPUs(8))...), 64, []string{"spine/s2", ""}},
		"only the cluster":       {nil, nativeGroup("g", 5, "", nativePods("g", 5, kit.GPUs(8))...), 64, []string{""}},
		"nothing holds it":       {nil, nativeGroup("g", 9, "", nativePods("g", 9, kit.GPUs(8))...), 64, []string{""}},
		"limit of one":           {nil, nativeGroup("g", 2, "", nativePods("g", 2, kit.GPUs(8))...), 1, []string{""}},
		"launcher without cards": {nil, nativeGroup("g", 3, "", append(nativePods("l", 1), nativePods("g", 2, kit.GPUs(8))...)...), 4, []string{"leaf/r1", "leaf/r2", "spine/s1", ""}},
		"two kinds fit alone, not together": {nil, nativeGroup("g", 4, "", append(nativePods("a", 2, kit.GPUs(8)), nativePods("b", 2, kit.GPUs(4))...)...),
			64, []string{"spine/s1", "spine/s2", ""}},
		"required rack, launcher beside": {use{"r1n1": 1, "r2n1": 1, "r3n1": 1}, nativeGroup("g", 3, leafKey, append(nativePods("l", 1), nativePods("g", 2, kit.GPUs(8))...)...),
			64, []string{"r4"}},
		"required rack, launcher counts": {use{"r1n1": 1, "r2n1": 1, "r3n1": 1}, nativeGroup("g", 2, leafKey, append(nativePods("l", 1), nativePods("g", 2, kit.GPUs(8))...)...),
			64, []string{"r1", "r2", "r3", "r4"}},
		"required rack": {nil, nativeGroup("g", 2, leafKey, nativePods("g", 2, kit.GPUs(8))...), 64, []string{"r1", "r2", "r3", "r4"}},
		"required rack, one fits": {use{"r1n1": 1, "r2n2": 1, "r4n1": 8}, nativeGroup("g", 2, leafKey, nativePods("g", 2, kit.GPUs(8))...),
			64, []string{"r3"}},
		"required rack, some members fit": {use{"r1n1": 8, "r2n1": 8, "r3n1": 8, "r4n1": 8, "r4n2": 8},
			nativeGroup("g", 1, leafKey, nativePods("g", 2, kit.GPUs(8))...), 64, []string{"r1", "r2", "r3"}},
		"required rack, none fits":           {nil, nativeGroup("g", 3, leafKey, nativePods("g", 3, kit.GPUs(8))...), 64, []string{"r1", "r2", "r3", "r4"}},
		"required spine, preferred rack":     {nil, nativeGroup("g", 2, spineKey, nativePods("g", 2, kit.GPUs(8))...), 64, []string{"s1/leaf/r1", "s1/leaf/r2", "s2/leaf/r3", "s2/leaf/r4", "s1", "s2"}},
		"the limit leaves no required out":   {nil, nativeGroup("g", 2, leafKey, nativePods("g", 2, kit.GPUs(4))...), 2, []string{"r1", "r2", "r3", "r4"}},
		"a key that no node carries":         {nil, nativeGroup("g", 2, "no.such/key", nativePods("g", 2, kit.GPUs(8))...), 64, []string{}},
		"required rack for pods with no GPU": {use{"r1n1": 8, "r1n2": 8}, nativeGroup("g", 2, leafKey, nativePods("g", 2)...), 64, []string{"r1", "r2", "r3", "r4"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixtureWith(t, maxPlacements(tt.limit), racked(4, 2, 2, kit.N8s))
			for node, n := range tt.used {
				f.take(t, "old-"+node, node, n)
			}
			nodes, names, _ := f.generate(t, tt.group)
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
			if rack, ok := nodes["leaf/r1"]; ok {
				if diff := cmp.Diff([]string{"r1n1", "r1n2"}, rack); diff != "" {
					t.Errorf("nodes of leaf/r1 (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestGroupThatRunsInPart: the rest of a group is tried near the pods that have a node.
func TestGroupThatRunsInPart(t *testing.T) {
	withNativeGroups(t)
	pods := nativePods("g", 3, kit.GPUs(8))
	pods[0].Spec.NodeName = "r3n1"
	f := newFixtureWith(t, maxPlacements(3), racked(4, 2, 2, kit.N8s), pods...)
	f.eventually(t, "the pod is charged", func() bool { return f.engine.Ledger().Node("r3n1").Free.Empty() })
	_, names, _ := f.generate(t, nativeGroup("g", 1, "", pods[1]))
	if diff := cmp.Diff([]string{"host/r3n2", "host/r4n1", ""}, names); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	_, names, _ = f.generate(t, nativeGroup("g", 1, leafKey, pods[1]))
	if diff := cmp.Diff([]string{"r3/host/r3n2", "r3"}, names); diff != "" {
		t.Errorf("placements with a required rack (-want +got):\n%s", diff)
	}
}

// TestNodesOutsideTheFabric: of a node that the fabric has not heard of nobody knows what it holds. Its domain is offered; a
// group that has a pod there is near to nothing.
func TestNodesOutsideTheFabric(t *testing.T) {
	withNativeGroups(t)
	f := newFixture(t, racked(2, 1, 1, kit.N8s))
	f.take(t, "old", "r1n1", 8)
	late := kit.Node("late", kit.N8s("late"))
	late.Labels[leafKey] = "r1"
	info := framework.NewNodeInfo()
	info.SetNode(late)
	f.infos = append(f.infos, info)
	nodes, _, _ := f.generate(t, nativeGroup("g", 1, leafKey, nativePods("g", 1, kit.GPUs(8))...))
	if diff := cmp.Diff(map[string][]string{"r1": {"late", "r1n1"}, "r2": {"r2n1"}}, nodes); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	if got := (&stock{fabric: f.engine.Fabric(), strays: 1}).common(0); got != topology.LevelCluster {
		t.Errorf("a group with a pod outside the fabric shares level %s", got)
	}
}

// TestRequiredKeyAsInTree: on random clusters, groups and labels, the placements without the additional ones are those of
// the plugin that this one replaces, and errors come where its errors come.
func TestRequiredKeyAsInTree(t *testing.T) {
	withNativeGroups(t)
	for seed := range int64(150) {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		nodes := racked(1+random.IntN(4), 1+random.IntN(3), 1+random.IntN(2), kit.N1)
		for _, n := range nodes {
			switch random.IntN(6) {
			case 0:
				delete(n.Labels, leafKey)
			case 1, 2:
				n.Labels[leafKey] = ""
			}
		}
		pods := nativePods("g", 6)
		for i := range random.IntN(4) {
			pods[i].Spec.NodeName = nodes[random.IntN(1+random.IntN(len(nodes)))].Name
		}
		key := []string{leafKey, spineKey, v1.LabelHostname, ""}[random.IntN(4)]
		group := nativeGroup("g", int32(random.IntN(3)), key, pods[4:]...)
		f := newFixture(t, nodes, pods...)
		f.infos = f.infos[:1+random.IntN(len(f.infos))] // what a parent group leaves
		inTree, err := topologyaware.New(f.ctx, nil, f.handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		if err != nil {
			t.Fatal(err)
		}
		parent := &fwk.Placement{Name: "parent", Nodes: f.infos}
		want, wantStatus := inTree.GeneratePlacements(f.ctx, framework.NewCycleState(), group, parent)
		got, status := f.GeneratePlacements(f.ctx, framework.NewCycleState(), group, parent)
		if status.Code() != wantStatus.Code() && mixesEmpty(nodes, pods, key) {
			continue // the in-tree plugin's answer depends on the order of the pods, which is none
		}
		if status.Code() != wantStatus.Code() {
			t.Fatalf("seed %d: %v, in-tree %v", seed, status, wantStatus)
		}
		if !status.IsSuccess() {
			continue
		}
		if diff := cmp.Diff(nodesOf(t, want), nodesOf(t, got)); diff != "" {
			t.Fatalf("seed %d, key %q (-in-tree +ours):\n%s", seed, key, diff)
		}
	}
}

// mixesEmpty reports whether pods are on nodes with an empty value of the label and on others.
func mixesEmpty(nodes []*v1.Node, pods []*v1.Pod, key string) bool {
	values := map[string]bool{}
	for _, pod := range pods {
		for _, n := range nodes {
			if n.Name == pod.Spec.NodeName {
				values[n.Labels[key]] = true
			}
		}
	}
	return values[""] && len(values) > 1
}

// TestOffersStayInside: with cards too, every placement lies inside one of the plugin that this one replaces; those of its
// placements that are missing are too small; what is added may hold the whole group; and the number is kept.
func TestOffersStayInside(t *testing.T) {
	withNativeGroups(t)
	for seed := range int64(40) {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		nodes := racked(1+random.IntN(6), 1+random.IntN(4), 1+random.IntN(3), kit.N8s)
		for _, n := range nodes {
			if random.IntN(8) == 0 {
				delete(n.Labels, leafKey)
			}
		}
		key := []string{leafKey, spineKey, ""}[random.IntN(3)]
		want, each := 1+random.IntN(6), 1+random.IntN(8)
		least := 1 + random.IntN(want)
		limit := 1 + random.IntN(12)
		f := newFixtureWith(t, maxPlacements(int32(limit)), nodes)
		for i, n := range nodes {
			if taken := random.IntN(9); taken > 0 {
				f.take(t, fmt.Sprint("old", i), n.Name, taken)
			}
		}
		inTree, err := topologyaware.New(f.ctx, nil, f.handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		if err != nil {
			t.Fatal(err)
		}
		group := nativeGroup("g", int32(least), key, nativePods("g", want, kit.GPUs(int64(each)))...)
		base, status := inTree.GeneratePlacements(f.ctx, framework.NewCycleState(), group, &fwk.Placement{Nodes: f.infos})
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		f.checkOffers(t, fmt.Sprint("seed ", seed), nodesOf(t, base), group, offerLimits{want: want, least: least, each: each, most: limit})
	}
}

type offerLimits struct{ want, least, each, most int }

func (f *fixture) checkOffers(t *testing.T, about string, base map[string][]string, group fwk.PodGroupInfo, l offerLimits) {
	t.Helper()
	held := func(nodes []string) (n int) {
		for _, name := range nodes {
			n += f.engine.Ledger().Node(ledger.NodeName(name)).Free.Len() / l.each
		}
		return n
	}
	got, _, _ := f.generate(t, group)
	required, anyFits := 0, slices.ContainsFunc(slices.Collect(maps.Values(base)), func(n []string) bool { return held(n) >= l.least })
	for name, nodes := range base {
		if _, offered := got[name]; offered {
			required++
		} else if held(nodes) >= l.least {
			t.Errorf("%s: %s holds %d of %d and is left out", about, name, held(nodes), l.least)
		}
	}
	for name, nodes := range got {
		if _, inTree := base[name]; inTree {
			continue
		}
		if !anyFits || held(nodes) < l.want {
			t.Errorf("%s: %s is added and holds %d of %d", about, name, held(nodes), l.want)
		}
		inside := false
		for _, outer := range base {
			inside = inside || !slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(outer, n) })
		}
		if !inside {
			t.Errorf("%s: %s leaves the required domain: %v", about, name, nodes)
		}
	}
	if len(got) > max(l.most, required) {
		t.Errorf("%s: %d placements, at most %d were asked for", about, len(got), l.most)
	}
}
