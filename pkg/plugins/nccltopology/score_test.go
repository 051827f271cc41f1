package nccltopology

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestSingleExample is the worked example above Score.
func TestSingleExample(t *testing.T) {
	nodes := append(racked(2, 4, 2, kit.N8s), kit.Node("flat", kit.N8s("flat")))
	f := newFixture(t, nodes)
	for i := 1; i <= 3; i++ {
		f.take(t, fmt.Sprintf("old%d", i), fmt.Sprintf("r1n%d", i), 8)
	}
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2))
	got := f.scores(t, pod, f.feasible(t, pod))
	want := map[string]int64{"r1n4": 83, "r2n1": 47, "r2n2": 47, "r2n3": 47, "r2n4": 47, "flat": 83}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	unlabelled := newFixture(t, []*v1.Node{kit.Node("flat", kit.N8s("flat"))})
	if got := unlabelled.scores(t, pod, unlabelled.infos)["flat"]; got != 95 {
		t.Errorf("score without a network %d, want 95", got)
	}
}

// TestMemberExample is the worked example above Score.
func TestMemberExample(t *testing.T) {
	nodes := racked(3, 2, 2, kit.N1)[:5]
	f := newFixture(t, nodes)
	pods := f.elastic("g", 3, kit.GPUs(1))
	mate := pods[0].DeepCopy()
	mate.Spec.NodeName = "r1n1"
	f.engine.Gangs().PodSeen(mate)
	f.take(t, string(mate.UID), "r1n1", 1)
	want := map[string]int64{"r1n2": 100, "r2n1": 50, "r2n2": 50, "r3n1": 0}
	if diff := cmp.Diff(want, f.scores(t, pods[1], f.feasible(t, pods[1]))); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestPackingExample(t *testing.T) {
	f := newFixture(t, racked(3, 4, 3, kit.N8s))
	f.take(t, "a", "r1n1", 8)
	for i := 1; i <= 3; i++ {
		f.take(t, fmt.Sprintf("c%d", i), fmt.Sprintf("r3n%d", i), 8)
	}
	f.take(t, "c4", "r3n4", 4)
	for want, at := range map[int][3]int{0: {625, 500, 938}, 24: {625, 500, 62}} {
		r := f.newRoom(f.engine.Fabric(), f.infos, want)
		if got := [3]int{r.packing(f.position("r1n4")), r.packing(f.position("r2n1")), r.packing(f.position("r3n4"))}; got != at {
			t.Errorf("want %d cards: packing %v, want %v", want, got, at)
		}
	}
}

// TestRoomFollowsLabels: a node that moves to another rack takes its cards along, those in use and those not.
func TestRoomFollowsLabels(t *testing.T) {
	nodes := racked(2, 2, 2, kit.N8s)
	f := newFixture(t, nodes)
	f.take(t, "a", "r1n1", 8)
	at := func(node string) [2]int {
		free, total := f.engine.Occupancy(f.engine.Fabric()).At(f.position(node))
		return [2]int{free, total}
	}
	if got := at("r1n2"); got != [2]int{8, 16} {
		t.Errorf("rack r1 has %v cards free and in all, want 8 and 16", got)
	}
	moved := nodes[0].DeepCopy()
	moved.Labels[leafKey] = "r2"
	if _, err := f.client.CoreV1().Nodes().Update(f.ctx, moved, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "the node in its new rack", func() bool { return at("r2n1") == [2]int{16, 24} && at("r1n2") == [2]int{8, 8} })
	f.engine.Ledger().Forget("a")
	if got := at("r1n1"); got != [2]int{24, 24} {
		t.Errorf("rack r2 has %v cards free and in all, want 24 and 24", got)
	}
}

func TestCardsWanted(t *testing.T) {
	pod := kit.Pod("ns", "p", kit.GPUs(4))
	for waiting, want := range []int{0, 0, 8, 12} {
		if got := cardsWanted(pod, waiting); got != want {
			t.Errorf("%d pods of 4 cards want %d together, want %d", waiting, got, want)
		}
	}
}

// TestZonesAreNotPacked: where labels name zones alone, a single goes anywhere.
func TestZonesAreNotPacked(t *testing.T) {
	nodes := racked(2, 2, 1, kit.N8s)
	for i, n := range nodes {
		delete(n.Labels, leafKey)
		delete(n.Labels, spineKey)
		n.Labels[v1.LabelTopologyZone] = fmt.Sprint("z", i/2)
	}
	f := newFixture(t, nodes)
	f.take(t, "old", "r1n1", 8)
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2))
	if diff := cmp.Diff(map[string]int64{"r1n2": 95, "r2n1": 95, "r2n2": 95}, f.scores(t, pod, f.feasible(t, pod))); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestPreScoreSkips(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s))
	if f.scores(t, kit.Pod("ns", "cpu"), f.infos) != nil {
		t.Error("a pod without GPUs is scored")
	}
	if f.scores(t, kit.Pod("ns", "other", kit.GPUs(1), kit.ForScheduler("other")), f.infos) != nil {
		t.Error("a pod of a profile without GPUTopology is scored")
	}
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	if status := f.PreScore(f.ctx, state, kit.Pod("ns", "p", kit.GPUs(1)), f.infos); !status.IsSkip() {
		t.Errorf("PreScore in a native group's cycle: %v, want Skip", status)
	}
	if raw, status := f.Score(f.ctx, framework.NewCycleState(), kit.Pod("ns", "p"), f.infos[0]); raw != 0 || !status.IsSuccess() {
		t.Errorf("Score without PreScore: %d, %v", raw, status)
	}
}

// TestCaseB135Scores: however many nodes, equal or without any facts: in range, and equal where nothing differs.
func TestCaseB135Scores(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s))
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2))
	for n := range 3 {
		if got := f.scores(t, pod, f.infos[:n]); len(got) != n || n == 2 && got["r1n1"] != got["r1n2"] {
			t.Errorf("%d nodes score %v", n, got)
		}
	}
	list := make(fwk.NodeScoreList, 5000)
	for _, s := range []*scoring{nil, {mates: &mates{}}} {
		for i := range list {
			list[i].Score = 0
		}
		state := framework.NewCycleState()
		if s != nil {
			state.Write(scoringKey, s)
		}
		if status := f.NormalizeScore(f.ctx, state, pod, list); !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, n := range list {
			if n.Score != list[0].Score || n.Score < fwk.MinScore || n.Score > fwk.MaxScore {
				t.Fatalf("equal raw scores became %d and %d", list[0].Score, n.Score)
			}
		}
	}
	for _, name := range []ledger.NodeName{"r1n1", "r1n2"} {
		f.engine.Ledger().SetNode(name, nil) // the source of the topology is gone
	}
	if diff := cmp.Diff(map[string]int64{"r1n1": 0, "r1n2": 0}, f.scores(t, pod, f.infos)); diff != "" {
		t.Errorf("scores without any facts (-want +got):\n%s", diff)
	}
}

// TestPointsContract: in range, never NaN, growing with bandwidth, proximity and packing.
func TestPointsContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Float64Range(0, 1).Draw(t, "pciWeight")
		p := &Plugin{pciWeight: weight, nvlinkWeight: 1 - weight}
		bandwidth := rapid.Int64Range(-5, 20_000_000)
		link := rapid.IntRange(0, len(closeness)-1)
		packing := rapid.IntRange(0, placement.PackedFull)
		score := func(b int64, l, k int) int64 {
			pci, nvlink := scale(minPCI, closeness[l]), nvlinkBandwidth(topology.Bandwidth(b))
			if pci < minPCI || pci > maxPCI || nvlink < minNVLink || nvlink > maxNVLink {
				t.Fatalf("PCIProximity %v, NVLinkBandwidth %v", pci, nvlink)
			}
			return points(p.seed(pci, nvlink) * int64(k) / placement.PackedFull).final()
		}
		b1, l1, k1 := bandwidth.Draw(t, "b1"), link.Draw(t, "l1"), packing.Draw(t, "k1")
		b2, l2, k2 := bandwidth.Draw(t, "b2"), link.Draw(t, "l2"), packing.Draw(t, "k2")
		got := score(b1, l1, k1)
		if got < fwk.MinScore || got > fwk.MaxScore {
			t.Fatalf("score %d", got)
		}
		if more := score(max(b1, b2), max(l1, l2), max(k1, k2)); more < got {
			t.Fatalf("a better node scores %d, the other %d", more, got)
		}
	})
}

// TestRankedContract: in range, in order, equal for equal, the best at 100.
func TestRankedContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Int64Range(-3, rapid.Int64Range(-3, 1<<62).Draw(t, "most")), 0, 300).Draw(t, "raw")
		list := append([]int64(nil), raw...)
		ranked(list, func(v *int64) *int64 { return v })
		for i := range list {
			if list[i] < fwk.MinScore || list[i] > fwk.MaxScore {
				t.Fatalf("score %d", list[i])
			}
			best := true
			for j := range list {
				if raw[i] == raw[j] && list[i] != list[j] || raw[i] > raw[j] && list[i] < list[j] {
					t.Fatalf("%d and %d became %d and %d", raw[i], raw[j], list[i], list[j])
				}
				best = best && raw[i] >= raw[j]
			}
			if best && list[i] != fwk.MaxScore {
				t.Fatalf("the best scores %d", list[i])
			}
		}
	})
	example := []int64{7, 9, 9, 3}
	ranked(example, func(v *int64) *int64 { return v })
	if diff := cmp.Diff([]int64{50, 100, 100, 0}, example); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNearnessIsNested: a node that shares a narrower level with a mate, or as narrow a one and is nearer to the others, is
// never behind.
func TestNearnessOrder(t *testing.T) {
	f := newFixture(t, racked(6, 2, 2, kit.N1))
	fabric := f.engine.Fabric()
	names := make([]string, fabric.Len())
	for i := range names {
		names[i] = fabric.Name(i)
	}
	rapid.Check(t, func(t *rapid.T) {
		on := rapid.SliceOfN(rapid.SampledFrom(names), 1, 8).Draw(t, "mates")
		mateNodes := make([]ledger.NodeName, len(on))
		for i := range on {
			mateNodes[i] = ledger.NodeName(on[i])
		}
		m := newMates(fabric, mateNodes)
		// reach counts by brute force what the raw score packs.
		reach := func(name string) (nearest, sum int) {
			pos, _ := fabric.Position(name)
			for _, mate := range on {
				other, _ := fabric.Position(mate)
				level := topology.LevelHost
				for level < topology.LevelCluster && !fabric.Domain(level, pos).Contains(other) {
					level++
				}
				nearest = max(nearest, int(topology.LevelCluster-level))
				sum += int(topology.LevelCluster - level)
			}
			return nearest, sum
		}
		for _, a := range names {
			nearest, sum := reach(a)
			if want := nearness(nearest<<sharedShift | sum<<sumShift | 3); m.of(f.position(a), 3) != want {
				t.Fatalf("nearness of %s to %v is %x, want %x", a, on, m.of(f.position(a), 3), want)
			}
		}
	})
}

func TestDerivedQualities(t *testing.T) {
	build := func(spec topology.Spec) *topology.Node {
		n, err := topology.New(spec, topology.DefaultRates())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	withNIC := kit.N1("n")
	withNIC.NICs = []topology.NIC{{Name: "mlx5_0", Links: []topology.LinkType{topology.LinkPXB}}}
	for name, tt := range map[string]struct {
		node *topology.Node
		set  topology.GPUSet
		want float64
	}{
		"NVSwitch":                  {build(kit.N8s("n")), topology.FirstN(8), 1},
		"a bridged pair":            {build(kit.N8p("n")), topology.FirstN(2), 1},
		"two bridged pairs":         {build(kit.N8p("n")), topology.FirstN(4), 0.88},
		"across sockets":            {build(kit.N8p("n")), topology.FirstN(8), 0.76},
		"a single, no adapter":      {build(kit.N8s("n")), topology.FirstN(1), 0.7},
		"a single near its adapter": {build(withNIC), topology.FirstN(1), 0.94},
		"links that nobody knows":   {build(topology.Spec{Cards: kit.N2("n").Cards}), topology.FirstN(2), 0.7},
	} {
		if got := pciProximity(tt.node, tt.set); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%s: PCIProximity %v, want %v", name, got, tt.want)
		}
	}
}

func TestHintCounts(t *testing.T) {
	nodes := []*v1.Node{kit.Node("plain", kit.N2("plain")), kit.Node("good", kit.N2("good")), kit.Node("odd", kit.N2("odd")), kit.Node("broken", kit.N2("broken"))}
	nodes[1].Annotations[v1alpha1.NCCLHintAnnotation] = `{"pciProximity":0.92,"nvlinkBandwidth":1.0}`
	nodes[2].Annotations[v1alpha1.NCCLHintAnnotation] = `{"pciProximity":0.2,"nvlinkBandwidth":7}`
	nodes[3].Annotations[v1alpha1.NCCLHintAnnotation] = `{"pciProximity":"fast"}`
	f := newFixture(t, nodes)
	f.engine.Placing()
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2))
	// plain: PIX, 24 GB/s: 40 x 1.0 + 60 x (0.85 + 0.15 x 24/721.8) = 91.3; good: 40 x 0.92 + 60 = 96.8; odd: 40 x 0.7 + 60.
	want := map[string]int64{"plain": 91, "good": 96, "odd": 88, "broken": 91}
	for range 3 {
		if diff := cmp.Diff(want, f.scores(t, pod, f.infos)); diff != "" {
			t.Fatalf("scores (-want +got):\n%s", diff)
		}
	}
	var told []string
	f.eventually(t, "two events", func() bool {
		select {
		case e := <-f.recorder.Events:
			told = append(told, e)
		default:
		}
		return len(told) == 2
	})
	select {
	case e := <-f.recorder.Events:
		t.Errorf("one more event: %s", e)
	default:
	}
	t.Log(told)
	changed := nodes[1].DeepCopy()
	changed.Annotations[v1alpha1.NCCLHintAnnotation] = `{"nvlinkBandwidth":0.9}`
	if got, want := f.hintOf(changed), (hint{nvlink: 0.9}); got != want {
		t.Errorf("after the annotation has changed the hint is %+v, want %+v", got, want)
	}
}

func TestSignPod(t *testing.T) {
	f := newFixture(t, racked(1, 1, 1, kit.N8s))
	sign := func(pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return f.SignPod(f.ctx, pod) }
	if none, status := sign(kit.Pod("ns", "cpu")); len(none) != 0 || !status.IsSuccess() {
		t.Errorf("a pod without GPUs: %v, %v", none, status)
	}
	for name, pod := range map[string]*v1.Pod{
		"a pod with GPUs": kit.Pod("ns", "a", kit.GPUs(2)), "a member of a gang": f.elastic("g", 1)[0], "a member of a native group": nativePods("g", 1)[0],
		"a pod whose request cannot be read": kit.Pod("ns", "d", kit.VRAM(-1, 1)),
	} {
		if _, status := sign(pod); status.IsSuccess() {
			t.Errorf("%s is signed", name)
		}
	}
}
