package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// TestDocumentFollowsFromItsData holds that nobody wrote a figure into the tables by hand.
func TestDocumentFollowsFromItsData(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "docs")
	runs, err := results.Read(filepath.Join(folder, "benchmarks.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(folder, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := replace(string(document), render(runs))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(document)); diff != "" {
		t.Errorf("docs/benchmarks.md does not follow from docs/benchmarks.json; run `make bench-report` (-want +got):\n%s", diff)
	}
}

// file is what scheduler_perf writes for one case.
func file(name, throughput, seconds, p99 string) string {
	text := `{"version": "v1", "dataItems": [
{"data": {"Duration": ` + seconds + `}, "unit": "s", "labels": {"Metric": "SchedulingDuration", "Name": "` + name + `", "result": "not applicable"}},
{"data": {"Perc50": 1, "Perc99": ` + p99 + `}, "unit": "ms", "labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "Name": "` + name + `", "result": "scheduled"}},
{"data": {"Perc50": 7, "Perc99": 7777}, "unit": "ms", "labels": {"Metric": "scheduler_scheduling_attempt_duration_seconds", "Name": "` + name + `", "result": "unschedulable"}}`
	if throughput != "" {
		text += `,
{"data": {"Average": ` + throughput + `}, "unit": "pods/s", "labels": {"Metric": "SchedulingThroughput", "Name": "` + name + `"}}`
	}
	return text + "]}"
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const ours, inTree = "BenchmarkPerfScheduling/Seed_Ours/4Nodes/measured", "BenchmarkPerfScheduling/Seed_InTree/4Nodes/measured"

func TestCollect(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "BenchmarkPerfScheduling_1.json", file(ours, "300", "4", "10"))
	write(t, folder, "BenchmarkPerfScheduling_2.json", file(inTree, "200", "5", "30"))
	write(t, folder, "BenchmarkPerfScheduling_3.json", file(inTree, "", "7", "50"))
	write(t, folder, "BenchmarkPerfScheduling_4.json", file(ours, "500", "2", "20"))
	write(t, folder, "other.json", "{}")
	out := filepath.Join(folder, "out")
	err := collect([]string{"--raw", folder, "--scope", "Seed", "--commit", "abc", "--command", "run", "--time", "2026-01-01T00:00:00Z", "--load", "0.10", "--out", out})
	if err != nil {
		t.Fatal(err)
	}
	got, err := results.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	machine := results.ThisMachine()
	machine.Load = "0.10"
	want := []results.Run{{
		Benchmark: results.SchedulerPerf, Scope: "Seed", Commit: "abc", Command: "run", Time: "2026-01-01T00:00:00Z", Rounds: 2, Machine: machine,
		Rows: []results.Row{
			{Workload: "Seed 4Nodes", Variant: "Ours", Figures: map[results.Figure]float64{
				results.PodsPerSecond: 400, results.Seconds: 3, results.AttemptP50: 1, results.AttemptP99: 15,
			}},
			{Workload: "Seed 4Nodes", Variant: "InTree", Figures: map[results.Figure]float64{
				results.PodsPerSecond: 200, results.Seconds: 6, results.AttemptP50: 1, results.AttemptP99: 40,
			}},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCollectRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no files": "", "another version": `{"version": "v2"}`, "no metrics": `{"version": "v1"}`, "no JSON": "x",
		"no variant":   file("BenchmarkPerfScheduling/Seed/4Nodes/measured", "1", "1", "1"),
		"no workloads": file("Seed", "1", "1", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if text != "" {
				write(t, folder, "BenchmarkPerfScheduling_1.json", text)
			}
			out := filepath.Join(folder, "out")
			if err := collect([]string{"--raw", folder, "--out", out}); err == nil {
				t.Error("no error")
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a file was written")
			}
		})
	}
}

func TestRender(t *testing.T) {
	runs := []results.Run{{
		Benchmark: results.Outside, Scope: "small", Commit: "abc", Time: "now", Command: "run it", Rounds: 3,
		Machine: results.Machine{CPU: "Some CPU", Cores: 2, OS: "linux/amd64", Go: "go1", Load: "0.1"},
		Rows: []results.Row{
			{Workload: "w", Variant: "no-decision", Figures: map[results.Figure]float64{results.PodsPerSecond: 1000}},
			{Workload: "w", Variant: "default", Figures: map[results.Figure]float64{results.PodsPerSecond: 200, results.SchedulerCPU: 4}},
			{Workload: "w", Variant: "crd", Figures: map[results.Figure]float64{results.PodsPerSecond: 500, results.SchedulerCPU: 1}},
		},
	}}
	const want = `
### outside: small

Commit abc, now; Some CPU, 2 cores, linux/amd64, go1, load before 0.1; medians of 3 rounds. To repeat: ` + "`run it`" + `

| workload | variant | pods/s | x | scheduler CPU, s/1000 pods | x | of the ceiling |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| w | no-decision | 1000 | 5.00 |  |  | 1.00 |
| w | default | 200 | 1.00 | 4.00 | 1.00 | 0.20 |
| w | crd | 500 | 2.50 | 1.00 | 0.25 | 0.50 |

`
	if diff := cmp.Diff(want, render(runs)); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	folder := t.TempDir()
	runs, data, document := filepath.Join(folder, "runs"), filepath.Join(folder, "data.json"), filepath.Join(folder, "doc.md")
	if err := os.Mkdir(runs, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "doc.md", "before\n"+begin+"old\n"+end+"after\n")
	for _, scope := range []string{"a", "b"} { // the second run of the command keeps what the first took in
		if err := results.Write(filepath.Join(runs, "run.json"), []results.Run{{Benchmark: results.Outside, Scope: scope}}); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := table([]string{"--runs", runs, "--data", data, "--document", document}, &out); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n" + begin, "### outside: a", "### outside: b", end + "after\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the document is %q, want %q in it", text, want)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old table is still there")
	}
}

func TestReplaceWithoutMarkers(t *testing.T) {
	for _, document := range []string{"", begin, end + begin} {
		if _, err := replace(document, "x"); err == nil {
			t.Errorf("%q: no error", document)
		}
	}
}
