package gputopology

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestGenerations(t *testing.T) {
	g := &generations{}
	n := int64(len(g.slots))
	g.add(1)
	g.add(2)
	g.add(n + 2)
	for generation, want := range map[int64]bool{0: false, 1: true, 2: false, n + 1: false, n + 2: true} {
		if got := g.has(generation); got != want {
			t.Errorf("generation %d is remembered: %t, want %t", generation, got, want)
		}
	}
}

// TestCatchUpOnceAGeneration: the ledger catches up with a state of a node once, and with the next one again. What DRA describes
// is looked at each time.
func TestCatchUpOnceAGeneration(t *testing.T) {
	node := kit.Node("n1", kit.N1("n1"))
	f := newFixture(t, node)
	refused := func(info fwk.NodeInfo) bool {
		t.Helper()
		pod := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(1))
		state, _ := f.cycle(t, pod)
		return !f.Filter(f.ctx, state, pod, info).IsSuccess()
	}
	info := f.nodeInfo(t, node)
	held := ledger.Holding{UID: "held", Pod: "ns/held", Node: "n1", Cards: f.choice(t, 1)}
	if err := f.engine.Ledger().Assume(held); err != nil {
		t.Fatal(err)
	}
	if !refused(info) {
		t.Error("a card in flight counts as free")
	}
	f.engine.Ledger().Confirm("held") // bound, and no such pod is in the informer's store: it is gone
	if !refused(info) {
		t.Error("a state that was looked at is looked at again")
	}
	if refused(f.nodeInfo(t, node)) {
		t.Error("the next state is not looked at")
	}
}

func TestCatchUpWithDRAEachTime(t *testing.T) {
	spec := kit.N1("n1")
	node := kit.Node("n1", spec)
	f := newFixture(t, node)
	for source, want := range map[string]bool{inventory.SourceDRA: false, "another": true} {
		spec.Source = source
		built, err := topology.New(spec, topology.DefaultRates())
		if err != nil {
			t.Fatal(err)
		}
		a := *f.engine.Ledger().Node("n1")
		a.Topology = built
		generation := f.nodeInfo(t, node).GetGeneration()
		f.catchUp(&a, "n1", generation)
		if got := f.caughtUp.has(generation); got != want {
			t.Errorf("source %s: the state is remembered: %t, want %t", source, got, want)
		}
	}
}
