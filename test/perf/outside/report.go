package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// Round is what one run of one variant measured.
type Round struct {
	Variant string `json:"variant"`
	// CreateSeconds is the time in which all pods were created, Seconds that from the begin that the mode says to the last
	// bind.
	CreateSeconds float64 `json:"createSeconds"`
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// SchedulerCPU and ServerCPU are seconds per 1000 pods, of the scheduler and of API server and etcd together.
	SchedulerCPU float64 `json:"schedulerCPU"`
	ServerCPU    float64 `json:"serverCPU"`
	// AttemptP50 and AttemptP99 are quantiles of the scheduler's successful attempts in milliseconds, binding included, by its
	// own histogram; 0 where there is no scheduler.
	AttemptP50 float64 `json:"attemptP50,omitempty"`
	AttemptP99 float64 `json:"attemptP99,omitempty"`
	// AlgorithmP99 is that of the time in which a node was chosen for a pod.
	AlgorithmP99 float64 `json:"algorithmP99,omitempty"`
	Spread
	// Writes is what the API server was asked to write in that time, by verb, resource and, where it was refused, code.
	// This program's own creations are in it.
	Writes map[string]int `json:"writes,omitempty"`
}

// writesPerPod is the number of Writes for each pod.
func (r *Round) writesPerPod(pods int) float64 {
	sum := 0
	for _, n := range r.Writes {
		sum += n
	}
	return float64(sum) / float64(pods)
}

// Summary is the median of a variant's rounds.
type Summary struct {
	Round
	// RateRatio, CPURatio and P99Ratio are PodsPerSecond, SchedulerCPU and AttemptP99 divided by those of the baseline, OfCeiling is
	// PodsPerSecond divided by that of the ceiling; 0 where the run had none. OfFlat is PodsPerSecond divided by that of the
	// variant that only knows no fabric, 0 where there is none (fabricPairs).
	RateRatio float64 `json:"rateRatio,omitempty"`
	CPURatio  float64 `json:"cpuRatio,omitempty"`
	P99Ratio  float64 `json:"p99Ratio,omitempty"`
	OfCeiling float64 `json:"ofCeiling,omitempty"`
	OfFlat    float64 `json:"ofFlat,omitempty"`
	// WritesPerPod is the number of Writes for each pod.
	WritesPerPod float64 `json:"writesPerPod"`
}

// Report is one run of this program.
type Report struct {
	Time string `json:"time"`
	// Version is what the scheduler says it is: the Kubernetes release and the commit.
	Version string          `json:"version"`
	Command string          `json:"command"`
	Machine results.Machine `json:"machine"`
	Size    size            `json:"size"`
	Mode    mode            `json:"mode"`
	// Gates are further feature gates of the schedulers with our plugins.
	Gates   string    `json:"gates,omitempty"`
	Rounds  []Round   `json:"rounds"`
	Medians []Summary `json:"medians"`
}

// summarize returns the medians of every variant, in the order of first appearance in names.
func summarize(names []string, pods int, rounds []Round) []Summary {
	var all []Summary
	for _, name := range names {
		mine := slices.DeleteFunc(slices.Clone(rounds), func(r Round) bool { return r.Variant != name })
		if len(mine) == 0 {
			continue
		}
		all = append(all, Summary{Round: Round{
			Variant:       name,
			CreateSeconds: median(mine, func(r *Round) float64 { return r.CreateSeconds }),
			Seconds:       median(mine, func(r *Round) float64 { return r.Seconds }),
			PodsPerSecond: median(mine, func(r *Round) float64 { return r.PodsPerSecond }),
			SchedulerCPU:  median(mine, func(r *Round) float64 { return r.SchedulerCPU }),
			ServerCPU:     median(mine, func(r *Round) float64 { return r.ServerCPU }),
			AttemptP50:    median(mine, func(r *Round) float64 { return r.AttemptP50 }),
			AttemptP99:    median(mine, func(r *Round) float64 { return r.AttemptP99 }),
			AlgorithmP99:  median(mine, func(r *Round) float64 { return r.AlgorithmP99 }),
			Spread: Spread{
				Leaves: median(mine, func(r *Round) float64 { return r.Leaves }),
				Spines: median(mine, func(r *Round) float64 { return r.Spines }),
			},
		}, WritesPerPod: median(mine, func(r *Round) float64 { return r.writesPerPod(pods) })})
	}
	base, top := find(all, baseline), find(all, ceiling)
	for i := range all {
		s := &all[i]
		if base != nil {
			s.RateRatio = quotient(s.PodsPerSecond, base.PodsPerSecond)
			s.CPURatio = quotient(s.SchedulerCPU, base.SchedulerCPU)
			s.P99Ratio = quotient(s.AttemptP99, base.AttemptP99)
		}
		if top != nil {
			s.OfCeiling = quotient(s.PodsPerSecond, top.PodsPerSecond)
		}
	}
	for _, pair := range fabricPairs {
		if on, off := find(all, pair[0]), find(all, pair[1]); on != nil && off != nil {
			on.OfFlat = quotient(on.PodsPerSecond, off.PodsPerSecond)
		}
	}
	return all
}

func find(all []Summary, name string) *Summary {
	i := slices.IndexFunc(all, func(s Summary) bool { return s.Variant == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// quotient is 0 where there is nothing to divide by.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func median[T any](of []T, figure func(*T) float64) float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = figure(&of[i])
	}
	return results.Median(all)
}

// table writes the medians for readers.
func (r *Report) table(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s, %s, %d cores (load before: %s), %s\n", r.Version, r.Machine.CPU, r.Machine.Cores, r.Machine.Load, r.Machine.Go)
	least := r.Size.least()
	fmt.Fprintf(&text, "%d nodes of %d GPUs, %d gangs of %d pods of %d GPUs; %s; medians of %d rounds\n",
		r.Size.Nodes, machine.Count, r.Size.Gangs, r.Size.Members, r.Size.GPUs, r.Mode, len(r.Rounds)/max(1, len(r.Medians)))
	fmt.Fprintf(&text, "%d nodes a leaf, %d leaves a spine; alone on empty nodes a gang has %.0f leaves and %.0f spines\n\n",
		nodesPerLeaf, leavesPerSpine, least.Leaves, least.Spines)
	text.WriteString("VARIANT\tPODS/S\tx DEFAULT\tOF CEILING\tOF FLAT\tSCHEDULER CPU s/1000 pods\tx DEFAULT\tAPI SERVER CPU s/1000 pods\tATTEMPT P99 ms\tx DEFAULT\t" +
		"WRITES/POD\tLEAVES/GANG\tSPINES/GANG\n")
	for i := range r.Medians {
		s := &r.Medians[i]
		fmt.Fprintf(&text, "%s\t%.0f\t%s\t%s\t%s\t%.2f\t%s\t%.2f\t%s\t%s\t%.1f\t%s\t%s\n",
			s.Variant, s.PodsPerSecond, ratio(s.RateRatio), ratio(s.OfCeiling), ratio(s.OfFlat), s.SchedulerCPU, ratio(s.CPURatio), s.ServerCPU,
			ratio(s.AttemptP99), ratio(s.P99Ratio), s.WritesPerPod, ratio(s.Leaves), ratio(s.Spines))
	}
	if r.Gates != "" {
		fmt.Fprintf(&text, "\nwith our plugins: %s\n", r.Gates)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return w.Flush()
}

// ratio writes a quotient, and none for 0.
func ratio(q float64) string {
	if q == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", q)
}

// writeJSON writes everything of a report into a file, for programs.
func writeJSON(name string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// limits are what a run must reach; 0 is none.
type limits struct {
	rate, cpu, flat float64
}

// check returns what the variants of our own plugins miss.
func (l limits) check(medians []Summary) error {
	if err := l.checkFlat(medians); err != nil {
		return err
	}
	s := find(medians, ours)
	switch {
	case l.rate == 0 && l.cpu == 0:
		return nil
	case s == nil || s.RateRatio == 0:
		return fmt.Errorf("--min-rate and --max-cpu compare %s with %s: --variants must name both", ours, baseline)
	case l.rate != 0 && s.RateRatio < l.rate:
		return fmt.Errorf("%s has %.2f times the pods/s of %s, want at least %.2f", ours, s.RateRatio, baseline, l.rate)
	case l.cpu != 0 && s.CPURatio > l.cpu:
		return fmt.Errorf("%s has %.2f times the CPU time of %s, want at most %.2f", ours, s.CPURatio, baseline, l.cpu)
	}
	return nil
}

// checkFlat compares every variant that knows the fabric with the one that does not.
func (l limits) checkFlat(medians []Summary) error {
	if l.flat == 0 {
		return nil
	}
	compared := 0
	for _, pair := range fabricPairs {
		s := find(medians, pair[0])
		if s == nil {
			continue
		}
		if s.OfFlat == 0 {
			return fmt.Errorf("--min-of-flat compares %s with %s: --variants must name both", pair[0], pair[1])
		}
		compared++
		if s.OfFlat < l.flat {
			return fmt.Errorf("%s has %.2f times the pods/s of %s, want at least %.2f", pair[0], s.OfFlat, pair[1], l.flat)
		}
	}
	if compared == 0 {
		return fmt.Errorf("--min-of-flat: --variants must name one of the pairs %v", fabricPairs)
	}
	return nil
}
