package book

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// BenchmarkGiveBack is what Unreserve pays for a pod's cards on 10,000 nodes: both locks, the ledger's change and the new
// state of the node. It reports the 99th percentile of one call, alone and with eight callers at a time; the target is
// 5 us. With more callers than processors the percentile contains waits for a processor.
func BenchmarkGiveBack(b *testing.B) {
	const nodes = 10_000
	x := newBench(b)
	cards := make([]allocate.CardShare, nodes)
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		x.node(name, kit.N8s)
		card := x.ledger.Node(ledger.NodeName(name)).Topology.Card(0)
		cards[i] = allocate.CardShare{Index: 0, UUID: card.UUID, SliceMask: allocate.WholeCard, VRAMBytes: card.VRAMBytes, ComputeMilli: allocate.MilliPerCard}
	}
	for _, callers := range []int{1, 8} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			took := make([][]time.Duration, callers)
			rounds := max(b.N/callers, 1)
			var all sync.WaitGroup
			b.ResetTimer()
			for c := range callers {
				all.Go(func() {
					uid := ledger.PodUID(fmt.Sprintf("caller-%d", c))
					took[c] = make([]time.Duration, 0, rounds)
					for i := range rounds {
						share := nodes / callers
						at := c*share + i%share
						err := x.ledger.Assume(ledger.Holding{UID: uid, Pod: "ns/p", Node: ledger.NodeName(fmt.Sprintf("n%05d", at)), Cards: cards[at : at+1]})
						if err != nil {
							b.Error(err)
							return
						}
						began := time.Now()
						given := x.GiveBack(uid, "")
						took[c] = append(took[c], time.Since(began))
						if !given {
							b.Error("nothing was given back")
							return
						}
					}
				})
			}
			all.Wait()
			times := slices.Concat(took...)
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns/call")
		})
	}
}

// BenchmarkRejectGang is a gang of 512 pods whose last member fails when all others wait at Permit: the time until every
// one of their cards is free again, with the rollbacks one after the other. The target is 50 ms.
func BenchmarkRejectGang(b *testing.B) {
	const size = 512
	for b.Loop() {
		b.StopTimer()
		x := newBench(b)
		for i := range size / 8 {
			x.node(fmt.Sprintf("n%02d", i), kit.N8s)
		}
		x.group("a", size)
		pods := x.members("a", size, kit.GPUs(1))
		x.create(pods...)
		for _, pod := range pods[:size-1] {
			if got := x.cycle(pod); got != "waits" {
				b.Fatalf("a member that should wait at Permit: %s", got)
			}
		}
		if x.free() != 0 {
			b.Fatalf("%d cards are free, want a plan that holds all", x.free())
		}
		last := pods[size-1]
		planID := planOf(b, x, last)
		b.StartTimer()
		x.unreserve(last, planID)
		x.permitted() // the framework runs Unreserve of all who were rejected
		if x.free() != size {
			b.Fatalf("%d of %d cards came free", x.free(), size)
		}
	}
}

func planOf(b *testing.B, x *bench, pod *v1.Pod) string {
	b.Helper()
	planned := x.Planned(ledger.PodUID(pod.UID))
	if planned == nil {
		b.Fatalf("pod %s is not planned", pod.Name)
	}
	return planned.ID
}
