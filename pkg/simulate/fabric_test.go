package simulate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// yardLayout is the layout of wholeGang.
const yardLayout = `{"v":1,"domains":[` +
	`{"level":"leaf","name":"leaf-0","within":["spine spine-0"],"members":2,"ranks":"0-1","nodes":[{"name":"v100-32g-0","members":2,"ranks":"0-1"}]},` +
	`{"level":"leaf","name":"leaf-1","within":["spine spine-0"],"members":2,"ranks":"2-3","nodes":[{"name":"v100-32g-1","members":2,"ranks":"2-3"}]}]}`

// row is more machines for gangs, in turn below two leaves.
func row(t *testing.T, count int) ([]Node, *oracle.Cluster) {
	t.Helper()
	nodes, graphs := make([]Node, count), map[string]*topology.Node{}
	for i := range nodes {
		nodes[i] = node(t, &gangMachine, i)
		graphs[nodes[i].Object.Name] = nodes[i].Topology
	}
	wire(nodes)
	c, err := oracle.New(graphs)
	if err != nil {
		t.Fatal(err)
	}
	return nodes, c
}

// sat are the seats of a gang of which two members are on each node named, in the order of the ranks.
func sat(t *testing.T, nodes []Node, c *oracle.Cluster, on ...int) []seat {
	t.Helper()
	g := &gang{name: "g", size: 2 * len(on), cards: 4, machine: &gangMachine}
	var out []seat
	for rank := range g.size {
		s, err := seatOf(g, boundMember(t, g, rank, nodes[on[rank/2]], quads[rank%2], nil), nodes, c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// What the demo labels is what the scheduler reads: as many leaves of as many nodes, under one spine.
func TestWire(t *testing.T) {
	nodes, _ := row(t, gangNodes)
	b := topology.NewFabricBuilder(nil)
	for i := range nodes {
		b.SetNode(nodes[i].Object.Name, nodes[i].Object.Labels)
	}
	f := b.Fabric()
	if leaves, spines := f.Domains(topology.LevelLeaf), f.Domains(topology.LevelSpine); len(leaves) != gangLeaves || len(spines) != 1 || len(f.Problems()) > 0 {
		t.Fatalf("leaves %v, spines %v, problems %v", leaves, spines, f.Problems())
	}
	for i := range nodes {
		pos, ok := f.Position(nodes[i].Object.Name)
		leaf, spine := f.Domain(topology.LevelLeaf, pos), f.Domain(topology.LevelSpine, pos)
		if !ok || leaf.Name != nodes[i].leaf() || leaf.Len() != gangNodes/gangLeaves || spine.Name != nodes[i].spine() {
			t.Errorf("node %s: %+v below %+v, want leaf %s and spine %s", nodes[i].Object.Name, leaf, spine, nodes[i].leaf(), nodes[i].spine())
		}
		if i > 0 && nodes[i].leaf() == nodes[i-1].leaf() {
			t.Errorf("nodes %d and %d are below one leaf", i-1, i)
		}
	}
}

func TestLayoutOf(t *testing.T) {
	nodes, c := row(t, 4)
	got, err := layoutOf(sat(t, nodes, c, 0, 1)).Format()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(yardLayout, got); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	// Domains stand in the order of the fabric, whichever ranks they have.
	want := &v1alpha1.Layout{Version: v1alpha1.Version, Domains: []v1alpha1.LayoutDomain{
		{Level: "leaf", Name: "leaf-0", Within: []string{"spine spine-0"}, Members: 4, Ranks: "2-5", Nodes: []v1alpha1.LayoutNode{
			{Name: "v100-32g-0", Members: 2, Ranks: "4-5"}, {Name: "v100-32g-2", Members: 2, Ranks: "2-3"},
		}},
		{Level: "leaf", Name: "leaf-1", Within: []string{"spine spine-0"}, Members: 2, Ranks: "0-1", Nodes: []v1alpha1.LayoutNode{
			{Name: "v100-32g-3", Members: 2, Ranks: "0-1"},
		}},
	}}
	if diff := cmp.Diff(want, layoutOf(sat(t, nodes, c, 3, 2, 0))); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
}

func TestLaidOut(t *testing.T) {
	nodes, c := row(t, 2)
	layout := layoutOf(sat(t, nodes, c, 0, 1))
	tests := map[string]struct {
		phase, text string
		want        bool
	}{
		"runs":                     {phaseRunning, yardLayout, true},
		"runs, a field of later":   {phaseRunning, strings.Replace(yardLayout, `{"v":1`, `{"v":1,"more":2`, 1), true},
		"runs, another node":       {phaseRunning, strings.Replace(yardLayout, "v100-32g-1", "v100-32g-2", 1), false},
		"runs, other ranks":        {phaseRunning, strings.Replace(yardLayout, `"2-3"`, `"1,3"`, 1), false},
		"runs, a summary":          {phaseRunning, strings.Replace(yardLayout, `{"v":1`, `{"v":1,"summary":true`, 1), false},
		"runs, unreadable":         {phaseRunning, "{", false},
		"runs, none yet":           {phaseRunning, "", false},
		"waits":                    {phaseWaiting, "", true},
		"waits and claims a place": {phaseWaiting, yardLayout, false},
		"has ended":                {phaseFinished, yardLayout, true},
	}
	for name, tc := range tests {
		s := standing{want: tc.phase, layout: layout, state: groupState{layout: tc.text}}
		if got := s.laidOut(); got != tc.want {
			t.Errorf("%s: laidOut = %t, want %t", name, got, tc.want)
		}
	}
}

func TestJudgeLeaves(t *testing.T) {
	tests := map[string]struct {
		on []int
		// taken are nodes that others hold.
		taken []int
		want  string // "" is no fault
	}{
		"below one leaf":                    {[]int{1, 3}, nil, ""},
		"spread":                            {[]int{0, 1}, nil, "gang g: is spread over leaf-0, leaf-1, but leaf-0 alone has room for it"},
		"spread, the other leaf has room":   {[]int{1, 2}, []int{0}, "gang g: is spread over leaf-1, leaf-0, but leaf-1 alone has room for it"},
		"spread, no leaf has room for it":   {[]int{2, 1}, []int{0, 3}, ""},
		"spread, too large for either leaf": {[]int{0, 2, 1}, nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, c := row(t, 4)
			for _, i := range tc.taken {
				if err := c.Place(nodes[i].Object.Name, wholeRecord(nodes[i], 0, 1, 2, 3, 4, 5, 6, 7)); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			g := &gang{name: "g", size: 2 * len(tc.on), cards: 4}
			if err := judgeLeaves(g, sat(t, nodes, c, tc.on...), c, nodes); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("fault = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestContiguousBelowLeaves(t *testing.T) {
	nodes, c := row(t, 4)
	g := &gang{name: "g", size: 6, cards: 4, machine: &gangMachine}
	if err := inOrder(g, sat(t, nodes, c, 0, 2, 1)); err != nil {
		t.Errorf("unexpected fault: %v", err)
	}
	const want = "gang g: the ranks on leaf leaf-0 are not contiguous, rank 4 follows others"
	if err := inOrder(g, sat(t, nodes, c, 0, 1, 2)); err == nil || err.Error() != want {
		t.Errorf("fault = %v, want %q", err, want)
	}
}

func TestWayOf(t *testing.T) {
	nodes, c := row(t, 4)
	all := sat(t, nodes, c, 0)
	tests := map[string]struct {
		all  []seat
		want way
	}{
		"one card":           {[]seat{{Placement: Placement{Node: nodes[0].Object.Name, Cards: topology.SetOf(3)}}}, way{}},
		"one member":         {all[:1], way{slowest: 20_000, at: "inside a node"}},
		"one node":           {all, way{slowest: 40_000, at: "inside a node"}},
		"one leaf":           {sat(t, nodes, c, 0, 2), way{slowest: 40_000, at: "inside a node", nodes: crossings{2, 2}}},
		"two leaves":         {sat(t, nodes, c, 0, 2, 1), way{slowest: 40_000, at: "inside a node", nodes: crossings{3, 3}, leaves: crossings{2, 2}}},
		"two leaves, zigzag": {sat(t, nodes, c, 0, 1, 2, 3), way{slowest: 40_000, at: "inside a node", nodes: crossings{4, 4}, leaves: crossings{4, 2}}},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.want, wayOf(tc.all, c), cmp.AllowUnexported(way{}, crossings{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Where NVSwitch joins the cards, the network is the slowest part.
func TestWayOfFastNodes(t *testing.T) {
	var nodes []Node
	graphs := map[string]*topology.Node{}
	for i := range 3 {
		n := node(t, &HGXH100, i)
		nodes, graphs[n.Object.Name] = append(nodes, n), n.Topology
	}
	wire(nodes)
	c, err := oracle.New(graphs)
	if err != nil {
		t.Fatal(err)
	}
	for at, tc := range map[string]struct {
		other int
		want  topology.Bandwidth
	}{"between nodes": {2, 50_000}, "between leaves": {1, 41_667}} {
		if w := wayOf(sat(t, nodes, c, 0, tc.other), c); w.slowest != tc.want || w.at != at {
			t.Errorf("ring of %v %s, want %v %s", w.slowest, w.at, tc.want, at)
		}
	}
}

func TestFabricTable(t *testing.T) {
	nodes, c := row(t, 4)
	of := func(name, phase string, on ...int) standing {
		all := sat(t, nodes, c, on...)
		for i := range all {
			all[i].Pod.Name = strings.Replace(all[i].Pod.Name, "g", name, 1)
		}
		return standing{gang: &gang{name: name}, want: phase, seats: all, layout: layoutOf(all), way: wayOf(all, c)}
	}
	checkGolden(t, "fabric.golden", fabricTable([]standing{
		of("late", phaseWaiting, 0), of("y", phaseRunning, 3), of("x", phaseRunning, 0, 2, 1),
	}))
}
