package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// What the nodes say is what the scheduler reads: leaves and spines of the sizes that the constants name, nothing else.
func TestPlacesAreAFabric(t *testing.T) {
	const nodes = 300
	b := topology.NewFabricBuilder(nil)
	for i := range nodes {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		placeOf(i).put(n)
		b.SetNode(fmt.Sprintf("node-%d", i), n.Labels)
	}
	f := b.Fabric()
	sizes := func(l topology.Level) (out []int) {
		for _, d := range f.Domains(l) {
			out = append(out, d.Len())
		}
		return out
	}
	want := make([]int, 18, 19)
	for i := range want {
		want[i] = nodesPerLeaf
	}
	if diff := cmp.Diff(append(want, 300-18*nodesPerLeaf), sizes(topology.LevelLeaf)); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{128, 128, 44}, sizes(topology.LevelSpine)); diff != "" {
		t.Errorf("spines (-want +got):\n%s", diff)
	}
	if len(f.Problems()) > 0 {
		t.Errorf("problems: %v", f.Problems())
	}
}

func TestSpreadOf(t *testing.T) {
	s := &size{Gangs: 2, Members: 3}
	places := map[string]place{"a": {"leaf-0", "spine-0"}, "b": {"leaf-0", "spine-0"}, "c": {"leaf-1", "spine-0"}, "d": {"leaf-8", "spine-1"}}
	// pods are in an order that says nothing.
	pods := func(lines ...string) []v1.Pod {
		out := make([]v1.Pod, len(lines))
		for i, line := range lines {
			out[i].Name, out[i].Spec.NodeName, _ = strings.Cut(line, " ")
		}
		return out
	}
	tests := map[string]struct {
		pods []v1.Pod
		want Spread
		err  string // "" is no error
	}{
		"below a leaf each":  {pods("worker-5 c", "worker-0 a", "worker-3 c", "worker-1 b", "worker-2 a", "worker-4 c"), Spread{1, 1}, ""},
		"over two and three": {pods("worker-5 d", "worker-0 a", "worker-3 c", "worker-1 c", "worker-2 b", "worker-4 b"), Spread{2.5, 1.5}, ""},
		"another's pod":      {pods("web-1 a"), Spread{}, `pod "web-1"`},
		"a pod too many":     {pods("worker-6 a"), Spread{}, `pod "worker-6": its name must be worker-0 to worker-5`},
		"no place":           {pods("worker-0 e"), Spread{}, `pod worker-0 is on node "e", which is in no leaf`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := spreadOf(s, tc.pods, places)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("spreadOf = %v, %v, want %v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestLeast(t *testing.T) {
	want := map[string]Spread{
		"256Nodes_60Gangs": {1, 1}, "512Nodes_125Gangs": {1, 1}, "5000Nodes_100Gangs": {2, 1}, "5000Nodes_3Gangs": {63, 8},
	}
	got := map[string]Spread{}
	for i := range sizes {
		got[sizes[i].Name] = sizes[i].least()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("least (-want +got):\n%s", diff)
	}
}
