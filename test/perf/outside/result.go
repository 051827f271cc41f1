package main

import (
	"fmt"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// result returns the medians as test/perf/report reads them.
func (r *Report) result() results.Run {
	run := results.Run{
		Benchmark: results.Outside, Scope: fmt.Sprintf("%s, %s", r.Size.Name, r.Mode), Time: r.Time, Command: r.Command, Machine: r.Machine,
		Rounds: len(r.Rounds) / max(1, len(r.Medians)),
	}
	// "Kubernetes v1.37.2+COMMIT"
	_, run.Commit, _ = strings.Cut(r.Version, "+")
	for i := range r.Medians {
		s := &r.Medians[i]
		row := results.Row{Workload: r.Size.Name, Variant: s.Variant, Figures: map[results.Figure]float64{
			results.PodsPerSecond: s.PodsPerSecond, results.Seconds: s.Seconds,
			results.SchedulerCPU: s.SchedulerCPU, results.ServerCPU: s.ServerCPU, results.WritesPerPod: s.WritesPerPod,
		}}
		for figure, value := range map[results.Figure]float64{
			results.AttemptP50: s.AttemptP50, results.AttemptP99: s.AttemptP99, results.AlgorithmP99: s.AlgorithmP99,
			results.LeavesPerGang: s.Leaves,
		} {
			if value != 0 {
				row.Figures[figure] = value
			}
		}
		run.Rows = append(run.Rows, row)
	}
	return run
}
