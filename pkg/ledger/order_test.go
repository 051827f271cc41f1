package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// clusterEvents are adds of two nodes and their pods: n1 is full of small pods, on n2 is everything that can be wrong.
// The events of one node keep their order among themselves, and so do those of one pod.
func clusterEvents(t *testing.T) [][]func(*Ledger) error {
	cards1, cards2 := cardsN8s("A"), append(cardsN8s("B"), migCard("B8"), migCard("B9"))
	setNode := func(name NodeName, topo *topology.Node) func(*Ledger) error {
		return func(l *Ledger) error { l.SetNode(name, topo); return nil }
	}
	adopt := func(h Holding) func(*Ledger) error {
		return func(l *Ledger) error { return l.Adopt(h) }
	}
	sick := append([]topology.Card{}, cards2...)
	sick[2].Healthy = false
	queues := [][]func(*Ledger) error{
		{setNode("n1", nil), setNode("n1", build(t, cards1))},
		{setNode("n2", build(t, cards2[:4])), func(l *Ledger) error { l.RemoveNode("n2"); return nil }, setNode("n2", build(t, sick))},
	}
	for i := range 48 {
		h := Holding{UID: PodUID(fmt.Sprintf("p%02d", i)), Pod: fmt.Sprintf("ns/p%02d", i), Node: "n1"}
		h.Cards = []allocate.CardShare{share(cards1[i%8], i%8, i/8*10, 12800*mib)}
		// First seen where it was assumed, then where it is bound, then again.
		elsewhere := h
		elsewhere.Node = "n2"
		queues = append(queues, []func(*Ledger) error{adopt(elsewhere), adopt(h), adopt(h)})
	}
	for _, h := range []Holding{
		holdWhole("q0", "n2", cards2, 0, 1),
		holdWhole("q1", "n2", cards2, 1),
		holdWhole("q2", "n2", cards2, 2),
		{UID: "q3", Pod: "ns/q3", Node: "n2", UnknownCards: 2},
		{UID: "q4", Pod: "ns/q4", Node: "n2", UnknownMIG: []ProfileCount{{"1g.10gb", 2}, {"2g.20gb", 1}}},
		{UID: "q5", Pod: "ns/q5", Node: "n2", Cards: []allocate.CardShare{instance(cards2[8], 8, 6), share(cards2[3], 3, 0, 1000*mib)}},
		{UID: "q6", Pod: "ns/q6", Node: "n2", Cards: []allocate.CardShare{whole(topology.Card{UUID: "GPU-gone", VRAMBytes: mib}, 4)}},
		{UID: "q7", Pod: "ns/q7", Node: "n2", Cards: []allocate.CardShare{{Index: 30, SliceMask: allocate.WholeCard}}},
	} {
		queues = append(queues, []func(*Ledger) error{adopt(h)})
	}
	ended := PodUID("q8")
	queues = append(queues, []func(*Ledger) error{adopt(holdWhole(ended, "n2", cards2, 7)), func(l *Ledger) error { l.Release(ended); return nil }})
	return queues
}

// deliver plays the queues in an order drawn from r.
func deliver(t *testing.T, l *Ledger, queues [][]func(*Ledger) error, r *rand.Rand) {
	t.Helper()
	var order []int
	for i, q := range queues {
		for range q {
			order = append(order, i)
		}
	}
	if r != nil {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	next := make([]int, len(queues))
	for _, i := range order {
		if err := queues[i][next[i]](l); err != nil {
			t.Fatal(err)
		}
		next[i]++
	}
}

// TestCaseB089AnyOrder: the ledger is the same at the end of every order in which events arrive.
func TestCaseB089AnyOrder(t *testing.T) {
	queues := clusterEvents(t)
	want := New()
	deliver(t, want, queues, nil)
	if a := want.Node("n1"); a.Pods != 48 || a.special != nil || a.Use[7].VRAMBytes != 6*12800*mib {
		t.Fatalf("n1: %d pods, use %+v, conflicts %v", a.Pods, a.Use, a.Conflicts())
	}
	if a := want.Node("n2"); a.Pods != 8 || len(a.Conflicts()) != 3 || len(a.Missing()) != 2 || a.Foreign.Len() != 3 || len(a.ForeignMIG()) != 2 {
		t.Fatalf("n2: %d pods, foreign %s, %v, missing %v, conflicts %v", a.Pods, a.Foreign, a.ForeignMIG(), a.Missing(), a.Conflicts())
	}
	for seed := range uint64(200) {
		got := New()
		deliver(t, got, queues, rand.New(rand.NewPCG(seed, 89)))
		if err := got.Check(); err != nil {
			t.Fatalf("order %d: %v", seed, err)
		}
		if diff := diffLedgers(want, got); diff != "" {
			t.Fatalf("order %d (-want +got):\n%s", seed, diff)
		}
	}
}
