package book

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// crowded is a bench with so many nodes, and foreign pods that somebody else has bound to them.
func crowded(t fails, nodes, foreign int) *bench {
	b := newBench(t)
	for i := range nodes {
		b.node(fmt.Sprintf("n%05d", i), kit.N8s)
	}
	for i := range foreign {
		pod := b.member("", fmt.Sprintf("foreign-%05d", i))
		pod.Spec.NodeName = fmt.Sprintf("n%05d", i%nodes)
		b.create(pod)
	}
	return b
}

// TestCaseB153CountsEqualABruteForceWalk: members of a gang come, run, end and are deleted among foreign pods. At 100 random
// moments the gang's counts are those of a walk over every pod there is.
func TestCaseB153CountsEqualABruteForceWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(153, 1))
	b := crowded(t, 8, 400)
	b.group("a", 4)
	ended := map[string]bool{}
	next := 0
	pick := func() *v1.Pod {
		var members []*v1.Pod
		for _, o := range b.store.List() {
			if pod, ok := o.(*v1.Pod); ok && strings.HasPrefix(pod.Name, "a-") {
				members = append(members, pod)
			}
		}
		if len(members) == 0 {
			return nil
		}
		return members[random.IntN(len(members))]
	}
	for moment := range 100 {
		for range 1 + random.IntN(4) {
			switch pod := pick(); {
			case pod == nil || random.IntN(3) == 0:
				b.create(b.member("a", fmt.Sprintf("a-%d", next), kit.GPUs(1)))
				next++
			case pod.Spec.NodeName != "" && random.IntN(2) == 0:
				b.finish(pod, v1.PodSucceeded)
				ended[pod.Name] = true
			case random.IntN(4) == 0:
				b.remove(pod)
			default:
				b.run()
			}
		}
		b.pass(3 * time.Second) // a member that vanished is believed to exist for two
		living, bound := 0, 0
		for _, o := range b.store.List() {
			pod, ok := o.(*v1.Pod)
			if !ok || pod.Labels == nil || !strings.HasPrefix(pod.Name, "a-") {
				continue
			}
			living++
			if pod.Spec.NodeName != "" {
				bound++
			}
		}
		c := b.counts("a")
		if c.Bound != bound || c.Members != living+len(ended) || c.Succeeded != len(ended) {
			t.Fatalf("moment %d: %d members, %d bound, %d succeeded; the walk finds %d, %d, %d",
				moment, c.Members, c.Bound, c.Succeeded, living+len(ended), bound, len(ended))
		}
		b.check()
	}
	if len(ended) == 0 || next < 50 {
		t.Errorf("%d members came and %d succeeded: too few to tell", next, len(ended))
	}
}

// TestCaseB153PermitDependsOnNoOther: what Permit asks of memory is the same beside few foreign pods and beside many.
func TestCaseB153PermitDependsOnNoOther(t *testing.T) {
	alone, beside := permitAllocations(t, 8, 0), permitAllocations(t, 800, 8000)
	if beside > alone+1 {
		t.Errorf("Permit takes %.0f allocations beside 8000 foreign pods on 800 nodes, and %.0f beside none on 8", beside, alone)
	}
}

// permitAllocations is what one member of a planned gang of 64 costs at Permit.
func permitAllocations(t *testing.T, nodes, foreign int) float64 {
	t.Helper()
	b, pods := atPermit(t, crowded(t, nodes, foreign), 64)
	i := 0
	return testing.AllocsPerRun(len(pods)-2, func() {
		b.Reserved(pods[i], string(b.Planned(ledger.PodUID(pods[i].UID)).Node))
		i++
	})
}

// atPermit plans a gang whose members have not come to Permit yet.
func atPermit(t fails, b *bench, size int) (*bench, []*v1.Pod) {
	b.group("a", size)
	pods := b.members("a", size, kit.GPUs(1))
	b.create(pods...)
	a := b.Admit(pods[0])
	places, short := b.plan(&a)
	if short != "" {
		t.Fatalf("no plan: %s", short)
	}
	if err := b.Take(a.Group, places); err != nil {
		t.Fatalf("the plan is not taken: %v", err)
	}
	return b, pods
}

// BenchmarkPermit is Permit of one member of a gang of 512, alone and beside 50,000 foreign pods on 5000 nodes.
func BenchmarkPermit(b *testing.B) {
	for _, world := range []struct{ nodes, foreign int }{{64, 0}, {5000, 50_000}} {
		b.Run(fmt.Sprintf("foreign=%d", world.foreign), func(b *testing.B) {
			const size = 512
			x := crowded(b, world.nodes, world.foreign)
			_, pods := atPermit(b, x, size)
			var at []string
			for _, pod := range pods {
				at = append(at, string(x.Planned(ledger.PodUID(pod.UID)).Node))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				// The last member is missing, so the gang stays as it is.
				if answer, _, _ := x.Reserved(pods[i%(size-1)], at[i%(size-1)]); answer != AnswerWait {
					b.Fatal(answer)
				}
			}
		})
	}
}

// TestCaseB158NothingIsLeftOfChurn: groups, members and nodes come and go. What is left are the entries of what is there, and
// nothing holds on to the objects of pods that are gone.
func TestCaseB158NothingIsLeftOfChurn(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.WriteStatus(forgetful{})
	var gone []weak.Pointer[v1.Pod]
	for round := range 60 {
		node := fmt.Sprintf("passing-%d", round)
		b.node(node, kit.N8s)
		gone = append(gone, churn(b, round)...)
		b.ledger.RemoveNode(ledger.NodeName(node))
		b.NodeGone(node)
		b.pass(15 * time.Second)
	}
	for name, n := range b.entries() {
		if n != 0 && name != "lost" {
			t.Errorf("%s has %d entries after everything is gone", name, n)
		}
	}
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, p := range gone {
		if p.Value() != nil {
			kept++
		}
	}
	if kept > 0 {
		t.Errorf("%d of %d pods that are gone are still in memory", kept, len(gone))
	}
	runtime.KeepAlive(b)
}

// TestCaseB158DeletedNodesAreForgotten: of thousands of nodes that are gone the latest are remembered, and those on which a member
// is said to be; one that comes back is a node like any other.
func TestCaseB158DeletedNodesAreForgotten(t *testing.T) {
	b := newBench(t)
	b.node("kept", kit.N8s)
	b.group("a", 1)
	pod := b.member("a", "a-0", kit.GPUs(1))
	b.create(pod)
	b.run()
	if b.bound(pod) != 1 {
		t.Fatal("the member is not bound")
	}
	b.NodeGone("kept")
	for i := range 3 * maxGone {
		b.NodeGone(fmt.Sprintf("passing-%d", i))
	}
	if n := b.entries()["lost"]; n != maxGone {
		t.Errorf("%d nodes are remembered as lost, want %d", n, maxGone)
	}
	last, first := ledger.NodeName(fmt.Sprintf("passing-%d", 3*maxGone-1)), ledger.NodeName("passing-0")
	if !b.Lost("kept") || !b.Lost(last) || b.Lost(first) {
		t.Errorf("lost: with a member %t, the latest %t, the first %t, want true, true, false", b.Lost("kept"), b.Lost(last), b.Lost(first))
	}
	b.NodeSeen(kit.Node("kept", kit.N8s("kept")))
	b.NodeSeen(kit.Node(string(last), kit.N8s(string(last))))
	if b.Lost("kept") || b.Lost(last) {
		t.Error("nodes that came back are lost")
	}
	if len(b.gone) != len(b.lost) {
		t.Errorf("%d nodes are gone and %d are lost, want the same", len(b.gone), len(b.lost))
	}
	b.check()
}

// churn lets a gang run and end, one that does not fit wait and be deleted, and one lose a member at Permit. It returns the pods.
func churn(b *bench, round int) []weak.Pointer[v1.Pod] {
	big := strings.Repeat("x", 50<<10)
	fat := func(p *v1.Pod) { p.Annotations = map[string]string{"note": big} }
	var pods []*v1.Pod
	begin := func(name string, size, gpus int) (podgroup.Group, []*v1.Pod) {
		name = fmt.Sprintf("%s-%d", name, round)
		g := b.group(name, size)
		members := b.members(name, size, kit.GPUs(int64(gpus)), fat)
		b.create(members...)
		pods = append(pods, members...)
		return g, members
	}
	end := func(g podgroup.Group, members []*v1.Pod) {
		b.remove(members...)
		b.GroupGone(g.Namespace, g.Name, g.UID)
	}
	runs, running := begin("runs", 4, 2)
	b.run()
	waits, waiting := begin("waits", 4, 8)
	b.run()
	half, halves := begin("half", 2, 1)
	b.cycle(halves[0])
	for i, pod := range running {
		if i%2 == 0 {
			b.EndedGone(b.finish(pod, v1.PodSucceeded))
		}
	}
	end(half, halves)
	b.cure()
	end(waits, waiting)
	b.remove(running[1], running[3])
	b.GroupGone(runs.Namespace, runs.Name, runs.UID)
	b.pass(15 * time.Second)
	out := make([]weak.Pointer[v1.Pod], len(pods))
	for i := range pods {
		out[i] = weak.Make(pods[i])
	}
	clear(b.failed)
	clear(b.again)
	return out
}

// entries counts what the book keeps.
func (b *Book) entries() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue.RLock()
	defer b.queue.RUnlock()
	return map[string]int{
		"groups": len(b.groups), "members": len(b.members), "placed": len(b.placed), "coming": len(b.coming), "lost": len(b.lost),
		"due": len(b.due), "dirty": len(b.dirty), "later": len(b.later), "unsettled": len(b.unsettled), "vanished": len(b.vanished),
		"cured": len(b.cured), "barred": len(b.barred), "evictions": len(b.evictions), "outbox": len(b.outbox.pods), "orders": len(b.orders),
	}
}

// forgetful is a StatusWriter that keeps nothing.
type forgetful struct{}

func (forgetful) Set(podgroup.Desired)   {}
func (forgetful) Forget(_ gang.GroupUID) {}
