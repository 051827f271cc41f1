package nccltopology

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// benchFixture has leaves of 16 nodes, 8 leaves a spine, every third node half full.
func benchFixture(b *testing.B, nodes int) *fixture {
	b.Helper()
	f := newFixture(b, racked(nodes/16, 16, 8, kit.N8s))
	for i := 0; i < nodes; i += 3 {
		f.take(b, fmt.Sprint("old", i), f.infos[i].Node().Name, 4)
	}
	return f
}

// BenchmarkSingle is all that the plugin does for one pod of which the scheduler looks at 500 of 5000 nodes.
func BenchmarkSingle(b *testing.B) {
	f := benchFixture(b, 4992)
	benchmarkCycle(b, f, kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(2)))
}

// BenchmarkElasticMember is the same for a member of a gang of 64 that is scheduled by itself.
func BenchmarkElasticMember(b *testing.B) {
	f := benchFixture(b, 4992)
	pods := f.elastic("g", 65, kit.GPUs(1))
	for i, pod := range pods[1:] {
		bound := pod.DeepCopy()
		bound.Spec.NodeName = f.infos[i%16].Node().Name
		f.engine.Gangs().PodSeen(bound)
	}
	benchmarkCycle(b, f, pods[0])
}

func benchmarkCycle(b *testing.B, f *fixture, pod *v1.Pod) {
	b.Helper()
	b.ReportAllocs()
	nodes := f.infos[1000:1500]
	list := make(fwk.NodeScoreList, len(nodes))
	for b.Loop() {
		state := framework.NewCycleState()
		if status := f.PreScore(f.ctx, state, pod, nodes); !status.IsSuccess() {
			b.Fatal(status)
		}
		for i, info := range nodes {
			list[i].Score, _ = f.Score(f.ctx, state, pod, info)
		}
		f.NormalizeScore(f.ctx, state, pod, list)
	}
}

// BenchmarkGeneratePlacements is one call for a group of 8 pods of 8 GPUs on 5000 nodes.
func BenchmarkGeneratePlacements(b *testing.B) {
	withNativeGroups(b)
	f := benchFixture(b, 4992)
	for _, key := range []string{"", leafKey} {
		b.Run("required="+key, func(b *testing.B) {
			b.ReportAllocs()
			group := nativeGroup("g", 8, key, nativePods("g", 8, kit.GPUs(8))...)
			for b.Loop() {
				if _, status := f.GeneratePlacements(f.ctx, framework.NewCycleState(), group, &fwk.Placement{Nodes: f.infos}); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
}
