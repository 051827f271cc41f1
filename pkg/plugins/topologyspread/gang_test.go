package topologyspread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const groupLabel = v1alpha1.PodGroupLabel

// seesGroup tells the book of a PodGroup; required is the level that it must be in one domain of.
func (f *fixture) seesGroup(name string, minMember int, required string) {
	f.engine.Gangs().GroupSeen(podgroup.Group{
		UID: gang.GroupUID("uid-" + name), Namespace: "ns", Name: name, Created: time.Unix(1, 0), Spec: gang.Spec{MinMember: minMember},
		Wish: podgroup.Wish{Required: required},
	})
}

// racks returns racks x each nodes r1n1, r1n2, ...: two racks a zone.
func racks(racks, each int) []*v1.Node {
	var nodes []*v1.Node
	for r := range racks {
		for i := range each {
			nodes = append(nodes, node(fmt.Sprintf("r%dn%d", r+1, i+1), rackKey, fmt.Sprint("r", r+1), zoneKey, fmt.Sprint("z", r/2+1)))
		}
	}
	return nodes
}

// gangFixture knows the network of the nodes.
func gangFixture(t *testing.T, nodes []*v1.Node, change func(*config.TopologySpreadArgs)) *fixture {
	t.Helper()
	o := options{fabric: true, args: change}
	for _, n := range nodes {
		o.objects = append(o.objects, n)
	}
	f := newFixture(t, o)
	f.eventually(t, "fabric in sync", func() bool { return f.engine.Fabric().Len() == len(nodes) })
	return f
}

func member(name, group string, options ...kit.PodOption) *v1.Pod {
	return kit.Pod("ns", name, append([]kit.PodOption{named(name), labelled("app", "a", groupLabel, group)}, options...)...)
}

func off(a *config.TopologySpreadArgs) { *a.GangAware = false }

// TestSoftConstraintsLeaveAGangTogether: two members are in rack r1. What spreads by host or rack would send the third away; what
// spreads by zone is no business of the plan's.
func TestSoftConstraintsLeaveAGangTogether(t *testing.T) {
	nodes := racks(4, 2)
	tests := map[string]struct {
		key, required string
		change        func(*config.TopologySpreadArgs)
		wantSkip      bool
	}{
		"by host":                    {hostKey, "", nil, true},
		"by rack":                    {rackKey, "", nil, true},
		"by zone":                    {zoneKey, "", nil, false},
		"by a key of no level":       {"example.com/rack", "", nil, false},
		"by zone, one zone required": {zoneKey, "zone", nil, true},
		"by rack, not aware":         {rackKey, "", off, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := gangFixture(t, nodes, tt.change)
			f.seesGroup("g", 3, tt.required)
			for i, on := range []string{"r1n1", "r1n2"} {
				f.engine.Gangs().PodSeen(member(fmt.Sprint("m", i), "g", kit.OnNode(on)))
			}
			third := member("m2", "g", spreads(tt.key, 1, v1.ScheduleAnyway, "a"))
			f.engine.Gangs().PodSeen(third)
			infos := f.holds(t, nodes)
			status := f.PreScore(f.ctx, framework.NewCycleState(), third, infos)
			if status.IsSkip() != tt.wantSkip || !status.IsSkip() && !status.IsSuccess() {
				t.Errorf("PreScore %v, want skip %t", status, tt.wantSkip)
			}
			alone := kit.Pod("ns", "x", labelled("app", "a"), spreads(tt.key, 1, v1.ScheduleAnyway, "a"))
			if status := f.PreScore(f.ctx, framework.NewCycleState(), alone, infos); !status.IsSuccess() {
				t.Errorf("a pod by itself: %v", status)
			}
		})
	}
}

// TestZonesCountGangs: z1 holds gang h with four pods, z2 gang i with one and a pod by itself.
func TestZonesCountGangs(t *testing.T) {
	nodes := racks(4, 2)
	pods := []*v1.Pod{kit.Pod("ns", "lone", named("lone"), labelled("app", "a"), kit.OnNode("r4n1")), member("i0", "i", kit.OnNode("r3n1"))}
	for i := range 4 {
		pods = append(pods, member(fmt.Sprint("h", i), "h", kit.OnNode([]string{"r1n1", "r2n1"}[i%2])))
	}
	own := []*v1.Pod{member("g0", "g", kit.OnNode("r1n1")), member("g1", "g", kit.OnNode("r1n2"))}
	tests := map[string]struct {
		change func(*config.TopologySpreadArgs)
		placed []*v1.Pod
		want   string // the zones that pass
	}{
		"counts 1 and 2":             {nil, nil, "z1"},
		"own members do not count":   {nil, own, "z1"},
		"pods count 4 and 2":         {off, nil, "z2"},
		"own pods count, 6 and 2":    {off, own, "z2"},
		"with another gang, 2 and 2": {nil, []*v1.Pod{member("j0", "j", kit.OnNode("r2n2"))}, "z1 z2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := gangFixture(t, nodes, tt.change)
			f.seesGroup("g", 3, "")
			f.holds(t, nodes, append(tt.placed, pods...)...)
			pod := member("g2", "g", spreads(zoneKey, 1, v1.DoNotSchedule, "a"))
			f.engine.Gangs().PodSeen(pod)
			zones := map[string]bool{}
			for _, n := range passing(f.verdicts(t, pod)) {
				zones[map[byte]string{'1': "z1", '2': "z1", '3': "z2", '4': "z2"}[n[1]]] = true
			}
			var got []string
			for _, z := range []string{"z1", "z2"} {
				if zones[z] {
					got = append(got, z)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("zones that pass (-want +got):\n%s", diff)
			}
		})
	}
}

func (f *fixture) info(t *testing.T, name string) fwk.NodeInfo {
	t.Helper()
	info, err := f.snapshot.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestDryRunMovesGangs: a gang leaves a zone with its last pod there, and comes with its first; the pod's own does not count.
func TestDryRunMovesGangs(t *testing.T) {
	nodes := racks(4, 1)
	f := gangFixture(t, nodes, nil)
	f.seesGroup("g", 2, "")
	h := []*v1.Pod{member("h0", "h", kit.OnNode("r1n1")), member("h1", "h", kit.OnNode("r1n1")), member("h2", "h", kit.OnNode("r2n1"))}
	infos := f.holds(t, nodes, h...)
	pod := member("g0", "g", spreads(zoneKey, 1, v1.DoNotSchedule, "a"))
	f.engine.Gangs().PodSeen(pod)
	state := framework.NewCycleState()
	if _, status := f.PreFilter(f.ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	run := state.Clone()
	zone1 := func() int {
		s, err := stateOf[*filterState](run, filterKey)
		if err != nil {
			t.Fatal(err)
		}
		return s.trials[0].Pods("z1")
	}
	steps := []struct {
		name string
		pod  *v1.Pod
		node string
		add  bool
		want int
	}{
		{"one of three leaves", h[0], "r1n1", false, 1},
		{"the second leaves", h[2], "r2n1", false, 1},
		{"the last leaves", h[1], "r1n1", false, 0},
		{"one comes back", h[1], "r1n1", true, 1},
		{"another comes back", h[0], "r1n1", true, 1},
		{"one of the own comes", member("g1", "g"), "r1n1", true, 1},
		{"a pod by itself comes", kit.Pod("ns", "lone", labelled("app", "a")), "r1n1", true, 2},
	}
	for _, step := range steps {
		p, err := framework.NewPodInfo(step.pod)
		if err != nil {
			t.Fatal(err)
		}
		do := f.RemovePod
		if step.add {
			do = f.AddPod
		}
		if status := do(f.ctx, run, pod, p, f.info(t, step.node)); !status.IsSuccess() {
			t.Fatal(status)
		}
		if got := zone1(); got != step.want {
			t.Errorf("%s: z1 counts %d, want %d", step.name, got, step.want)
		}
		run = run.Clone()
	}
	run = state
	if got := zone1(); got != 1 {
		t.Errorf("the cycle's own state counts %d, want 1", got)
	}
}

// TestContradiction: a gang that must be in one domain of a level is refused when a hard constraint lets no such domain hold it.
func TestContradiction(t *testing.T) {
	nodes := racks(4, 2) // four racks of two hosts, two zones
	minDomains := func(n int32) func(*v1.TopologySpreadConstraint) {
		return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &n }
	}
	none := func(*v1.TopologySpreadConstraint) {}
	tests := map[string]struct {
		key, required string
		members       int
		skew          int32
		edit          func(*v1.TopologySpreadConstraint)
		nodes         []*v1.Node
		pods          []*v1.Pod
		want          string
	}{
		"racks, one rack required": {rackKey, "leaf", 4, 1, none, nodes, nil, "gang ns/g must be in one leaf (gputopology.io/required-topology), but its topology spread constraint on " +
			rackKey + " (maxSkew 1, DoNotSchedule) lets no leaf hold more than 1 of its 4 pods"},
		"hosts, one rack required":      {hostKey, "leaf", 3, 1, none, nodes, nil, "lets no leaf hold more than 2 of its 3 pods"},
		"named by the label's key":      {hostKey, rackKey, 3, 1, none, nodes, nil, "lets no leaf hold more than 2 of its 3 pods"},
		"hosts that suffice":            {hostKey, "leaf", 2, 1, none, nodes, nil, ""},
		"a skew that suffices":          {hostKey, "leaf", 4, 2, none, nodes, nil, ""},
		"hosts, one zone required":      {hostKey, "zone", 4, 1, none, nodes, nil, ""},
		"racks, one zone required":      {rackKey, "zone", 3, 1, none, nodes, nil, "lets no zone hold more than 2 of its 3 pods"},
		"zones count gangs":             {zoneKey, "leaf", 4, 1, none, nodes, nil, ""},
		"all hosts are in the rack":     {hostKey, "leaf", 8, 1, none, racks(1, 2), nil, ""},
		"all hosts, too few domains":    {hostKey, "leaf", 8, 1, minDomains(3), racks(1, 2), nil, "hold more than 2 of its 8 pods"},
		"others fill the other domains": {rackKey, "leaf", 2, 1, none, racks(2, 1), placed(1, "r2n1"), ""},
		"nothing required":              {rackKey, "", 4, 1, none, nodes, nil, ""},
		"does not select itself":        {rackKey, "leaf", 4, 1, func(c *v1.TopologySpreadConstraint) { c.LabelSelector = selects("app", "b") }, nodes, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := gangFixture(t, tt.nodes, nil)
			f.seesGroup("g", tt.members, tt.required)
			pod := member("g0", "g", spreads(tt.key, tt.skew, v1.DoNotSchedule, "a", tt.edit))
			f.engine.Gangs().PodSeen(pod)
			for i := 1; i < tt.members; i++ {
				f.engine.Gangs().PodSeen(member(fmt.Sprint("g", i), "g", spreads(tt.key, tt.skew, v1.DoNotSchedule, "a", tt.edit)))
			}
			_, status := f.PreFilter(f.ctx, framework.NewCycleState(), pod, f.holds(t, tt.nodes, tt.pods...))
			if tt.want == "" {
				if !status.IsSuccess() {
					t.Errorf("refused: %v", status)
				}
				return
			}
			if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), tt.want) {
				t.Errorf("%v %q, want %q", status.Code(), status.Message(), tt.want)
			}
		})
	}
}

// TestContradictionIsForTheFirstPlan: a member that follows others, and a pod's own annotation.
func TestContradictionIsForTheFirstPlan(t *testing.T) {
	nodes := racks(4, 2)
	f := gangFixture(t, nodes, nil)
	f.seesGroup("g", 4, "")
	pod := member("g0", "g", spreads(rackKey, 1, v1.DoNotSchedule, "a"), kit.Annotate(v1alpha1.RequiredTopologyAnnotation, "leaf"))
	f.engine.Gangs().PodSeen(pod)
	infos := f.holds(t, nodes)
	refuses := func(what string, want bool) {
		t.Helper()
		_, status := f.PreFilter(f.ctx, framework.NewCycleState(), pod, infos)
		if got := status.Code() == fwk.UnschedulableAndUnresolvable; got != want || !got && !status.IsSuccess() {
			t.Errorf("%s: %v, want refused %t", what, status, want)
		}
	}
	// Of the quorum of 4, one has the constraint: wherever it goes, it is alone.
	for i := range 3 {
		f.engine.Gangs().PodSeen(member(fmt.Sprint("free", i), "g"))
	}
	refuses("one of four is bound by the constraint", false)
	f.engine.Gangs().PodSeen(member("g1", "g", spreads(rackKey, 1, v1.DoNotSchedule, "a")))
	refuses("of five, the one that may be left over is bound by it", false)
	f.engine.Gangs().PodGone(member("free0", "g"))
	refuses("two of four are bound by it", true)
	f.engine.Gangs().PodSeen(member("g2", "g", kit.OnNode("r1n1")))
	refuses("a member that follows", false)
}

// TestIgnoreNonGPUNodes: r1 and r2 have GPU nodes with a pod each, r3 has a CPU node, r4 cards of another product.
func TestIgnoreNonGPUNodes(t *testing.T) {
	gpu := func(name, rack, product string) *v1.Node {
		spec := kit.N8s
		if product == "MIG" {
			spec = kit.N8m
		}
		n := kit.Node(name, spec(name))
		n.Labels[rackKey], n.Labels[productLabel] = rack, product
		return n
	}
	slices := func(name, rack string) *v1.Node { // described by ResourceSlices alone
		return node(name, rackKey, rack)
	}
	needs := func(product string) kit.PodOption {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{productLabel: product} }
	}
	ignoring := policy(v1.NodeInclusionPolicyIgnore, "")
	one := []string{"n3"}
	tests := map[string]struct {
		change func(*config.TopologySpreadArgs)
		nodes  []*v1.Node
		pod    []kit.PodOption
		want   []string
	}{
		"GPU pod":            {nil, []*v1.Node{node("n3", rackKey, "r3")}, []kit.PodOption{kit.GPUs(1)}, []string{"n1", "n2", "n3"}},
		"CPU pod":            {nil, []*v1.Node{node("n3", rackKey, "r3")}, nil, one},
		"turned off":         {func(a *config.TopologySpreadArgs) { *a.IgnoreNonGPUNodes = false }, []*v1.Node{node("n3", rackKey, "r3")}, []kit.PodOption{kit.GPUs(1)}, one},
		"another product":    {nil, []*v1.Node{gpu("n3", "r3", "A100")}, []kit.PodOption{kit.GPUs(1), needs("H100")}, []string{"n1", "n2", "n3"}},
		"any product":        {nil, []*v1.Node{gpu("n3", "r3", "A100")}, []kit.PodOption{kit.GPUs(1)}, one},
		"share":              {nil, []*v1.Node{node("n3", rackKey, "r3")}, []kit.PodOption{kit.VRAM(1024, 1)}, []string{"n1", "n2", "n3"}},
		"MIG instance":       {nil, []*v1.Node{gpu("m1", "r1", "MIG"), gpu("m2", "r2", "MIG"), gpu("n3", "r3", "H100")}, []kit.PodOption{kit.Resource("nvidia.com/mig-1g.10gb", 1)}, []string{"m1", "m2", "n1", "n2", "n3"}},
		"cards by the slice": {nil, []*v1.Node{slices("dra", "r3")}, []kit.PodOption{kit.GPUs(1)}, []string{"dra"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options{fabric: true, args: tt.change})
			if strings.Contains(name, "slice") {
				described, err := topology.New(kit.N8s("dra"), topology.DefaultRates())
				if err != nil {
					t.Fatal(err)
				}
				f.engine.Ledger().SetNode("dra", described)
			}
			f.holds(t, append(tt.nodes, gpu("n1", "r1", "H100"), gpu("n2", "r2", "H100")), append(placed(1, "n1"), placed(1, "n2")...)...)
			pod := kit.Pod("ns", "x", append(tt.pod, labelled("app", "a"), spreads(rackKey, 1, v1.DoNotSchedule, "a", ignoring))...)
			if diff := cmp.Diff(tt.want, passing(f.verdicts(t, pod))); diff != "" {
				t.Errorf("nodes that pass (-want +got):\n%s", diff)
			}
		})
	}
}
