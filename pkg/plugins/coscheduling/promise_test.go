package coscheduling

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// fleet is so many nodes of 8 GPUs, n1 and on.
func fleet(n int) []*v1.Node {
	nodes := make([]*v1.Node, n)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		nodes[i] = kit.Node(name, kit.N8s(name))
	}
	return nodes
}

// TestGangGoesAroundPromises: a gang is planned on the nodes that nobody was promised, however many that a plan would rather use
// were, and what was promised to those who go behind it is no reason to go elsewhere.
func TestGangGoesAroundPromises(t *testing.T) {
	tests := map[string]struct {
		promised int
		priority int32
		own      bool
		want     string
	}{
		"none":                      {promised: 0, priority: 10, want: "n1"},
		"the first":                 {promised: 1, priority: 10, want: "n2"},
		"as many as detours":        {promised: maxDetours, priority: 10, want: fmt.Sprintf("n%d", maxDetours+1)},
		"more than detours":         {promised: maxDetours + 3, priority: 10, want: fmt.Sprintf("n%d", maxDetours+4)},
		"to a lower priority":       {promised: 1, priority: 1, want: "n1"},
		"to another of its members": {promised: 1, priority: 10, own: true, want: "n1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods := members("a", 1, kit.GPUs(4), kit.Priority(5))
			f := newFixture(t, objects(fleet(maxDetours+5), pods)...)
			f.seesGroup("a", 1)
			for i := range tt.promised {
				p := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(8), kit.Priority(tt.priority))
				if tt.own {
					p.Labels = pods[0].Labels
				}
				f.nominated.promise(t, f.nodes[i].Node().Name, p)
			}
			if _, node, status := f.prefilter(t, pods[0]); node != tt.want {
				t.Errorf("planned on node %q (%v), want %s", node, status, tt.want)
			}
		})
	}
}

// TestPromisesThatTakeNothingChangeNothing: whoever looks at what is promised to others behind the gang need not plan again.
func TestPromisesThatTakeNothingChangeNothing(t *testing.T) {
	pods := members("a", 1, kit.GPUs(4), kit.Priority(5))
	f := newFixture(t, objects(fleet(3), pods)...)
	f.seesGroup("a", 1)
	f.nominated.promise(t, "n1", kit.Pod("ns", "low", kit.UID("low"), kit.GPUs(8), kit.Priority(1)))
	f.nominated.promise(t, "n2", kit.Pod("ns", "high", kit.UID("high"), kit.GPUs(8), kit.Priority(9)))
	a := f.book.Admit(pods[0])
	roles, _, at, err := f.rolesOf(a.Candidates, a.Need)
	if err != nil {
		t.Fatal(err)
	}
	s, _, _ := f.problem(&a, roles, at, f.nodes)
	for i, want := range []bool{false, true, false} {
		if got := s.honour(i); got != want {
			t.Errorf("node n%d changed: %v, want %v", i+1, got, want)
		}
		if s.honour(i) {
			t.Errorf("node n%d changed a second time", i+1)
		}
	}
}

// TestMinResourcesOfPromisedNodes: a node that is promised as a whole counts for nothing.
func TestMinResourcesOfPromisedNodes(t *testing.T) {
	pods := members("a", 1, kit.GPUs(1), kit.Priority(5))
	f := newFixture(t, objects(fleet(2), pods)...)
	f.seesGroup("a", 1, func(g *podgroup.Group) { g.MinResources = map[v1.ResourceName]int64{"nvidia.com/gpu": 9} })
	f.nominated.promise(t, "n2", kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(9), kit.Priority(9))) // it waits for what comes free
	_, _, status := f.prefilter(t, pods[0])
	for _, want := range []string{"minResources", "9", "8"} {
		if !strings.Contains(status.Message(), want) {
			t.Errorf("PreFilter: %v, want a sentence with %q", status, want)
		}
	}
}
