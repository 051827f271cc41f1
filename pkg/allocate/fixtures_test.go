package allocate_test

import (
	"fmt"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// node builds a node or fails the test. Cards without a UUID get one, cards without a fault are healthy.
func node(tb testing.TB, spec topology.Spec) *topology.Node {
	tb.Helper()
	for i := range spec.Cards {
		c := &spec.Cards[i]
		if c.UUID == "" {
			c.UUID = fmt.Sprintf("GPU-%d", i)
		}
		c.Healthy = c.Fault == ""
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		tb.Fatalf("topology.New: %v", err)
	}
	return n
}

// cards returns n cards of the given memory, the first half on NUMA node 0, the rest on 1.
func cards(n int, vram int64) []topology.Card {
	out := make([]topology.Card, n)
	for i := range out {
		out[i] = topology.Card{Product: "NVIDIA H100 80GB HBM3", VRAMBytes: vram, NUMA: i / max(1, (n+1)/2)}
	}
	return out
}

// n8s is the fixture N8s: 8 cards of 81920 MiB joined by NVSwitch, NUMA nodes of 0-3 and 4-7.
func n8s(tb testing.TB) *topology.Node {
	return node(tb, topology.Spec{Cards: cards(8, 81920*mib), NVSwitch: true})
}

// n8p is the fixture N8p: NVLink in pairs, PCIe inside a NUMA node, SYS between them.
func n8p(tb testing.TB) *topology.Node {
	return node(tb, topology.Spec{Cards: cards(8, 81920*mib), Links: matrix(8, func(i, j int) topology.Link {
		switch {
		case i/2 == j/2:
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 12}
		case i/4 == j/4:
			return topology.Link{Type: topology.LinkNODE}
		}
		return topology.Link{Type: topology.LinkSYS}
	})})
}

// flat is a node of n equal cards whose links nobody described.
func flat(tb testing.TB, n int, vram int64) *topology.Node {
	return node(tb, topology.Spec{Cards: cards(n, vram)})
}

func matrix(n int, link func(i, j int) topology.Link) [][]topology.Link {
	rows := make([][]topology.Link, n)
	for i := range rows {
		rows[i] = make([]topology.Link, n)
		for j := range rows[i] {
			rows[i][j] = topology.Link{Type: topology.LinkSelf}
			if i != j {
				rows[i][j] = link(min(i, j), max(i, j))
			}
		}
	}
	return rows
}

// emptyView is the node without a pod.
func emptyView(n *topology.Node) *allocate.View {
	v := &allocate.View{Topology: n, Use: make([]allocate.CardUse, n.Len())}
	refresh(v)
	return v
}

// refresh brings Free into step.
func refresh(v *allocate.View) { v.Free = allocate.FreeCards(v.Topology, v.Use, v.Closed) }

// viewOf is the node where other pods hold all cards but the free ones whole.
func viewOf(n *topology.Node, free topology.GPUSet) *allocate.View {
	v := emptyView(n)
	for i := range (n.All() &^ free).All() {
		allocate.Occupy(&v.Use[i], wholeShare(n, i))
	}
	refresh(v)
	return v
}

func wholeShare(n *topology.Node, i int) allocate.CardShare {
	c := n.Card(i)
	return allocate.CardShare{Index: i, UUID: c.UUID, SliceMask: allocate.WholeCard, VRAMBytes: c.VRAMBytes, ComputeMilli: allocate.MilliPerCard}
}

// give charges the view with a choice, after checking that it can hold it.
func give(tb testing.TB, v *allocate.View, cards []allocate.CardShare) {
	tb.Helper()
	if err := v.CanHold(cards); err != nil {
		tb.Fatalf("CanHold refuses a choice made on this view: %v", err)
	}
	for _, s := range cards {
		allocate.Occupy(&v.Use[s.Index], s)
	}
	refresh(v)
}

// back takes a choice out of the view again.
func back(v *allocate.View, cards []allocate.CardShare) {
	for _, s := range cards {
		allocate.Vacate(&v.Use[s.Index], s)
	}
	refresh(v)
}

func whole(n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindWhole, Count: n}}}
}

func share(bytes int64, n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindShare, Count: n, VRAMBytes: bytes}}}
}

func mig(profile string, n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindMIG, Count: n, Profile: profile}}}
}

// mustChoose returns the choice or fails the test.
func mustChoose(tb testing.TB, c *allocate.Chooser, v *allocate.View, r *allocate.Request) allocate.Choice {
	tb.Helper()
	choice, rej, err := c.Choose(v, r)
	if err != nil || rej != nil {
		tb.Fatalf("Choose(%+v): rejection %v, error %v", r.Claims, rej, err)
	}
	if rej := c.Fits(v, r); rej != nil {
		tb.Fatalf("Fits rejects what Choose serves: %v", rej)
	}
	return choice
}

// mustReject returns the rejection or fails the test.
func mustReject(tb testing.TB, c *allocate.Chooser, v *allocate.View, r *allocate.Request) *allocate.Rejection {
	tb.Helper()
	choice, rej, err := c.Choose(v, r)
	if err != nil || rej == nil {
		tb.Fatalf("Choose(%+v) = %v, error %v; want a rejection", r.Claims, choice.Set(), err)
	}
	if c.Fits(v, r) == nil {
		tb.Fatalf("Fits accepts what Choose rejects: %v", rej)
	}
	if v.Topology != nil && rej.Cards() != v.Topology.Len() {
		tb.Fatalf("counts of %q add up to %d, the node has %d cards", rej, rej.Cards(), v.Topology.Len())
	}
	return rej
}
