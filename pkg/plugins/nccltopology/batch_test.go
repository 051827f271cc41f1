package nccltopology

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func TestSignPod(t *testing.T) {
	f := newFixture(t, racked(1, 1, 1, kit.N8s))
	sign := func(pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return f.SignPod(f.ctx, pod) }
	one, status := sign(kit.Pod("ns", "a", kit.GPUs(2)))
	other, _ := sign(kit.Pod("ns", "b", kit.GPUs(2)))
	if diff := cmp.Diff(one, other); diff != "" || !status.IsSuccess() || len(one) != 1 {
		t.Errorf("pods that ask for the same: %v, %v, %s", one, status, diff)
	}
	if more, _ := sign(kit.Pod("ns", "c", kit.GPUs(3))); cmp.Equal(one, more) {
		t.Error("pods that ask for different things have one signature")
	}
	if _, status := sign(kit.Pod("ns", "five", kit.GPUs(5))); status.IsSuccess() {
		t.Error("a pod of which a node holds only one is signed")
	}
	if none, status := sign(kit.Pod("ns", "cpu")); len(none) != 0 || !status.IsSuccess() {
		t.Errorf("a pod without GPUs: %v, %v", none, status)
	}
	if _, status := sign(f.elastic("g", 1, kit.GPUs(1))[0]); status.IsSuccess() {
		t.Error("a member of a gang is signed")
	}
	if _, status := sign(nativePods("g", 1, kit.GPUs(1))[0]); status.IsSuccess() {
		t.Error("a member of a native group is signed")
	}
	if _, status := sign(kit.Pod("ns", "d", kit.VRAM(-1, 1))); status.IsSuccess() {
		t.Error("a pod whose request cannot be read is signed")
	}
}

// TestSignPodBeforeAnyNode: how many pods a node holds is not known yet, so none is batched.
func TestSignPodBeforeAnyNode(t *testing.T) {
	f := newFixture(t, nil)
	if _, status := f.SignPod(f.ctx, kit.Pod("ns", "a", kit.GPUs(1))); status.IsSuccess() {
		t.Error("a pod is signed before a node is known")
	}
}

// batched drives the plugin as kube-scheduler's batching does. It is one batch: the raw scores are those of its first cycle, but for
// the nodes that were scored anew.
type batched struct {
	f     *fixture
	pod   *v1.Pod
	infos map[string]fwk.NodeInfo
	raw   map[string]int64
}

// first is a whole cycle over some nodes.
func (f *fixture) first(t fails, pod *v1.Pod, nodes []fwk.NodeInfo) (*batched, map[string]int64) {
	b := &batched{f: f, pod: pod, infos: map[string]fwk.NodeInfo{}, raw: map[string]int64{}}
	for _, info := range nodes {
		b.infos[info.Node().Name] = info
	}
	final, status := b.score(t, slices.Sorted(maps.Keys(b.infos)))
	if !status.IsSuccess() {
		t.Fatalf("first cycle: %v", status)
	}
	return b, final
}

// fails is the part of *testing.T and *rapid.T that is needed here.
type fails interface {
	Fatalf(format string, args ...any)
}

// score has some of the nodes scored anew, and all normalized.
func (b *batched) score(t fails, anew []string) (map[string]int64, *fwk.Status) {
	state, nodes := framework.NewCycleState(), []fwk.NodeInfo{}
	names := slices.Sorted(maps.Keys(b.infos))
	for _, name := range names {
		nodes = append(nodes, b.infos[name])
	}
	if status := b.f.PreScore(b.f.ctx, state, b.pod, nodes); !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	for _, name := range anew {
		raw, status := b.f.Score(b.f.ctx, state, b.pod, b.infos[name])
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		b.raw[name] = raw
	}
	list := make(fwk.NodeScoreList, len(names))
	for i, name := range names {
		list[i] = fwk.NodeScore{Name: name, Score: b.raw[name]}
	}
	status := b.f.NormalizeScore(b.f.ctx, state, b.pod, list)
	final := map[string]int64{}
	for _, n := range list {
		final[n.Name] = n.Score
	}
	return final, status
}

// TestBatchScoresAsACycleWould holds for random racks, fillings and requests: after every pod of a batch, all nodes that still serve
// have the scores that a cycle which scored all of them anew would give them.
func TestBatchScoresAsACycleWould(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		racks, each := rapid.IntRange(1, 4).Draw(r, "racks"), rapid.IntRange(1, 4).Draw(r, "each")
		f := newFixture(t, append(racked(racks, each, 2, kit.N8s), kit.Node("outside", kit.N8s("outside"))))
		for i, info := range f.infos {
			if n := rapid.IntRange(0, 6).Draw(r, "held"); n > 0 {
				f.take(t, fmt.Sprint("old-", i), info.Node().Name, n)
			}
		}
		cards := rapid.IntRange(1, 2).Draw(r, "cards")
		pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(int64(cards)))
		nodes := f.feasible(t, pod)
		b, final := f.first(r, pod, nodes)
		for i := range 12 {
			best := slices.MaxFunc(slices.Sorted(maps.Keys(final)), func(x, y string) int { return int(final[x] - final[y]) })
			f.take(t, fmt.Sprint("new-", i), best, cards)
			if free := f.engine.Ledger().Node(ledger.NodeName(best)).Free.Len(); free < cards {
				return // the scheduler would go on with the next of the list
			}
			got, status := b.score(r, []string{best})
			if !status.IsSuccess() {
				return // it has left its rack
			}
			_, want := f.first(r, pod, nodes)
			f.batch.stays(f.rackOf(best)) // that cycle was the test's
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("after pod %d (-all anew +batched):\n%s", i, diff)
			}
			final = got
		}
	})
}

func (f *fixture) rackOf(node string) int {
	at := f.position(node)
	if at < 0 {
		return noRack
	}
	return f.engine.Occupancy(f.engine.Fabric()).Home(at)
}

// TestBatchEndsWithItsRack: a batch goes on in the rack where it began, and is refused once it took a node of another.
func TestBatchEndsWithItsRack(t *testing.T) {
	f := newFixture(t, racked(2, 2, 2, kit.N8s))
	pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2))
	b, _ := f.first(t, pod, f.infos)
	for i, step := range []struct {
		node string
		want bool
	}{{"r2n1", true}, {"r2n2", true}, {"r2n1", true}, {"r1n1", false}, {"r1n2", true}, {"r2n2", false}} {
		if _, status := b.score(t, []string{step.node}); status.IsSuccess() != step.want || status.Code() == fwk.Error {
			t.Errorf("step %d, %s: %v, want success %t", i, step.node, status, step.want)
		}
	}
	f.first(t, pod, f.infos)
	if _, status := b.score(t, []string{"r1n1"}); !status.IsSuccess() {
		t.Errorf("the first pod after a whole cycle: %v", status)
	}
}

// TestBatchWithoutRacks: where nothing describes the network a batch goes where it likes.
func TestBatchWithoutRacks(t *testing.T) {
	f := newFixture(t, []*v1.Node{kit.Node("a", kit.N8s("a")), kit.Node("b", kit.N8s("b"))})
	b, want := f.first(t, kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2)), f.infos)
	for _, node := range []string{"a", "b", "a"} {
		got, status := b.score(t, []string{node})
		if diff := cmp.Diff(want, got); diff != "" || !status.IsSuccess() {
			t.Errorf("%s: %v, (-first +later):\n%s", node, status, diff)
		}
	}
}
