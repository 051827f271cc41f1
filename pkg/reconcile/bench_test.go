package reconcile

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

const (
	benchNodes = 10_000
	benchPods  = 50_000 // of one card each; three of the eight cards of a node are free
)

// newBenchWorld is a cluster of 10,000 nodes, 80,000 cards and 50,000 bound pods, of which the ledger has heard.
func newBenchWorld(b *testing.B) *world {
	b.Helper()
	w := newWorld(b, observe.Options{})
	for i := range benchNodes {
		node := kit.Node(benchNode(i), kit.N8s(benchNode(i)))
		node.ResourceVersion = fmt.Sprint(i + 1)
		w.put(w.nodeStore, node)
		w.Observer.NodeChanged(benchNode(i))
	}
	for i := range benchPods {
		p := boundPod(b, holding(fmt.Sprintf("%08d-1111-2222-3333-444444444444", i), benchNode(i%benchNodes), i/benchNodes), i+1)
		w.put(w.podStore, p)
		w.Observer.PodSeen(p)
	}
	return w
}

func benchNode(i int) string { return fmt.Sprintf("node-%05d", i) }

// BenchmarkSweep is a sweep that finds nothing: the target is 100 ms. After a restart it reads maxComparisons records, later
// those that changed.
func BenchmarkSweep(b *testing.B) {
	w := newBenchWorld(b)
	b.Run("after a restart", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.memory = memory{turn: w.memory.turn}
			w.Sweep()
		}
	})
	b.Run("later", func(b *testing.B) {
		for range benchPods/maxComparisons + 1 {
			w.Sweep()
		}
		before := liveBytes()
		b.ReportAllocs()
		for b.Loop() {
			w.Sweep()
		}
		b.ReportMetric((liveBytes()-before)/(1<<20), "MiB-grown")
	})
	if s := w.Last(); s.Pods != benchPods || s.Nodes != benchNodes || len(s.Last) != 0 {
		b.Fatalf("%d pods, %d nodes, repairs %+v", s.Pods, s.Nodes, s.Last)
	}
	b.Run("a node read again", func(b *testing.B) {
		for b.Loop() {
			if _, after := w.Observer.Reread(benchNode(7)); after == nil {
				b.Fatal("no node")
			}
		}
	})
}

func liveBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
