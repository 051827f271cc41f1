package simulate

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

var update = flag.Bool("update", false, "write the golden files anew")

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("output (-%s +got):\n%s", name, diff)
	}
}

// wholeRecord is the record of whole cards of a node.
func wholeRecord(n Node, cards ...int) *v1alpha1.Record {
	r := &v1alpha1.Record{V: 1, Node: n.Object.Name}
	for _, i := range cards {
		c := n.Topology.Card(i)
		r.Cards = append(r.Cards, v1alpha1.CardRecord{Index: i, UUID: c.UUID, SliceMask: ^v1alpha1.SliceMask(0), VRAMBytes: c.VRAMBytes, ComputeMilli: 1000})
	}
	return r
}

func shareRecord(n Node, card, firstSlice, slices int) *v1alpha1.Record {
	c := n.Topology.Card(card)
	mask := (v1alpha1.SliceMask(1)<<slices - 1) << firstSlice
	return &v1alpha1.Record{V: 1, Node: n.Object.Name, Cards: []v1alpha1.CardRecord{
		{Index: card, UUID: c.UUID, SliceMask: mask, VRAMBytes: c.VRAMBytes / 64 * int64(slices)},
	}}
}

func migRecord(n Node, card, instance int) *v1alpha1.Record {
	c := n.Topology.Card(card)
	m := c.MIG[instance]
	return &v1alpha1.Record{V: 1, Node: n.Object.Name, Cards: []v1alpha1.CardRecord{
		{Index: card, UUID: c.UUID, SliceMask: v1alpha1.SliceMask(m.SliceMask()), VRAMBytes: m.VRAMBytes, MIG: m.Profile},
	}}
}

// drawn is a small cluster with pods on it.
func drawn(t *testing.T) ([]Node, *oracle.Cluster, []Placement, map[string]string) {
	t.Helper()
	v100, l40s, a100 := node(t, &DGX1, 0), node(t, &L40S, 0), node(t, &MIGA100, 0)
	nodes := []Node{v100, l40s, a100}
	graphs := map[string]*topology.Node{}
	for _, n := range nodes {
		graphs[n.Object.Name] = n.Topology
	}
	c, err := oracle.New(graphs)
	if err != nil {
		t.Fatal(err)
	}
	pods := []struct {
		pod    Pod
		node   Node
		record *v1alpha1.Record
	}{
		{wholePod("pair", 2), v100, wholeRecord(v100, 1, 2)},
		{wholePod("four", 4), v100, wholeRecord(v100, 4, 5, 6, 7)},
		{only(&DGX1, wholePod("single", 1)), v100, wholeRecord(v100, 0)},
		{sharePod("share", 10, 1), l40s, shareRecord(l40s, 3, 0, 16)},
		{kaiPod("quarter", 25), l40s, shareRecord(l40s, 3, 16, 16)},
		{migPod("instance", "2g.20gb"), a100, migRecord(a100, 7, 2)},
		{wholePod("mesh", 3), a100, wholeRecord(a100, 0, 1, 5)},
	}
	keys := map[string]string{}
	var placements []Placement
	for i, p := range pods {
		keys[p.pod.Name] = key(i)
		placements = append(placements, placementOf(&p.pod, p.record, p.node, c))
		if err := c.Place(p.pod.Name, p.record); err != nil {
			t.Fatal(err)
		}
	}
	waiting := pending(sharePod("waiting", 60, 8))
	placements = append(placements, Placement{Pod: &waiting, Reason: "no room"})
	return nodes, c, placements, keys
}

func TestTable(t *testing.T) {
	_, _, placements, _ := drawn(t)
	checkGolden(t, "table.golden", table(placements))
}

func TestLines(t *testing.T) {
	_, _, placements, _ := drawn(t)
	var lines []string
	for i := range placements {
		lines = append(lines, placements[i].line()+"\n")
	}
	checkGolden(t, "lines.golden", strings.Join(lines, ""))
}

func TestBoard(t *testing.T) {
	nodes, c, _, keys := drawn(t)
	checkGolden(t, "board.golden", strings.Join(board(nodes, c, keys), "\n")+"\n")
}

func TestBoardShowsUnusableCards(t *testing.T) {
	n := node(t, &L40S, 0)
	spec := n.Topology.Spec()
	spec.Cards[2].Healthy = false
	graph, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	n.Topology = graph
	c, err := oracle.New(map[string]*topology.Node{n.Object.Name: graph})
	if err != nil {
		t.Fatal(err)
	}
	if got := board([]Node{n}, c, nil)[1]; !strings.HasPrefix(got, "l40s-0  ..x.....  ") {
		t.Errorf("board = %q", got)
	}
}

func TestRanges(t *testing.T) {
	for want, set := range map[string]topology.GPUSet{
		"": 0, "0": topology.SetOf(0), "0-7": topology.FirstN(8), "0,2": topology.SetOf(0, 2), "1-2,4,6-7": topology.SetOf(1, 2, 4, 6, 7),
	} {
		if got := ranges(set); got != want {
			t.Errorf("ranges(%v) = %q, want %q", set, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "#"} {
		if got := key(i); got != want {
			t.Errorf("key(%d) = %q, want %q", i, got, want)
		}
	}
}
