package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// The markers between which the tables stand.
const (
	begin = "<!-- begin: written by make bench-report -->\n"
	end   = "<!-- end: written by make bench-report -->\n"
)

var errMarkers = errors.New("lacks the markers of the generated part, or has them in another order")

// replace puts the text between the markers.
func replace(document, text string) (string, error) {
	before, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", errMarkers
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", errMarkers
	}
	return before + begin + text + end + after, nil
}

// baselines are the variants that others are compared with, the first that a workload has.
var baselines = []string{"InTree", "default"}

// ceiling is the variant that decides nothing.
const ceiling = "no-decision"

// column is one figure of a table. With ratio it is followed by the quotient to the baseline.
type column struct {
	title  string
	figure results.Figure
	format string
	ratio  bool
}

var columns = []column{
	{title: "pods/s", figure: results.PodsPerSecond, format: "%.0f", ratio: true},
	{title: "seconds", figure: results.Seconds, format: "%.1f", ratio: true},
	{title: "attempt p50, ms", figure: results.AttemptP50, format: "%.1f"},
	{title: "attempt p99, ms", figure: results.AttemptP99, format: "%.1f", ratio: true},
	{title: "algorithm p99, ms", figure: results.AlgorithmP99, format: "%.2f", ratio: true},
	{title: "SLI p99, ms", figure: results.SLIP99, format: "%.0f"},
	{title: "scheduler CPU, s/1000 pods", figure: results.SchedulerCPU, format: "%.2f", ratio: true},
	{title: "API server CPU, s/1000 pods", figure: results.ServerCPU, format: "%.2f"},
	{title: "writes/pod", figure: results.WritesPerPod, format: "%.1f"},
	{title: "leaves/gang", figure: results.LeavesPerGang, format: "%.2f"},
	{title: "in sync, s", figure: results.SyncSeconds, format: "%.1f", ratio: true},
	{title: "first bind, s", figure: results.FirstBindSeconds, format: "%.2f"},
	{title: "ms/pod", figure: results.MillisPerPod, format: "%.2f", ratio: true},
	{title: "growth", figure: results.Growth, format: "%.2f"},
	{title: "memory in sync, MiB", figure: results.RSSSynced, format: "%.0f", ratio: true},
	{title: "memory, all bound, MiB", figure: results.RSSBound, format: "%.0f", ratio: true},
	{title: "peak memory, MiB", figure: results.RSSPeak, format: "%.0f", ratio: true},
	{title: "election, s", figure: results.ElectionSeconds, format: "%.1f"},
	{title: "bound pods read, s", figure: results.ReadSeconds, format: "%.2f"},
	{title: "first bind after it, s", figure: results.LeadToBindSeconds, format: "%.2f"},
}

// render returns the tables of all runs.
func render(runs []results.Run) string {
	var b strings.Builder
	for i := range runs {
		r := &runs[i]
		fmt.Fprintf(&b, "\n### %s: %s\n\n", r.Benchmark, r.Scope)
		fmt.Fprintf(&b, "Commit %s, %s; %s; medians of %d rounds. To repeat: `%s`\n\n", r.Commit, r.Time, r.Machine, r.Rounds, r.Command)
		renderRows(&b, r)
	}
	b.WriteString("\n")
	return b.String()
}

func renderRows(b *strings.Builder, r *results.Run) {
	shown := slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(r.Rows, func(row results.Row) bool { _, ok := row.Figures[c.figure]; return ok })
	})
	withCeiling := slices.ContainsFunc(r.Rows, func(row results.Row) bool { return row.Variant == ceiling })
	titles, rule := []string{"workload", "variant"}, []string{"---", "---"}
	add := func(title string) { titles, rule = append(titles, title), append(rule, "---:") }
	for _, c := range shown {
		add(c.title)
		if c.ratio {
			add("x")
		}
	}
	if withCeiling {
		add("of the ceiling")
	}
	writeRow(b, titles)
	writeRow(b, rule)
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{row.Workload, row.Variant}
		for _, c := range shown {
			cells = append(cells, figureCell(row, c))
			if c.ratio {
				cells = append(cells, ratioCell(row, baselineOf(r, row.Workload), c.figure))
			}
		}
		if withCeiling {
			cells = append(cells, ratioCell(row, r.Find(row.Workload, ceiling), results.PodsPerSecond))
		}
		writeRow(b, cells)
	}
}

// baselineOf returns the row that the others of a workload are compared with, nil where there is none.
func baselineOf(r *results.Run, workload string) *results.Row {
	for _, variant := range baselines {
		if row := r.Find(workload, variant); row != nil {
			return row
		}
	}
	return nil
}

func figureCell(row *results.Row, c column) string {
	value, ok := row.Figures[c.figure]
	if !ok {
		return ""
	}
	return fmt.Sprintf(c.format, value)
}

func ratioCell(row, to *results.Row, f results.Figure) string {
	ratio, ok := row.Ratio(to, f)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}

func writeRow(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
