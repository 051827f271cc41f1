package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// inRacks adds nodes of 8 free cards in racks of the given sizes.
func inRacks(t *testing.T, p *placement.Problem, sizes ...int) {
	t.Helper()
	shape := machine(t, "shape", n8s())
	view := viewOf(shape, topology.FirstN(8))
	var labels []map[string]string
	for rack, size := range sizes {
		for range size {
			name := ledger.NodeName(fmt.Sprintf("n%04d", len(p.Nodes)))
			p.Nodes = append(p.Nodes, placement.Node{Name: name, View: view, Roles: ^uint64(0)})
			labels = append(labels, map[string]string{"network.topology.nvidia.com/leaf": fmt.Sprintf("rack-%03d", rack)})
		}
	}
	fabricOf(p, labels, func(int) bool { return false })
}

func hundredRacks(size int) []int {
	sizes := make([]int, 100)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// TestCaseB156RacksAreSkippedByTheirTotals: a rack whose nodes do not add up to the gang is not looked into, whether the gang must
// be in one rack or may be in several.
func TestCaseB156RacksAreSkippedByTheirTotals(t *testing.T) {
	const rackLayer = 1 // after the nodes
	tests := map[string]struct {
		members                 int
		within                  bool
		sizes                   []int
		fits                    bool
		wantLooked, wantSkipped int
	}{
		"1000 pods, 100 racks of 10":            {members: 1000, sizes: hundredRacks(10), fits: true, wantSkipped: 100},
		"1001 pods, 100 racks of 10":            {members: 1001, sizes: hundredRacks(10), wantSkipped: 100},
		"11 pods in one of 100 racks of 10":     {members: 11, within: true, sizes: hundredRacks(10), wantSkipped: 100},
		"10 pods in one of 100 racks of 10":     {members: 10, within: true, sizes: hundredRacks(10), fits: true, wantLooked: 100},
		"12 pods, two racks of 13 among others": {members: 12, sizes: append([]int{13}, append(hundredRacks(10), 13)...), fits: true, wantLooked: 2, wantSkipped: 100},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := gang(tc.members, whole(8))
			p.Required, p.HasRequired = topology.LevelLeaf, tc.within
			inRacks(t, p, tc.sizes...)
			planner := placement.NewPlanner(allocate.NewChooser())
			plan, rejection, err := planner.Plan(p)
			if err != nil || (plan != nil) != tc.fits {
				t.Fatalf("plan %t, rejection %v, error %v, want a plan: %t", plan != nil, rejection, err, tc.fits)
			}
			if tc.fits && len(plan.Assignments) != tc.members {
				t.Errorf("%d of %d members have a place", len(plan.Assignments), tc.members)
			}
			looked, skipped := planner.LookedInto(rackLayer, tc.members)
			if looked != tc.wantLooked || skipped != tc.wantSkipped {
				t.Errorf("%d racks are looked into and %d skipped, want %d and %d", looked, skipped, tc.wantLooked, tc.wantSkipped)
			}
		})
	}
}

// TestCaseB159OneSentenceForThousandsOfNodes: what a gang of 1000 hears of 5000 nodes is one sentence that sums them up by reason.
func TestCaseB159OneSentenceForThousandsOfNodes(t *testing.T) {
	p := gang(1000, whole(8))
	for range 5000 {
		name := ledger.NodeName(fmt.Sprintf("a-node-with-a-name-of-quite-some-length-%04d", len(p.Nodes)))
		p.Nodes = append(p.Nodes, placement.Node{Name: name, Roles: ^uint64(0)})
	}
	full := viewOf(machine(t, "full", n8s()), topology.FirstN(3))
	p.Bars = []string{"cordoned", "tainted", "not selected by node selector or affinity"}
	for i := range p.Nodes {
		p.Nodes[i].View = full
		if i%5 < len(p.Bars) {
			p.Nodes[i].Roles, p.Nodes[i].Bars = 0, []uint8{uint8(i%5) + 1}
		}
	}
	p.Fabric = nil
	sentence := mustReject(t, p).String()
	if len(sentence) > 1024 {
		t.Errorf("%d bytes, want at most 1024: %s", len(sentence), sentence)
	}
	for _, want := range []string{"1000 cordoned", "1000 tainted", "1000 not selected"} {
		if !strings.Contains(sentence, want) {
			t.Errorf("%q, want %q in it", sentence, want)
		}
	}
	if strings.Contains(sentence, "a-node-with") {
		t.Errorf("%q names single nodes", sentence)
	}
}
