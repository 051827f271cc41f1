package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestOrderOfSources gives a node all sources, of different card counts, and takes the best away one by one; then it breaks
// the best instead of removing it.
func TestOrderOfSources(t *testing.T) {
	want := []string{SourceAnnotation, SourceDRA, SourceHAMi, SourceVolcano, SourceGFD, SourceAllocatable, ""}
	spec := n8s()
	spec.Cards = spec.Cards[:1]
	value := annotated(t, spec, nil).Annotations[v1alpha1.TopologyAnnotation]
	everything := func() (*v1.Node, sliceList) {
		n := newNode(strs{
			v1alpha1.TopologyAnnotation: value,
			annotationHAMiRegister:      hamiJSON(3, nil),
			annotationVolcanoRegister:   "GPU-0,10,1,T4,true,hami-core:GPU-1,10,1,T4,true,hami-core:GPU-2,10,1,T4,true,hami-core:GPU-3,10,1,T4,true,hami-core:",
		}, gfdLabels("T4", 5), strs{"nvidia.com/gpu": "6"})
		return n, sliceList{draSlice("a", 1, 1, draGPU(0), draGPU(1))}
	}
	steps := []struct {
		remove func(n *v1.Node, s *sliceList)
		spoil  func(n *v1.Node, s *sliceList)
	}{
		{func(n *v1.Node, _ *sliceList) { delete(n.Annotations, v1alpha1.TopologyAnnotation) }, func(n *v1.Node, _ *sliceList) { n.Annotations[v1alpha1.TopologyAnnotation] = "?" }},
		{func(_ *v1.Node, s *sliceList) { *s = nil }, func(_ *v1.Node, s *sliceList) { (*s)[0].Spec.Devices[1].Name = "gpu-64" }},
		{func(n *v1.Node, _ *sliceList) { delete(n.Annotations, annotationHAMiRegister) }, func(n *v1.Node, _ *sliceList) { n.Annotations[annotationHAMiRegister] = "?" }},
		{func(n *v1.Node, _ *sliceList) { delete(n.Annotations, annotationVolcanoRegister) }, func(n *v1.Node, _ *sliceList) { n.Annotations[annotationVolcanoRegister] = "?" }},
		{func(n *v1.Node, _ *sliceList) { n.Labels = nil }, func(n *v1.Node, _ *sliceList) { n.Labels[labelCount] = "?" }},
		{func(n *v1.Node, _ *sliceList) { n.Status.Allocatable = nil }, func(n *v1.Node, _ *sliceList) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("6.5") }},
	}
	for _, mode := range []string{"removed", "spoiled"} {
		node, list := everything()
		for i, name := range want {
			res := Resolve(node, list, Options{})
			count := 0
			if res.Topology != nil {
				count = res.Topology.Len()
			}
			if wantCount := (i + 1) % len(want); res.Source != name || count != wantCount {
				t.Fatalf("%d sources %s: got %d cards from %q, want %d from %q: %v", i, mode, count, res.Source, wantCount, name, res.Problems)
			}
			sources := map[string]bool{}
			for _, p := range res.Problems {
				sources[p.Source] = true
			}
			if mode == "spoiled" {
				for _, spoiled := range want[:i] {
					if !sources[spoiled] {
						t.Errorf("%s is spoiled, and no problem says so: %v", spoiled, res.Problems)
					}
				}
			}
			if i == len(steps) {
				break
			}
			if mode == "removed" {
				steps[i].remove(node, &list)
			} else {
				steps[i].spoil(node, &list)
			}
		}
	}
}

// TestChangeOfSourceKeepsIdentity checks that a card keeps its index where the new source knows no UUIDs, and its UUID where
// the index may have changed: by one or the other a holding finds its card.
func TestChangeOfSourceKeepsIdentity(t *testing.T) {
	status := strs{"nvidia.com/gpu": "8"}
	nodes := map[string]*v1.Node{
		SourceAnnotation: annotated(t, n8s(), status),
		SourceHAMi:       newNode(strs{annotationHAMiRegister: hamiJSON(8, nil)}, nil, strs{"nvidia.com/gpu": "80"}),
		SourceGFD:        newNode(nil, gfdLabels(h100Label, 8), status),
	}
	got := map[string]int{}
	for name, node := range nodes {
		res := Resolve(node, nil, Options{})
		if res.Source != name {
			t.Fatalf("source is %q, want %q", res.Source, name)
		}
		for i := range 8 {
			if c := res.Topology.Card(i); c.UUID == "" || c.UUID == uuid(i) {
				got[name]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{SourceAnnotation: 8, SourceHAMi: 8, SourceGFD: 8}, got); diff != "" {
		t.Errorf("cards that keep their identity (-want +got):\n%s", diff)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	long := string(make([]byte, 300_000)) + "\xff"
	node := newNode(strs{annotationHAMiRegister: hamiJSON(2, nil), annotationHAMiScore: scores(200, func(int, int) int { return -1 })}, nil, nil)
	res := Resolve(node, nil, Options{})
	// 198 rows of cards that are not there, and in each of two rows 198 such cards and one bad score
	if len(res.Problems) != maxProblems+1 || res.Problems[maxProblems].Reason != "and 580 more problems" {
		t.Errorf("got %d problems, the last %v", len(res.Problems), res.Problems[len(res.Problems)-1])
	}
	for _, key := range annotationKeys {
		for _, p := range Resolve(newNode(strs{key: long}, nil, nil), nil, Options{}).Problems {
			if len([]rune(p.Value)) > maxValue || len(p.Reason) > 300 || len(p.Field) > 200 {
				t.Errorf("%s: problem is too long: %q", key, p)
			}
		}
	}
}

func TestInvalidRates(t *testing.T) {
	rates := topology.DefaultRates()
	rates.Unknown = -1
	res := Resolve(newNode(nil, nil, strs{"nvidia.com/gpu": "1"}), nil, Options{Rates: rates})
	if res.Topology != nil {
		t.Error("a topology was made with a negative rate")
	}
	wantProblems(t, res.Problems, "rates.unknown")
}
