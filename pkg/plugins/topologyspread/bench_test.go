package topologyspread

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// bench is a cluster of nodes in racks of 20 and zones of 1000, with ten pods a node that all match.
type bench struct {
	*fixture
	infos []fwk.NodeInfo
	pod   *v1.Pod
	made  int
}

func newBench(b *testing.B, nodes, podsPerNode int, kind v1.UnsatisfiableConstraintAction) *bench {
	b.Helper()
	f := newFixture(b, options{args: alone})
	var all []*v1.Node
	var pods []*v1.Pod
	for i := range nodes {
		n := node(fmt.Sprintf("node-%05d", i), rackKey, fmt.Sprintf("rack-%03d", i/20), zoneKey, fmt.Sprintf("zone-%d", i/1000))
		all = append(all, n)
		for k := range podsPerNode {
			name := fmt.Sprintf("%s-%d", n.Name, k)
			pods = append(pods, kit.Pod("ns", name, named(name), kit.OnNode(n.Name), labelled("app", "a", "pod-template-hash", "6d4cf56db6")))
		}
	}
	return &bench{
		fixture: f, infos: f.holds(b, all, pods...),
		pod: kit.Pod("ns", "x", named("x"), labelled("app", "a"), spreads(rackKey, 5, kind, "a"), spreads(hostKey, 5, kind, "a")),
	}
}

// place assumes one more pod, as every cycle does for the next one.
func (b *bench) place(t testing.TB) {
	b.made++
	name := fmt.Sprintf("placed-%d", b.made)
	p := kit.Pod("ns", name, named(name), kit.OnNode(b.infos[b.made%len(b.infos)].Node().Name), labelled("app", "a"))
	if err := b.cache.AssumePod(b.logger, p); err != nil {
		t.Fatal(err)
	}
	b.infos = b.refresh(t)
}

type preFilter func(pod *v1.Pod, infos []fwk.NodeInfo) *fwk.Status

func (b *bench) ours(pod *v1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	_, status := b.PreFilter(b.ctx, framework.NewCycleState(), pod, infos)
	return status
}

func (b *bench) theirs(pod *v1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	_, status := b.inTree.PreFilter(b.ctx, framework.NewCycleState(), pod, infos)
	return status
}

// BenchmarkPreFilter is PreFilter at 5000 nodes with 50,000 pods, by rack and host, after one pod was placed. "ratio" takes turns on one
// cluster and reports how many times as long the in-tree plugin takes.
func BenchmarkPreFilter(b *testing.B) {
	w := newBench(b, 5000, 10, v1.DoNotSchedule)
	one := func(b *testing.B, f preFilter) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			w.place(b)
			b.StartTimer()
			if status := f(w.pod, w.infos); !status.IsSuccess() {
				b.Fatal(status)
			}
		}
	}
	b.Run("tuned", func(b *testing.B) { one(b, w.ours) })
	b.Run("in-tree", func(b *testing.B) { one(b, w.theirs) })
	b.Run("ratio", func(b *testing.B) {
		var tuned, stock time.Duration
		for b.Loop() {
			w.place(b)
			start := time.Now()
			w.ours(w.pod, w.infos)
			between := time.Now()
			w.theirs(w.pod, w.infos)
			tuned, stock = tuned+between.Sub(start), stock+time.Since(between)
		}
		b.ReportMetric(float64(stock)/float64(tuned), "x")
	})
}

// BenchmarkPreScore is the same for soft constraints and all nodes as candidates.
func BenchmarkPreScore(b *testing.B) {
	w := newBench(b, 5000, 10, v1.ScheduleAnyway)
	for name, f := range map[string]func(*framework.CycleState) *fwk.Status{
		"tuned":   func(s *framework.CycleState) *fwk.Status { return w.PreScore(w.ctx, s, w.pod, w.infos) },
		"in-tree": func(s *framework.CycleState) *fwk.Status { return w.inTree.PreScore(w.ctx, s, w.pod, w.infos) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w.place(b)
				b.StartTimer()
				if status := f(framework.NewCycleState()); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
}

// BenchmarkFilter is one node in a cycle.
func BenchmarkFilter(b *testing.B) {
	w := newBench(b, 5000, 10, v1.DoNotSchedule)
	ours, theirs := framework.NewCycleState(), framework.NewCycleState()
	w.PreFilter(w.ctx, ours, w.pod, w.infos)
	w.inTree.PreFilter(w.ctx, theirs, w.pod, w.infos)
	for name, f := range map[string]func(fwk.NodeInfo) *fwk.Status{
		"tuned":   func(n fwk.NodeInfo) *fwk.Status { return w.Filter(w.ctx, ours, w.pod, n) },
		"in-tree": func(n fwk.NodeInfo) *fwk.Status { return w.inTree.Filter(w.ctx, theirs, w.pod, n) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				f(w.infos[i%len(w.infos)])
				i++
			}
		})
	}
}

// BenchmarkDryRun is what preemption does on one node: clone the state, take two pods away, filter, put one back, filter.
func BenchmarkDryRun(b *testing.B) {
	w := newBench(b, 5000, 10, v1.DoNotSchedule)
	ours, theirs := framework.NewCycleState(), framework.NewCycleState()
	w.PreFilter(w.ctx, ours, w.pod, w.infos)
	w.inTree.PreFilter(w.ctx, theirs, w.pod, w.infos)
	type plugin interface {
		fwk.FilterPlugin
		fwk.PreFilterExtensions
	}
	for name, side := range map[string]struct {
		plugin
		state *framework.CycleState
	}{"tuned": {w.Plugin, ours}, "in-tree": {w.inTree, theirs}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				n := w.infos[i%len(w.infos)]
				s := side.state.Clone()
				side.RemovePod(w.ctx, s, w.pod, n.GetPods()[0], n)
				side.RemovePod(w.ctx, s, w.pod, n.GetPods()[1], n)
				side.Filter(w.ctx, s, w.pod, n)
				side.AddPod(w.ctx, s, w.pod, n.GetPods()[0], n)
				side.Filter(w.ctx, s, w.pod, n)
				i++
			}
		})
	}
}

// BenchmarkMemory reports what the counts of one set by rack and host take at 5000 nodes, and what the nodes take once.
func BenchmarkMemory(b *testing.B) {
	w := newBench(b, 5000, 10, v1.DoNotSchedule)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	const sets = 200
	start := heap()
	w.ours(w.pod, w.infos)
	first := heap()
	for i := range sets {
		p := w.pod.DeepCopy()
		for k := range p.Spec.TopologySpreadConstraints {
			p.Spec.TopologySpreadConstraints[k].LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "job", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint(i)}},
			}
		}
		w.ours(p, w.infos)
	}
	last := heap()
	for b.Loop() { // nothing is timed
	}
	b.ReportMetric((first-start)/1024, "KiB/first")
	b.ReportMetric((last-first)/sets/1024, "KiB/set")
	b.ReportMetric(0, "ns/op")
	if n := w.Plugin.cache.Stats().Sets; n != sets+1 {
		b.Fatalf("%d sets", n)
	}
}
