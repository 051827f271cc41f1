package placement_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestPlanChecksWhatIsNew: a planner that has found the views of one problem to be sound still finds the broken one of the next,
// wherever it stands, as often as it is asked.
func TestPlanChecksWhatIsNew(t *testing.T) {
	broken := viewOf(machine(t, "x", n8s()), topology.FirstN(4))
	broken.Free = topology.FirstN(5)
	tests := map[string]func(p *placement.Problem){
		"another view of a node": func(p *placement.Problem) { p.Nodes[1].View = broken },
		"one node more": func(p *placement.Problem) {
			p.Nodes = append(p.Nodes, placement.Node{Name: "more", View: broken, Roles: 1, Free: []int64{}})
		},
		"other nodes stand there": func(p *placement.Problem) {
			p.Nodes[0].View = broken
			slices.Reverse(p.Nodes)
		},
		"fewer nodes": func(p *placement.Problem) {
			p.Nodes = p.Nodes[1:]
			p.Nodes[0].View = broken
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			planner := placement.NewPlanner(allocate.NewChooser())
			good, bad := gang(2, whole(8)), gang(2, whole(8))
			fleet(t, good, 8, 8, 8)
			fleet(t, bad, 8, 8, 8)
			for i := range bad.Nodes {
				bad.Nodes[i].View = good.Nodes[i].View
			}
			change(bad)
			for range 2 {
				if plan, rejection, err := planner.Plan(good); err != nil || plan == nil {
					t.Fatalf("the good problem: plan %v, rejection %v, error %v", plan, rejection, err)
				}
				for range 2 {
					_, _, err := planner.Plan(bad)
					var in *placement.InputError
					if !errors.As(err, &in) {
						t.Errorf("the bad problem: error %v, want one of the view", err)
					}
				}
			}
		})
	}
}
