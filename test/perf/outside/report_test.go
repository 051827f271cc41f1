package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// rounds are two of the baseline, three of ours, one of ours without the fabric and one of the ceiling.
func rounds() []Round {
	asked := map[string]int{"POST pods": 100, "POST pods/binding": 100, "POST events": 50}
	return []Round{
		{Variant: baseline, PodsPerSecond: 100, SchedulerCPU: 4, ServerCPU: 5, AttemptP50: 2, AttemptP99: 100, Seconds: 10, CreateSeconds: 1},
		{Variant: ours, PodsPerSecond: 900, SchedulerCPU: 1, ServerCPU: 4, Spread: Spread{Leaves: 1, Spines: 1}},
		{Variant: ours, PodsPerSecond: 300, SchedulerCPU: 2, ServerCPU: 3, AttemptP99: 30, Spread: Spread{Leaves: 1.5, Spines: 1}},
		{Variant: ceiling, PodsPerSecond: 600, SchedulerCPU: 0.4, ServerCPU: 3, Writes: asked},
		{Variant: ours, PodsPerSecond: 200, SchedulerCPU: 9, ServerCPU: 8, AttemptP99: 60, Spread: Spread{Leaves: 2, Spines: 1.25}},
		{Variant: flat, PodsPerSecond: 400, SchedulerCPU: 1, ServerCPU: 8, Spread: Spread{Leaves: 7, Spines: 3}},
		{Variant: baseline, PodsPerSecond: 200, SchedulerCPU: 4, ServerCPU: 7, AttemptP50: 4, AttemptP99: 140, Seconds: 20, CreateSeconds: 3},
	}
}

// singles are the medians of a run of pods without gangs, with and without the fabric: so many pods/s to 100.
func singles(rate float64) []Summary {
	return summarize(variantNames(), 100, []Round{{Variant: "singles", PodsPerSecond: rate}, {Variant: "singles-flat", PodsPerSecond: 100}})
}

func TestSummarize(t *testing.T) {
	want := []Summary{
		{Round: Round{Variant: ceiling, PodsPerSecond: 600, SchedulerCPU: 0.4, ServerCPU: 3}, RateRatio: 4, CPURatio: 0.1, OfCeiling: 1, WritesPerPod: 2.5},
		{
			Round:     Round{Variant: baseline, PodsPerSecond: 150, SchedulerCPU: 4, ServerCPU: 6, AttemptP50: 3, AttemptP99: 120, Seconds: 15, CreateSeconds: 2},
			RateRatio: 1, CPURatio: 1, P99Ratio: 1, OfCeiling: 0.25,
		},
		{
			Round:     Round{Variant: ours, PodsPerSecond: 300, SchedulerCPU: 2, ServerCPU: 4, AttemptP99: 30, Spread: Spread{Leaves: 1.5, Spines: 1}},
			RateRatio: 2, CPURatio: 0.5, P99Ratio: 0.25, OfCeiling: 0.5, OfFlat: 0.75,
		},
		{
			Round:     Round{Variant: flat, PodsPerSecond: 400, SchedulerCPU: 1, ServerCPU: 8, Spread: Spread{Leaves: 7, Spines: 3}},
			RateRatio: 400. / 150, CPURatio: 0.25, OfCeiling: 400. / 600,
		},
	}
	if diff := cmp.Diff(want, summarize(variantNames(), 100, rounds())); diff != "" {
		t.Errorf("summarize (-want +got):\n%s", diff)
	}
}

func TestSummarizeWithoutTwins(t *testing.T) {
	want := []Summary{{Round: Round{Variant: ours, PodsPerSecond: 300}}}
	if diff := cmp.Diff(want, summarize(variantNames(), 100, []Round{{Variant: ours, PodsPerSecond: 300}})); diff != "" {
		t.Errorf("summarize (-want +got):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	r := &Report{
		Version: "Kubernetes v1.37.2+abc", Size: sizes[1], Mode: backlog, Rounds: rounds(),
		Machine: results.Machine{CPU: "Some CPU", Cores: 2, Load: "0.10", Go: "go1.26.8"},
	}
	r.Medians = summarize([]string{ceiling, ours, flat}, 100, r.Rounds)
	var got strings.Builder
	if err := r.table(&got); err != nil {
		t.Fatal(err)
	}
	const want = `
Kubernetes v1.37.2+abc, Some CPU, 2 cores (load before: 0.10), go1.26.8
512 nodes of 8 GPUs, 125 gangs of 8 pods of 4 GPUs; backlog; medians of 2 rounds
16 nodes a leaf, 8 leaves a spine; alone on empty nodes a gang has 1 leaves and 1 spines

VARIANT      PODS/S  x DEFAULT  OF CEILING  OF FLAT  SCHEDULER CPU s/1000 pods  x DEFAULT  API SERVER CPU s/1000 pods  ATTEMPT P99 ms  x DEFAULT  WRITES/POD  LEAVES/GANG  SPINES/GANG
no-decision  600     -          1.00        -        0.40                       -          3.00                        -               -          2.5         -            -
crd          300     -          0.50        0.75     2.00                       -          4.00                        30.00           -          0.0         1.50         1.00
crd-flat     400     -          0.67        -        1.00                       -          8.00                        -               -          0.0         7.00         3.00
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestReportJSON(t *testing.T) {
	want := Report{Version: "v", Size: sizes[0], Mode: arrival, Rounds: rounds(), Medians: summarize(variantNames(), 100, rounds())}
	name := filepath.Join(t.TempDir(), "report.json")
	if err := writeJSON(name, &want); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	tests := map[string]struct {
		limits  limits
		medians []Summary
		want    string // "" is no error
	}{
		"none":                               {limits{}, nil, ""},
		"met":                                {limits{rate: 2, cpu: 0.5}, summarize(variantNames(), 100, rounds()), ""},
		"too slow":                           {limits{rate: 2.01}, summarize(variantNames(), 100, rounds()), "crd has 2.00 times the pods/s of default"},
		"too dear":                           {limits{cpu: 0.49}, summarize(variantNames(), 100, rounds()), "crd has 0.50 times the CPU time of default"},
		"flat is met":                        {limits{flat: 0.75}, summarize(variantNames(), 100, rounds()), ""},
		"the fabric is too dear":             {limits{flat: 0.76}, summarize(variantNames(), 100, rounds()), "crd has 0.75 times the pods/s of crd-flat"},
		"no flat to compare it with":         {limits{flat: 0.9}, summarize([]string{ours}, 100, rounds()), "--min-of-flat compares crd with crd-flat"},
		"no pair at all":                     {limits{flat: 0.9}, summarize([]string{baseline}, 100, rounds()), "one of the pairs [[crd crd-flat] [singles singles-flat]]"},
		"singles are met":                    {limits{flat: 0.95}, singles(95), ""},
		"the fabric is too dear for singles": {limits{flat: 0.95}, singles(94), "singles has 0.94 times the pods/s of singles-flat"},
		"nothing to compare":                 {limits{rate: 1}, nil, "--variants must name both"},
		"nothing to compare it with":         {limits{cpu: 1}, summarize([]string{ours}, 100, rounds()), "--variants must name both"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			switch err := tc.limits.check(tc.medians); {
			case tc.want == "" && err != nil:
				t.Errorf("check = %v, want nil", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("check = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestParseRequests(t *testing.T) {
	const text = `# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 7
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1e+03
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 9
apiserver_request_total_other{verb="POST"} 1
`
	before, err := parseRequests([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"PATCH pods/status": 7, "PATCH pods/status 409": 2, "POST pods": 1000}, before); diff != "" {
		t.Errorf("parseRequests (-want +got):\n%s", diff)
	}
	after := map[string]float64{"PATCH pods/status": 12, "POST pods": 1000, "DELETE pods": 1}
	if diff := cmp.Diff(map[string]int{"PATCH pods/status": 5, "DELETE pods": 1}, since(before, after)); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
}

func TestParseRequestsErrors(t *testing.T) {
	for _, text := range []string{requestMetric + `verb="POST"`, requestMetric + `verb="POST"} many`} {
		if got, err := parseRequests([]byte(text)); err == nil {
			t.Errorf("parseRequests(%q) = %v, want an error", text, got)
		}
	}
}

// TestResult holds that the medians reach the report under their names, and that what was not measured is not there.
func TestResult(t *testing.T) {
	r := &Report{
		Time: "now", Version: "Kubernetes v1.37.2+abc", Command: "run", Size: sizes[1], Mode: backlog,
		Rounds: rounds()[3:5], Medians: summarize([]string{ceiling, ours}, 100, rounds()[3:5]),
	}
	want := results.Run{
		Benchmark: results.Outside, Scope: "512Nodes_125Gangs, backlog", Time: "now", Commit: "abc", Command: "run", Rounds: 1,
		Rows: []results.Row{
			{Workload: "512Nodes_125Gangs", Variant: ceiling, Figures: map[results.Figure]float64{
				results.PodsPerSecond: 600, results.Seconds: 0, results.SchedulerCPU: 0.4, results.ServerCPU: 3, results.WritesPerPod: 2.5,
			}},
			{Workload: "512Nodes_125Gangs", Variant: ours, Figures: map[results.Figure]float64{
				results.PodsPerSecond: 200, results.Seconds: 0, results.SchedulerCPU: 9, results.ServerCPU: 8, results.WritesPerPod: 0,
				results.AttemptP99: 60, results.LeavesPerGang: 2,
			}},
		},
	}
	if diff := cmp.Diff(want, r.result()); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}
