package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Run is one run of one benchmark.
type Run struct {
	// Benchmark is the program that measured: SchedulerPerf or Outside.
	Benchmark string `json:"benchmark"`
	// Scope tells runs of one benchmark apart that do not replace each other, for example "seed, short" or
	// "512Nodes_125Gangs, backlog".
	Scope string `json:"scope"`
	// Time is when the run began, in RFC 3339; Commit is the commit that was measured, with "-dirty" after it where the tree
	// held changes.
	Time   string `json:"time"`
	Commit string `json:"commit"`
	// Command repeats the run.
	Command string  `json:"command"`
	Machine Machine `json:"machine"`
	// Rounds is how often every row was measured.
	Rounds int   `json:"rounds"`
	Rows   []Row `json:"rows"`
}

// The names of the benchmarks.
const (
	SchedulerPerf = "scheduler_perf"
	Outside       = "outside"
)

// Row is one variant of one workload: the median of each figure over the rounds.
type Row struct {
	// Workload is what was scheduled, Variant by what.
	Workload string             `json:"workload"`
	Variant  string             `json:"variant"`
	Figures  map[Figure]float64 `json:"figures"`
}

// Figure names what was measured.
type Figure string

// The figures. Those of one run are a subset.
const (
	// PodsPerSecond is the rate of binds.
	PodsPerSecond Figure = "podsPerSecond"
	// Seconds is the time until the last bind, with scheduler_perf from the first creation.
	Seconds Figure = "seconds"
	// AttemptP50 and AttemptP99 are quantiles of the duration of successful scheduling attempts, binding included, in
	// milliseconds.
	AttemptP50 Figure = "attemptP50"
	AttemptP99 Figure = "attemptP99"
	// AlgorithmP99 is the 99th percentile of the time in which a node is chosen for a pod, in milliseconds.
	AlgorithmP99 Figure = "algorithmP99"
	// SLIP99 is the 99th percentile of the time from a pod's first attempt to its bind, in milliseconds.
	SLIP99 Figure = "sliP99"
	// SchedulerCPU and ServerCPU are seconds of CPU time per 1000 pods, of the scheduler and of API server and etcd.
	SchedulerCPU Figure = "schedulerCPU"
	ServerCPU    Figure = "serverCPU"
	// WritesPerPod is how many requests for each pod asked the API server to change something.
	WritesPerPod Figure = "writesPerPod"
	// LeavesPerGang is over how many leaves of the fabric a gang is spread.
	LeavesPerGang Figure = "leavesPerGang"
	// SyncSeconds is the time from the start of a scheduler until its caches are in sync, FirstBindSeconds that from there to
	// its first bind.
	SyncSeconds      Figure = "syncSeconds"
	FirstBindSeconds Figure = "firstBindSeconds"
	// MillisPerPod is the time for each pod between the first bind and the last, in milliseconds, Growth that divided by the
	// one of the same variant in the smallest cluster of the run.
	MillisPerPod Figure = "msPerPod"
	Growth       Figure = "growth"
	// RSSSynced is the resident memory of the scheduler in MiB when its caches are in sync, RSSBound when all pods are bound,
	// RSSPeak the most that it was.
	RSSSynced Figure = "rssSynced"
	RSSBound  Figure = "rssBound"
	RSSPeak   Figure = "rssPeak"
	// ElectionSeconds is the time from the death of a leader until another holds the lease, ReadSeconds that from there until
	// the other has read the bound pods once more, LeadToBindSeconds that until its first bind.
	ElectionSeconds   Figure = "electionSeconds"
	ReadSeconds       Figure = "readSeconds"
	LeadToBindSeconds Figure = "leadToBindSeconds"
)

// Figures lists all.
var Figures = []Figure{
	PodsPerSecond, Seconds, AttemptP50, AttemptP99, AlgorithmP99, SLIP99, SchedulerCPU, ServerCPU, WritesPerPod, LeavesPerGang,
	SyncSeconds, FirstBindSeconds, MillisPerPod, Growth, RSSSynced, RSSBound, RSSPeak, ElectionSeconds, ReadSeconds, LeadToBindSeconds,
}

// Find returns the row of a workload's variant, nil where there is none.
func (r *Run) Find(workload, variant string) *Row {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Workload == workload && row.Variant == variant })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}

// Ratio returns a figure of the row divided by that of another; false where one of them has none or there is nothing to
// divide by.
func (row *Row) Ratio(to *Row, f Figure) (float64, bool) {
	if row == nil || to == nil {
		return 0, false
	}
	a, ok := row.Figures[f]
	b, other := to.Figures[f]
	if !ok || !other || b == 0 {
		return 0, false
	}
	return a / b, true
}

// Median returns the median, 0 without values. It sorts them.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// Merge returns the runs of old, with those of recent in place of theirs, in the order of benchmark and scope. Of several runs of
// one scope the latest counts.
func Merge(old, recent []Run) []Run {
	latest := map[[2]string]Run{}
	for _, r := range slices.Concat(old, recent) {
		key := [2]string{r.Benchmark, r.Scope}
		if known, ok := latest[key]; !ok || r.Time >= known.Time {
			latest[key] = r
		}
	}
	var all []Run
	for _, r := range latest {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Run) int {
		return cmp.Or(cmp.Compare(b.Benchmark, a.Benchmark), cmp.Compare(a.Scope, b.Scope))
	})
	return all
}

// Read reads what Write wrote. A file that does not exist has no runs.
func Read(name string) ([]Run, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []Run
	if err := json.Unmarshal(text, &runs); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return runs, nil
}

// Write writes runs for Read.
func Write(name string, runs []Run) error {
	text, err := json.MarshalIndent(runs, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
