package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// ScaleReport is one run of scaleCommand.
type ScaleReport struct {
	Time    string          `json:"time"`
	Version string          `json:"version"`
	Command string          `json:"command"`
	Machine results.Machine `json:"machine"`
	// Small and Large are the clusters; Waiting is how many pods wait in either.
	Small     size           `json:"small"`
	Large     size           `json:"large"`
	Waiting   int            `json:"waiting"`
	Rounds    int            `json:"rounds"`
	Starts    []Start        `json:"starts"`
	Failovers []Failover     `json:"failovers"`
	Medians   []ScaleSummary `json:"medians"`
}

// ScaleSummary is the median of a variant's starts in one cluster, and of its failovers there.
type ScaleSummary struct {
	Start
	// SyncRatio, RSSRatio and PeakRatio are SyncSeconds, the worse of RSSSynced and RSSBound, and RSSPeak divided by those of
	// the baseline in the same cluster; 0 where the run had none.
	SyncRatio float64 `json:"syncRatio,omitempty"`
	RSSRatio  float64 `json:"rssRatio,omitempty"`
	PeakRatio float64 `json:"peakRatio,omitempty"`
	// Growth and CPUGrowth are MillisPerPod and SchedulerCPU divided by those of the same variant in the small cluster, 0
	// there.
	Growth    float64 `json:"growth,omitempty"`
	CPUGrowth float64 `json:"cpuGrowth,omitempty"`
	// Failover is nil where no leader was killed.
	Failover *Failover `json:"failover,omitempty"`
}

// summarize fills Medians: the baseline first, in the small cluster first.
func (r *ScaleReport) summarize() {
	r.Medians = nil
	for _, s := range slices.Compact([]size{r.Small, r.Large}) {
		for _, name := range variantNames() {
			mine := slices.DeleteFunc(slices.Clone(r.Starts), func(t Start) bool { return t.Variant != name || t.Nodes != s.Nodes })
			if len(mine) == 0 {
				continue
			}
			r.Medians = append(r.Medians, ScaleSummary{Start: medianStart(mine), Failover: r.medianFailover(name, s.Nodes)})
		}
	}
	for i := range r.Medians {
		m := &r.Medians[i]
		if base := r.find(baseline, m.Nodes); base != nil {
			m.SyncRatio = quotient(m.SyncSeconds, base.SyncSeconds)
			m.RSSRatio = max(quotient(m.RSSSynced, base.RSSSynced), quotient(m.RSSBound, base.RSSBound))
			m.PeakRatio = quotient(m.RSSPeak, base.RSSPeak)
		}
		if small := r.find(m.Variant, r.Small.Nodes); small != nil && m != small {
			m.Growth, m.CPUGrowth = quotient(m.MillisPerPod, small.MillisPerPod), quotient(m.SchedulerCPU, small.SchedulerCPU)
		}
	}
}

func medianStart(all []Start) Start {
	return Start{
		Variant: all[0].Variant, Nodes: all[0].Nodes,
		SyncSeconds:      median(all, func(s *Start) float64 { return s.SyncSeconds }),
		FirstBindSeconds: median(all, func(s *Start) float64 { return s.FirstBindSeconds }),
		MillisPerPod:     median(all, func(s *Start) float64 { return s.MillisPerPod }),
		SchedulerCPU:     median(all, func(s *Start) float64 { return s.SchedulerCPU }),
		RSSSynced:        median(all, func(s *Start) float64 { return s.RSSSynced }),
		RSSBound:         median(all, func(s *Start) float64 { return s.RSSBound }),
		RSSPeak:          median(all, func(s *Start) float64 { return s.RSSPeak }),
	}
}

// medianFailover returns nil where there was none.
func (r *ScaleReport) medianFailover(name string, nodes int) *Failover {
	mine := slices.DeleteFunc(slices.Clone(r.Failovers), func(f Failover) bool { return f.Variant != name || f.Nodes != nodes })
	if len(mine) == 0 {
		return nil
	}
	return &Failover{
		Variant: name, Nodes: nodes,
		ElectionSeconds: median(mine, func(f *Failover) float64 { return f.ElectionSeconds }),
		BindSeconds:     median(mine, func(f *Failover) float64 { return f.BindSeconds }),
		ReadSeconds:     median(mine, func(f *Failover) float64 { return f.ReadSeconds }),
		Waiting:         int(median(mine, func(f *Failover) float64 { return float64(f.Waiting) })),
	}
}

func (r *ScaleReport) find(variant string, nodes int) *ScaleSummary {
	i := slices.IndexFunc(r.Medians, func(m ScaleSummary) bool { return m.Variant == variant && m.Nodes == nodes })
	if i < 0 {
		return nil
	}
	return &r.Medians[i]
}

// sizeOf returns the cluster of so many nodes.
func (r *ScaleReport) sizeOf(nodes int) *size {
	if nodes == r.Large.Nodes {
		return &r.Large
	}
	return &r.Small
}

// table writes the medians for readers.
func (r *ScaleReport) table(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s, %s, %d cores (load before: %s), %s\n", r.Version, r.Machine.CPU, r.Machine.Cores, r.Machine.Load, r.Machine.Go)
	fmt.Fprintf(&text, "nodes of %d GPUs, %d pods of 1 GPU wait; medians of %d rounds\n\n", machine.Count, r.Waiting, r.Rounds)
	text.WriteString("CLUSTER\tVARIANT\tIN SYNC s\tx DEFAULT\tFIRST BIND s\tms/POD\tx SMALL\tCPU s/1000 pods\tx SMALL\tRSS IN SYNC MiB\tRSS BOUND MiB\tx DEFAULT\tRSS PEAK MiB\tx DEFAULT\n")
	for i := range r.Medians {
		m := &r.Medians[i]
		fmt.Fprintf(&text, "%s\t%s\t%.1f\t%s\t%.2f\t%.2f\t%s\t%.2f\t%s\t%.0f\t%.0f\t%s\t%.0f\t%s\n",
			r.sizeOf(m.Nodes).Name, m.Variant, m.SyncSeconds, ratio(m.SyncRatio), m.FirstBindSeconds, m.MillisPerPod, ratio(m.Growth),
			m.SchedulerCPU, ratio(m.CPUGrowth), m.RSSSynced, m.RSSBound, ratio(m.RSSRatio), m.RSSPeak, ratio(m.PeakRatio))
	}
	if len(r.Failovers) > 0 {
		text.WriteString("\nCLUSTER\tVARIANT\tELECTION s\tFIRST BIND s\tBOUND PODS READ s\tPODS WAITING\n")
	}
	for i := range r.Medians {
		if f := r.Medians[i].Failover; f != nil {
			fmt.Fprintf(&text, "%s\t%s\t%.1f\t%.2f\t%s\t%d\n", r.sizeOf(f.Nodes).Name, f.Variant, f.ElectionSeconds, f.BindSeconds, ratio(f.ReadSeconds), f.Waiting)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return w.Flush()
}

// results returns the medians as test/perf/report reads them: the starts and, where leaders were killed, the failovers.
func (r *ScaleReport) results() []results.Run {
	run := results.Run{Benchmark: results.Outside, Time: r.Time, Command: r.Command, Machine: r.Machine}
	_, run.Commit, _ = strings.Cut(r.Version, "+")
	starts, failovers := run, run
	starts.Scope, starts.Rounds = r.Large.Name+", start", r.Rounds
	failovers.Scope = r.Large.Name + ", failover"
	for i := range r.Medians {
		m := &r.Medians[i]
		row := results.Row{Workload: r.sizeOf(m.Nodes).Name, Variant: m.Variant, Figures: map[results.Figure]float64{
			results.SyncSeconds: m.SyncSeconds, results.FirstBindSeconds: m.FirstBindSeconds, results.MillisPerPod: m.MillisPerPod,
			results.SchedulerCPU: m.SchedulerCPU, results.RSSSynced: m.RSSSynced, results.RSSBound: m.RSSBound, results.RSSPeak: m.RSSPeak,
		}}
		if m.Growth != 0 {
			row.Figures[results.Growth] = m.Growth
		}
		starts.Rows = append(starts.Rows, row)
		f := m.Failover
		if f == nil {
			continue
		}
		row = results.Row{Workload: row.Workload, Variant: f.Variant, Figures: map[results.Figure]float64{
			results.ElectionSeconds: f.ElectionSeconds, results.LeadToBindSeconds: f.BindSeconds,
		}}
		if f.ReadSeconds != 0 {
			row.Figures[results.ReadSeconds] = f.ReadSeconds
		}
		failovers.Rows = append(failovers.Rows, row)
	}
	if len(failovers.Rows) == 0 {
		return []results.Run{starts}
	}
	failovers.Rounds = len(r.Failovers) / len(failovers.Rows)
	return []results.Run{starts, failovers}
}

// scaleLimits are what a run must keep to; 0 is none.
type scaleLimits struct {
	firstBind, rss, growth, takeOver float64
}

// check returns all that our plugins miss in the large cluster. The growth is that of gangs: a pod of no gang is filtered and scored
// by the scheduler's own plugins, which take longer for a node of a larger cluster, and leave garbage that takes longer to collect.
func (l scaleLimits) check(r *ScaleReport) error {
	singles, gangs := r.find(single, r.Large.Nodes), r.find(ours, r.Large.Nodes)
	if singles == nil {
		singles = &ScaleSummary{}
	}
	if gangs == nil {
		gangs = &ScaleSummary{}
	}
	takeOver := 0.0
	if singles.Failover != nil {
		takeOver = singles.Failover.BindSeconds
	}
	var missed []string
	for _, c := range []struct {
		who, what  string
		got, limit float64
	}{
		{single, "seconds from sync to first bind", singles.FirstBindSeconds, l.firstBind},
		{ours, "seconds from sync to first bind", gangs.FirstBindSeconds, l.firstBind},
		{single, "times the memory of " + baseline, singles.RSSRatio, l.rss},
		{ours, "times the memory of " + baseline, gangs.RSSRatio, l.rss},
		{ours, "times the time for a pod in the small cluster", gangs.Growth, l.growth},
		{single, "seconds from lease to first bind", takeOver, l.takeOver},
	} {
		switch {
		case c.limit == 0, r.find(c.who, r.Large.Nodes) == nil && len(r.Medians) > 0: // nobody asked for that variant
		case c.got == 0:
			missed = append(missed, c.who+": "+c.what+" were not measured")
		case c.got > c.limit:
			missed = append(missed, fmt.Sprintf("%s: %.2f %s, want at most %.2f", c.who, c.got, c.what, c.limit))
		}
	}
	if len(missed) > 0 {
		return errors.New(strings.Join(missed, "; "))
	}
	return nil
}
