package coscheduling

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestSurveyFromMemory: whatever happens between two surveys, what is kept of the nodes gives the same answer as reading
// all of them anew.
func TestSurveyFromMemory(t *testing.T) {
	const most = 4
	var nodes []*v1.Node
	for i := range most {
		nodes = append(nodes, kit.Node(fmt.Sprintf("n%d", i), kit.N2(fmt.Sprintf("n%d", i))))
	}
	f := newFixture(t, objects(nodes)...)
	serial := 0
	rapid.Check(t, func(rt *rapid.T) {
		clear(f.nominated)
		infos := append([]fwk.NodeInfo(nil), f.nodes...)
		for step := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(infos)-1).Draw(rt, "node")
			switch rapid.SampledFrom([]string{"pod", "cordon", "gone", "swap", "another", "promise", "cards", "nothing"}).Draw(rt, "change") {
			case "pod":
				serial++
				info := infos[i].Snapshot()
				added, err := framework.NewPodInfo(kit.Pod("ns", "x", kit.UID(fmt.Sprintf("x%d", serial)), kit.Resource("cpu", 1)))
				if err != nil {
					rt.Fatal(err)
				}
				info.AddPodInfo(added)
				infos[i] = info
			case "cordon":
				info, node := infos[i].Snapshot(), infos[i].Node().DeepCopy()
				node.Spec.Unschedulable = !node.Spec.Unschedulable
				info.SetNode(node)
				infos[i] = info
			case "gone":
				if len(infos) > 1 {
					infos = append(infos[:i:i], infos[i+1:]...)
				}
			case "swap":
				k := rapid.IntRange(0, len(infos)-1).Draw(rt, "with")
				infos = slices.Clone(infos)
				infos[i], infos[k] = infos[k], infos[i]
			case "another": // one node leaves, and one that was not there comes in its place
				for _, info := range f.nodes {
					if !slices.ContainsFunc(infos, func(had fwk.NodeInfo) bool { return had.Node().Name == info.Node().Name }) {
						infos = slices.Clone(infos)
						infos[i] = info
						break
					}
				}
			case "promise":
				f.nominated.promise(t, infos[i].Node().Name, kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(int64(rapid.IntRange(1, 3).Draw(rt, "cards"))), kit.Priority(9)))
			case "cards":
				serial++
				held := ledger.Holding{UID: ledger.PodUID(fmt.Sprintf("h%d", serial)), Pod: "ns/h", Node: ledger.NodeName(infos[i].Node().Name)}
				a := f.engine.Ledger().Node(held.Node)
				choice, _, err := f.engine.Chooser().Choose(&a.View, &allocate.Request{Claims: []allocate.Claim{{Container: "c", Kind: allocate.KindWhole, Count: 1}}})
				if held.Cards = choice.Cards; err == nil && len(held.Cards) > 0 {
					if err := f.engine.Ledger().Assume(held); err != nil {
						rt.Fatal(err)
					}
					rt.Cleanup(func() { f.engine.Ledger().Forget(held.UID) })
				}
			}
			a := &book.Admission{Group: book.GroupKey{Namespace: "ns", Name: "a"}}
			a.Need = 1
			for _, pod := range members("a", 1, kit.GPUs(1), kit.Resource("cpu", int64(rapid.IntRange(1, 2).Draw(rt, "cpu")))) {
				a.Candidates = append(a.Candidates, book.Candidate{Pod: pod, Rank: -1})
			}
			if rapid.Bool().Draw(rt, "excluded") {
				a.Excluded = map[ledger.NodeName]bool{ledger.NodeName(infos[0].Node().Name): true}
			}
			got := f.problemNodes(rt, a, infos)
			kept := f.known
			f.known = nil
			want := f.problemNodes(rt, a, infos)
			f.known = kept
			if d := cmp.Diff(want, got, cmp.AllowUnexported(), cmp.Comparer(func(x, y *allocate.View) bool {
				return x == y || x != nil && y != nil && cmp.Equal(x.Use, y.Use) && x.Free == y.Free
			})); d != "" {
				rt.Fatalf("step %d (-anew +from memory):\n%s", step, d)
			}
		}
	})
}

// problemNodes returns a copy of the nodes of a gang's problem.
func (f *fixture) problemNodes(t *rapid.T, a *book.Admission, infos []fwk.NodeInfo) []placement.Node {
	t.Helper()
	roles, _, at, err := f.rolesOf(a.Candidates, a.Need)
	if err != nil {
		t.Fatal(err)
	}
	s, problem, _ := f.problem(a, roles, at, infos)
	s.honourAll()
	out := append([]placement.Node(nil), problem.Nodes...)
	for i := range out {
		out[i].Free = append([]int64(nil), out[i].Free...)
		out[i].Total = append([]int64(nil), out[i].Total...)
		out[i].Bars = append([]uint8(nil), out[i].Bars...)
	}
	return out
}
