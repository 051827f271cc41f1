package book

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// racks is a fabric of leaves with nodes each under one spine; node i of leaf l is "l<l>n<i>".
func racks(leaves, nodes int) *topology.Fabric {
	b := topology.NewFabricBuilder(nil)
	for l := range leaves {
		for n := range nodes {
			b.SetNode(fmt.Sprintf("l%dn%d", l, n), map[string]string{
				"network.topology.nvidia.com/leaf": fmt.Sprintf("leaf-%03d", l), "network.topology.nvidia.com/spine": fmt.Sprintf("spine-%d", l/8),
			})
		}
	}
	return b.Fabric()
}

func seatsOf(f *topology.Fabric, perNode int) []seat {
	var out []seat
	for pos := range f.Len() {
		for range perNode {
			out = append(out, seat{position: pos, rank: len(out), node: f.Name(pos)})
		}
	}
	return out
}

// scattered are seats on one node of which no two have ranks that follow each other.
func scattered(n int) []seat {
	out := make([]seat, n)
	for i := range out {
		out[i] = seat{position: -1, rank: 2 * i, node: "n"}
	}
	return out
}

func TestLayout(t *testing.T) {
	f := racks(2, 2)
	text, err := layoutOf(f, []seat{{2, 3, "l1n0"}, {0, 0, "l0n0"}, {0, 1, "l0n0"}, {1, 2, "l0n1"}, {-1, -1, "elsewhere"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := v1alpha1.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.Layout{Version: 1, Domains: []v1alpha1.LayoutDomain{
		{Level: "leaf", Members: 1, Nodes: []v1alpha1.LayoutNode{{Name: "elsewhere", Members: 1}}},
		{Level: "leaf", Name: "leaf-000", Within: []string{"spine spine-0"}, Members: 3, Ranks: "0-2", Nodes: []v1alpha1.LayoutNode{
			{Name: "l0n0", Members: 2, Ranks: "0-1"}, {Name: "l0n1", Members: 1, Ranks: "2"},
		}},
		{Level: "leaf", Name: "leaf-001", Within: []string{"spine spine-0"}, Members: 1, Ranks: "3", Nodes: []v1alpha1.LayoutNode{{Name: "l1n0", Members: 1, Ranks: "3"}}},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestLayoutFits: however large the gang, the layout keeps within what an object may carry, and says all ranks.
func TestLayoutFits(t *testing.T) {
	tests := map[string]struct {
		fabric      *topology.Fabric
		seats       []seat
		wantSummary bool
		wantLevel   string
	}{
		"64 nodes":                    {racks(4, 16), seatsOf(racks(4, 16), 1), false, "leaf"},
		"4096 members by leaf":        {racks(256, 16), seatsOf(racks(256, 16), 1), true, "leaf"},
		"too many leaves: by spine":   {racks(2000, 2), seatsOf(racks(2000, 2), 1), true, "spine"},
		"nobody knows the fabric":     {nil, []seat{{-1, 0, "a"}, {-1, 1, "b"}}, false, "cluster"},
		"ranks without any order":     {nil, scattered(40_000), true, "cluster"},
		"no fabric and far too large": {nil, seatsOf(racks(256, 16), 1), true, "cluster"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := layoutOf(tt.fabric, tt.seats)
			if err != nil {
				t.Fatal(err)
			}
			l, err := v1alpha1.ParseLayout(text)
			if err != nil {
				t.Fatal(err)
			}
			members := 0
			for _, d := range l.Domains {
				members += d.Members
			}
			if len(text) > v1alpha1.MaxLayoutBytes || l.Summary != tt.wantSummary || l.Domains[0].Level != tt.wantLevel || members != len(tt.seats) {
				t.Errorf("%d bytes, summary %t, level %s, %d of %d members", len(text), l.Summary, l.Domains[0].Level, members, len(tt.seats))
			}
		})
	}
}

func TestRanks(t *testing.T) {
	tests := map[string][]int{"": {-1, -1}, "0": {0, 0}, "0-3,7": {3, 1, 2, 0, 7, -1}, "5,9-10": {10, 5, 9}}
	for want, ranks := range tests {
		var seats []seat
		for _, r := range ranks {
			seats = append(seats, seat{rank: r})
		}
		if got := ranksOf(seats); got != want {
			t.Errorf("ranks %v read %q, want %q", ranks, got, want)
		}
	}
}
