package nccltopology

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// proposal is one pod's node in a placement that was tried.
type proposal struct {
	pod  *v1.Pod
	node string
}

func (p *proposal) GetPod() *v1.Pod             { return p.pod }
func (*proposal) GetPodInfo() fwk.PodInfo       { return nil }
func (p *proposal) GetNodeName() string         { return p.node }
func (*proposal) GetCycleState() fwk.CycleState { return nil }

// compare scores ways to place the pods, each a node by pod.
func (f *fixture) compare(t testing.TB, g *framework.PodGroupInfo, ways ...[]string) []int64 {
	t.Helper()
	_, _, cycle := f.generate(t, g)
	scores := make([]fwk.PlacementScore, len(ways))
	for i, nodes := range ways {
		tried := &fwk.PodGroupAssignments{Placement: &fwk.Placement{Name: fmt.Sprint(i)}}
		for k, node := range nodes {
			tried.ProposedAssignments = append(tried.ProposedAssignments, &proposal{g.UnscheduledPods[k], node})
		}
		state := framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(cycle)
		raw, status := f.ScorePlacement(f.ctx, state, g, tried)
		if !status.IsSuccess() || raw < 0 {
			t.Fatalf("ScorePlacement: %d, %v", raw, status)
		}
		scores[i] = fwk.PlacementScore{Placement: tried.Placement, Score: raw}
	}
	if status := f.PlacementScoreExtensions().NormalizePlacementScore(f.ctx, cycle, g, scores); !status.IsSuccess() {
		t.Fatalf("NormalizePlacementScore: %v", status)
	}
	out := make([]int64, len(scores))
	for i := range scores {
		out[i] = scores[i].Score
		if out[i] < fwk.MinScore || out[i] > fwk.MaxScore {
			t.Fatalf("placement %d scores %d", i, out[i])
		}
	}
	return out
}

// TestPlacementScoreOrder has ways to place a group, the best first; the scores must fall.
func TestPlacementScoreOrder(t *testing.T) {
	withNativeGroups(t)
	nodes := racked(4, 4, 2, kit.N8s)
	workers := func(n int, cards int64) *framework.PodGroupInfo {
		return nativeGroup("g", 1, "", nativePods("g", n, kit.GPUs(cards))...)
	}
	tests := map[string]struct {
		group *framework.PodGroupInfo
		ways  [][]string
	}{
		"level":                  {workers(2, 2), [][]string{{"r1n1", "r1n1"}, {"r1n1", "r1n2"}, {"r1n1", "r2n1"}, {"r1n1", "r3n1"}}},
		"more pods before level": {workers(2, 8), [][]string{{"r1n1", "r4n1"}, {"r1n1"}}},
		"fewer nodes":            {workers(4, 2), [][]string{{"r1n1", "r1n1", "r1n2", "r1n2"}, {"r1n1", "r1n1", "r1n2", "r1n3"}}},
		"fewer leaves":           {workers(4, 4), [][]string{{"r1n1", "r1n1", "r3n1", "r3n2"}, {"r1n1", "r2n1", "r3n1", "r3n1"}}},
		"fuller leaf":            {workers(2, 8), [][]string{{"r4n1", "r4n2"}, {"r1n1", "r1n2"}}},
		"launcher does not count": {nativeGroup("g", 1, "", append(nativePods("g", 2, kit.GPUs(8)), nativePods("l", 1)...)...),
			[][]string{{"r4n1", "r4n2", "r1n1"}, {"r1n1", "r1n2", "r1n3"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nodes)
			f.take(t, "old", "r4n4", 8)
			scores := f.compare(t, tt.group, tt.ways...)
			for i := range scores {
				if i == 0 && scores[0] != fwk.MaxScore || i > 0 && scores[i] >= scores[i-1] {
					t.Errorf("scores %v, want 100 and falling", scores)
				}
			}
		})
	}
}

// TestPlacementExample is the worked example above ScorePlacement, with two pods in racks of four nodes.
func TestPlacementExample(t *testing.T) {
	withNativeGroups(t)
	f := newFixture(t, racked(4, 4, 2, kit.N8s))
	f.take(t, "a1", "r1n1", 8)
	f.take(t, "a2", "r1n2", 8)
	got := f.compare(t, nativeGroup("g", 2, "", nativePods("g", 2, kit.GPUs(8))...),
		[]string{"r1n3", "r1n4"}, []string{"r2n1", "r2n2"}, []string{"r3n1", "r4n1"}, []string{"r4n3", "r3n4"})
	if diff := cmp.Diff([]int64{100, 50, 0, 0}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestFullness: the percentage of the domain that would be taken, with what is taken already.
func TestFullness(t *testing.T) {
	withNativeGroups(t)
	f := newFixture(t, racked(2, 4, 2, kit.N8s))
	f.take(t, "a1", "r1n1", 8)
	_, _, cycle := f.generate(t, nativeGroup("g", 1, "", nativePods("g", 1, kit.GPUs(8))...))
	st := engine.ReadState[*survey](cycle, surveyKey).stock
	leaves := f.engine.Fabric().Domains(topology.LevelLeaf)
	for i, want := range [][4]int64{{25, 50, 100, 100}, {0, 25, 75, 100}} {
		for k, taken := range []int{0, 8, 24, 40} {
			if got := st.fullness(leaves[i], taken); got != want[k] {
				t.Errorf("rack %d with %d more: %d %%, want %d", i+1, taken, got, want[k])
			}
		}
	}
	if got := st.fullness(topology.Domain{}, 0); got != 0 {
		t.Errorf("no domain: %d %%", got)
	}
}

// TestPlacementNearTheRest: the pods of the group that run count for level and domains.
func TestPlacementNearTheRest(t *testing.T) {
	withNativeGroups(t)
	pods := nativePods("g", 2, kit.GPUs(8))
	pods[0].Spec.NodeName = "r2n1"
	f := newFixture(t, racked(4, 2, 2, kit.N8s), pods...)
	got := f.compare(t, nativeGroup("g", 1, "", pods[1]), []string{"r2n2"}, []string{"r1n1"}, []string{"r4n1"}, []string{"r3n1"})
	if diff := cmp.Diff([]int64{100, 50, 0, 0}, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// TestCaseB135PlacementScores: no cards, no fabric and no survey give equal scores, never an error.
func TestCaseB135PlacementScores(t *testing.T) {
	withNativeGroups(t)
	f := newFixture(t, racked(2, 2, 1, kit.N8s))
	got := f.compare(t, nativeGroup("g", 2, "", nativePods("g", 2)...), []string{"r1n1", "r1n2"}, []string{"r1n1", "r2n1"})
	if diff := cmp.Diff([]int64{100, 100}, got); diff != "" {
		t.Errorf("a group without cards (-want +got):\n%s", diff)
	}
	if raw, status := f.ScorePlacement(f.ctx, framework.NewCycleState(), nil, nil); raw != 0 || !status.IsSuccess() {
		t.Errorf("without a cycle: %d, %v", raw, status)
	}
	if got := f.compare(t, nativeGroup("g", 1, "", nativePods("g", 1, kit.GPUs(1))...), []string{"a-node-nobody-knows"}); got[0] != 100 {
		t.Errorf("on a node outside the fabric: %v", got)
	}
	got = f.compare(t, nativeGroup("g", 1, "", nativePods("g", 2, kit.GPUs(1))...), []string{"r1n1", "a-node-nobody-knows"}, []string{"r1n1", "r1n2"})
	if diff := cmp.Diff([]int64{0, 100}, got); diff != "" {
		t.Errorf("a node outside the fabric is near to nothing (-want +got):\n%s", diff)
	}
	if status := f.NormalizePlacementScore(f.ctx, nil, nil, nil); !status.IsSuccess() {
		t.Errorf("no placements: %v", status)
	}
}

// TestStandingIsLexicographic compares the packed numbers with what they pack.
func TestStandingIsLexicographic(t *testing.T) {
	withNativeGroups(t)
	f := newFixture(t, racked(6, 2, 2, kit.N8s))
	g := nativeGroup("g", 1, "", nativePods("g", 8, kit.GPUs(1))...)
	_, _, cycle := f.generate(t, g)
	s := engine.ReadState[*survey](cycle, surveyKey)
	fabric := f.engine.Fabric()
	names := make([]string, fabric.Len())
	for i := range names {
		names[i] = fabric.Name(i)
	}
	key := func(nodes []string) (k []int) {
		level, domains := topology.LevelHost, map[topology.Level]map[int]bool{}
		for _, n := range nodes {
			pos, _ := fabric.Position(n)
			for l := topology.LevelHost; l <= topology.LevelCluster; l++ {
				if domains[l] == nil {
					domains[l] = map[int]bool{}
				}
				domains[l][fabric.Index(l, pos)] = true
			}
		}
		for len(domains[level]) > 1 {
			level++
		}
		k = []int{len(nodes), -int(level)}
		for l := topology.LevelHost; l <= topology.LevelSpine; l++ {
			k = append(k, -len(domains[l]))
		}
		return k
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) ([]string, standing) {
			nodes := rapid.SliceOfN(rapid.SampledFrom(names), 1, 8).Draw(t, name)
			var proposed []fwk.ProposedAssignment
			for i, n := range nodes {
				proposed = append(proposed, &proposal{g.UnscheduledPods[i], n})
			}
			return nodes, s.standing(proposed)
		}
		a, rawA := draw("a")
		b, rawB := draw("b")
		ka, kb := key(a), key(b)
		for i := range ka {
			if ka[i] != kb[i] {
				if (ka[i] > kb[i]) != (rawA > rawB) || rawA == rawB {
					t.Fatalf("%v %v has %x, %v %v has %x", a, ka, rawA, b, kb, rawB)
				}
				return
			}
		}
	})
}
