package ledger

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	benchNodes = 10_000
	benchPods  = 50_000
	benchCards = 8
)

// benchTopology is a node whose cards have UUIDs of their own, as 10,000 real nodes have.
func benchTopology(b *testing.B, node int) *topology.Node {
	b.Helper()
	spec := topology.Spec{NVSwitch: true}
	for i := range benchCards {
		spec.Cards = append(spec.Cards, topology.Card{
			UUID: benchUUID(node, i), Product: "NVIDIA H100 80GB HBM3", VRAMBytes: 80 << 30, NUMA: i / 4, Healthy: true,
		})
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func benchUUID(node, card int) string {
	return fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", node, card)
}

func benchName(node int) NodeName { return NodeName(fmt.Sprintf("node-%05d", node)) }

func benchUID(pod int) PodUID { return PodUID(fmt.Sprintf("%08d-1111-2222-3333-444444444444", pod)) }

func benchWhole(node, card int) allocate.CardShare {
	return allocate.CardShare{
		Index: card, UUID: benchUUID(node, card), SliceMask: allocate.WholeCard, VRAMBytes: 80 << 30,
		ComputeMilli: allocate.MilliPerCard,
	}
}

// benchHoldings are pods of one card, five on each of 10,000 nodes.
func benchHoldings() []Holding {
	hs := make([]Holding, benchPods)
	for i := range hs {
		node, card := i%benchNodes, i/benchNodes
		hs[i] = Holding{
			UID: benchUID(i), Pod: fmt.Sprintf("team-%d/pod-%d", i%100, i), Node: benchName(node),
			Cards: []allocate.CardShare{benchWhole(node, card)},
		}
	}
	return hs
}

// benchCluster is a ledger of 10,000 nodes and 50,000 bound pods; three cards of each node are free.
type benchCluster struct {
	l          *Ledger
	names      []NodeName
	topologies []*topology.Node
}

func newBenchCluster(b *testing.B) *benchCluster {
	b.Helper()
	c := &benchCluster{l: New()}
	for i := range benchNodes {
		c.names = append(c.names, benchName(i))
		c.topologies = append(c.topologies, benchTopology(b, i))
		c.l.SetNode(c.names[i], c.topologies[i])
	}
	for _, h := range benchHoldings() {
		if err := c.l.Adopt(h); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// choose fills shares with the highest cards of a node, as a choice on its topology does.
func (c *benchCluster) choose(node int, shares []allocate.CardShare) {
	for i := range shares {
		at := benchCards - 1 - i
		card := c.topologies[node].Card(at)
		shares[i] = allocate.CardShare{
			Index: at, UUID: card.UUID, SliceMask: allocate.WholeCard, VRAMBytes: card.VRAMBytes,
			ComputeMilli: allocate.MilliPerCard,
		}
	}
}

// BenchmarkAssumeForget is Reserve and Unreserve of one pod on 10,000 nodes of 8 cards with 50,000 pods bound. The
// target is 1 us and 2 allocations for the pair. The nodes come one after the other, as the scheduler's own search
// goes, or scattered, so that hardly anything of a node is in the processor's cache.
func BenchmarkAssumeForget(b *testing.B) {
	c := newBenchCluster(b)
	uids := make([]PodUID, 64)
	for i := range uids {
		uids[i] = benchUID(1_000_000 + i)
	}
	for order, stride := range map[string]int{"rotating": 1, "scattered": 7919} {
		for _, cards := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s/cards=%d", order, cards), func(b *testing.B) {
				b.ReportAllocs()
				shares := make([]allocate.CardShare, cards)
				node, pod := 0, 0
				for b.Loop() {
					c.choose(node, shares)
					uid := uids[pod%len(uids)]
					if err := c.l.Assume(Holding{UID: uid, Pod: "bench/pod", Node: c.names[node], Cards: shares}); err != nil {
						b.Fatal(err)
					}
					if !c.l.Forget(uid) {
						b.Fatal("nothing to forget")
					}
					node, pod = (node+stride)%benchNodes, pod+1
				}
			})
		}
	}
}

// BenchmarkNodeSnapshot is what Filter pays to read one of 10,000 nodes.
func BenchmarkNodeSnapshot(b *testing.B) {
	c := newBenchCluster(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if a := c.l.Node(c.names[i]); a == nil || a.Free.Len() != 3 {
			b.Fatal("wrong state")
		}
		if i++; i == len(c.names) {
			i = 0
		}
	}
}

// BenchmarkRebuild is the start of the scheduler: 10,000 nodes and 50,000 bound pods. The targets are 2 s and 200 MiB.
func BenchmarkRebuild(b *testing.B) {
	topologies := make([]*topology.Node, benchNodes)
	for i := range topologies {
		topologies[i] = benchTopology(b, i)
	}
	hs := benchHoldings()
	names := make([]NodeName, benchNodes)
	for i := range names {
		names[i] = benchName(i)
	}
	before := liveBytes()
	b.ReportAllocs()
	var l *Ledger
	for b.Loop() {
		l = New()
		for i, t := range topologies {
			l.SetNode(names[i], t)
		}
		for i := range hs {
			if err := l.Adopt(hs[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric((liveBytes()-before)/(1<<20), "MiB-live")
	if got := l.Stats().Bound; got != benchPods {
		b.Fatalf("%d pods bound, want %d", got, benchPods)
	}
	runtime.KeepAlive(topologies)
	runtime.KeepAlive(hs)
}

func liveBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
