package cycle

import (
	"flag"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

var (
	nodesFlag    = flag.Int("cycle.nodes", 512, "nodes of 8 GPUs")
	podsFlag     = flag.Int("cycle.pods", 1000, "pods of one pass; all must fit")
	gpusFlag     = flag.Int("cycle.gpus", 0, "GPUs of every pod; 0 for 1, 2 and 4 in turn")
	variantsFlag = flag.String("cycle.variants", "default,ours,flat", "what is compared, separated by commas")
)

// podsInTurn is how many pods a variant schedules before the next has its turn.
const podsInTurn = 20

// BenchmarkCycle runs one pass of every variant in each iteration.
func BenchmarkCycle(b *testing.B) {
	klog.LogToStderr(false)
	klog.SetOutput(b.Output())
	chosen := strings.Split(*variantsFlag, ",")
	var worlds []*world
	for _, v := range variants {
		if slices.Contains(chosen, v.name) {
			worlds = append(worlds, newWorld(b, v, *nodesFlag))
		}
	}
	if len(worlds) != len(chosen) {
		b.Fatalf("-cycle.variants %q: some are not known", *variantsFlag)
	}
	round(b, worlds, 0) // warms up
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	passes := map[string][]*pass{}
	for serial := 1; b.Loop(); serial++ {
		b.StopTimer()
		runtime.GC()
		b.StartTimer()
		for _, p := range round(b, worlds, serial) {
			passes[p.world.name] = append(passes[p.world.name], p)
		}
	}
	report(b, passes)
}

// round has every world schedule the same pods, in turns.
func round(b *testing.B, worlds []*world, serial int) []*pass {
	b.Helper()
	var passes []*pass
	for _, w := range worlds {
		passes = append(passes, newPass(b, w, serial, *podsFlag, *gpusFlag))
	}
	turn := slices.Clone(passes)
	for from := 0; from < *podsFlag; from += podsInTurn {
		for _, p := range turn {
			p.turn(b, from, min(from+podsInTurn, *podsFlag))
		}
		slices.Reverse(turn)
	}
	for _, p := range passes {
		p.end(b)
	}
	return passes
}

// report writes the figures of the median passes. The base of a quotient is the same iteration's.
func report(b *testing.B, passes map[string][]*pass) {
	b.Helper()
	pods := float64(*podsFlag)
	b.ReportMetric(0, "ns/op") // all variants and the time between their turns: it says nothing
	for name, of := range passes {
		b.ReportMetric(median(of, func(_ int, p *pass) float64 { return p.seconds / pods * 1e6 }), name+"-us/pod")
		b.ReportMetric(median(of, func(_ int, p *pass) float64 { return p.mallocs / pods }), name+"-mallocs/pod")
		b.ReportMetric(median(of, func(_ int, p *pass) float64 { return float64(p.refused) / pods }), name+"-refused/pod")
		for _, base := range []string{"default", "flat"} {
			if to := passes[base]; to != nil && name != base {
				b.ReportMetric(median(of, func(i int, p *pass) float64 { return p.seconds / to[i].seconds }), name+"-x-"+base)
			}
		}
	}
}

func median(of []*pass, figure func(int, *pass) float64) float64 {
	all := make([]float64, len(of))
	for i, p := range of {
		all[i] = figure(i, p)
	}
	slices.Sort(all)
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// TestCycle holds that a pass does what it is measured for: every pod gets cards, no node gives more than it has, and nothing is
// left for the next pass.
func TestCycle(t *testing.T) {
	const nodes, pods = 20, 60 // 140 of 160 GPUs
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			w := newWorld(t, v, nodes)
			for serial := range 2 {
				p := newPass(t, w, serial, pods, 0)
				p.turn(t, 0, pods)
				if held := w.engine.Ledger().Stats().Pods(); v.plugins && held != pods || !v.plugins && held != 0 {
					t.Errorf("pass %d: %d pods hold cards in the ledger", serial, held)
				}
				total := int64(0)
				for node, gpus := range p.end(t) {
					if total += gpus; gpus > 8 {
						t.Errorf("pass %d: node %s gives %d GPUs", serial, node, gpus)
					}
				}
				if total != 140 || p.seconds <= 0 || p.mallocs <= 0 {
					t.Errorf("pass %d: %d GPUs in use, %v s, %v mallocs", serial, total, p.seconds, p.mallocs)
				}
				if err := w.engine.Ledger().Check(); err != nil || w.engine.Ledger().Stats().Pods() != 0 {
					t.Errorf("pass %d: the ledger is left with %+v, %v", serial, w.engine.Ledger().Stats(), err)
				}
			}
		})
	}
}
