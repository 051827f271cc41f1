package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// scaleReport has two starts of each scheduler in the large cluster, one in the small, and two failovers of ours.
func scaleReport() *ScaleReport {
	r := &ScaleReport{
		Time: "now", Version: "Kubernetes v1.37.2+abc", Command: "run", Waiting: 100, Rounds: 2,
		Machine: results.Machine{CPU: "Some CPU", Cores: 2, Load: "0.10", Go: "go1.26.8"},
		Small:   size{Name: "10Nodes_20Pods", Nodes: 10}, Large: size{Name: "100Nodes_200Pods", Nodes: 100},
		Starts: []Start{
			{Variant: baseline, Nodes: 10, SyncSeconds: 1, FirstBindSeconds: 0.1, MillisPerPod: 4, SchedulerCPU: 2, RSSSynced: 80, RSSBound: 90, RSSPeak: 100},
			{Variant: ours, Nodes: 10, SyncSeconds: 1, FirstBindSeconds: 0.1, MillisPerPod: 2, SchedulerCPU: 1, RSSSynced: 88, RSSBound: 90, RSSPeak: 100},
			{Variant: ours, Nodes: 100, SyncSeconds: 5, FirstBindSeconds: 1, MillisPerPod: 2, SchedulerCPU: 1, RSSSynced: 200, RSSBound: 260, RSSPeak: 300},
			{Variant: baseline, Nodes: 100, SyncSeconds: 4, FirstBindSeconds: 0.25, MillisPerPod: 6, SchedulerCPU: 3, RSSSynced: 200, RSSBound: 200, RSSPeak: 200},
			{Variant: single, Nodes: 100, SyncSeconds: 6, FirstBindSeconds: 1.25, MillisPerPod: 3, SchedulerCPU: 3, RSSSynced: 180, RSSBound: 220, RSSPeak: 240},
			{Variant: ours, Nodes: 100, SyncSeconds: 7, FirstBindSeconds: 2, MillisPerPod: 3, SchedulerCPU: 2, RSSSynced: 220, RSSBound: 240, RSSPeak: 300},
		},
		Failovers: []Failover{
			{Variant: single, Nodes: 100, ElectionSeconds: 15, BindSeconds: 2, ReadSeconds: 1, Waiting: 60},
			{Variant: single, Nodes: 100, ElectionSeconds: 17, BindSeconds: 3, ReadSeconds: 2, Waiting: 50},
		},
	}
	r.summarize()
	return r
}

func TestScaleSummarize(t *testing.T) {
	want := []ScaleSummary{
		{
			Start:     Start{Variant: baseline, Nodes: 10, SyncSeconds: 1, FirstBindSeconds: 0.1, MillisPerPod: 4, SchedulerCPU: 2, RSSSynced: 80, RSSBound: 90, RSSPeak: 100},
			SyncRatio: 1, RSSRatio: 1, PeakRatio: 1,
		},
		{
			Start:     Start{Variant: ours, Nodes: 10, SyncSeconds: 1, FirstBindSeconds: 0.1, MillisPerPod: 2, SchedulerCPU: 1, RSSSynced: 88, RSSBound: 90, RSSPeak: 100},
			SyncRatio: 1, RSSRatio: 1.1, PeakRatio: 1,
		},
		{
			Start:     Start{Variant: baseline, Nodes: 100, SyncSeconds: 4, FirstBindSeconds: 0.25, MillisPerPod: 6, SchedulerCPU: 3, RSSSynced: 200, RSSBound: 200, RSSPeak: 200},
			SyncRatio: 1, RSSRatio: 1, PeakRatio: 1, Growth: 1.5, CPUGrowth: 1.5,
		},
		{
			Start:     Start{Variant: ours, Nodes: 100, SyncSeconds: 6, FirstBindSeconds: 1.5, MillisPerPod: 2.5, SchedulerCPU: 1.5, RSSSynced: 210, RSSBound: 250, RSSPeak: 300},
			SyncRatio: 1.5, RSSRatio: 1.25, PeakRatio: 1.5, Growth: 1.25, CPUGrowth: 1.5,
		},
		{
			Start:     Start{Variant: single, Nodes: 100, SyncSeconds: 6, FirstBindSeconds: 1.25, MillisPerPod: 3, SchedulerCPU: 3, RSSSynced: 180, RSSBound: 220, RSSPeak: 240},
			SyncRatio: 1.5, RSSRatio: 1.1, PeakRatio: 1.2,
			Failover: &Failover{Variant: single, Nodes: 100, ElectionSeconds: 16, BindSeconds: 2.5, ReadSeconds: 1.5, Waiting: 55},
		},
	}
	if diff := cmp.Diff(want, scaleReport().Medians); diff != "" {
		t.Errorf("summarize (-want +got):\n%s", diff)
	}
}

func TestScaleTable(t *testing.T) {
	var got strings.Builder
	if err := scaleReport().table(&got); err != nil {
		t.Fatal(err)
	}
	const want = `
Kubernetes v1.37.2+abc, Some CPU, 2 cores (load before: 0.10), go1.26.8
nodes of 8 GPUs, 100 pods of 1 GPU wait; medians of 2 rounds

CLUSTER           VARIANT  IN SYNC s  x DEFAULT  FIRST BIND s  ms/POD  x SMALL  CPU s/1000 pods  x SMALL  RSS IN SYNC MiB  RSS BOUND MiB  x DEFAULT  RSS PEAK MiB  x DEFAULT
10Nodes_20Pods    default  1.0        1.00       0.10          4.00    -        2.00             -        80               90             1.00       100           1.00
10Nodes_20Pods    crd      1.0        1.00       0.10          2.00    -        1.00             -        88               90             1.10       100           1.00
100Nodes_200Pods  default  4.0        1.00       0.25          6.00    1.50     3.00             1.50     200              200            1.00       200           1.00
100Nodes_200Pods  crd      6.0        1.50       1.50          2.50    1.25     1.50             1.50     210              250            1.25       300           1.50
100Nodes_200Pods  singles  6.0        1.50       1.25          3.00    -        3.00             -        180              220            1.10       240           1.20

CLUSTER           VARIANT  ELECTION s  FIRST BIND s  BOUND PODS READ s  PODS WAITING
100Nodes_200Pods  singles  16.0        2.50          1.50               55
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestScaleResults holds that both runs reach the report, each with its own rounds, and that what was not measured is not there.
func TestScaleResults(t *testing.T) {
	runs := scaleReport().results()
	if len(runs) != 2 || runs[0].Scope != "100Nodes_200Pods, start" || runs[1].Scope != "100Nodes_200Pods, failover" {
		t.Fatalf("results = %v, want the starts and the failovers", runs)
	}
	for i, want := range []struct{ rows, rounds int }{{5, 2}, {1, 2}} {
		if r := &runs[i]; len(r.Rows) != want.rows || r.Rounds != want.rounds || r.Commit != "abc" || r.Benchmark != results.Outside {
			t.Errorf("run %d has %d rows of %d rounds, want %v: %v", i, len(r.Rows), r.Rounds, want, r)
		}
	}
	if _, ok := runs[0].Find("10Nodes_20Pods", ours).Figures[results.Growth]; ok {
		t.Error("the small cluster has grown")
	}
	want := map[results.Figure]float64{
		results.SyncSeconds: 6, results.FirstBindSeconds: 1.5, results.MillisPerPod: 2.5, results.SchedulerCPU: 1.5,
		results.RSSSynced: 210, results.RSSBound: 250, results.RSSPeak: 300, results.Growth: 1.25,
	}
	if diff := cmp.Diff(want, runs[0].Find("100Nodes_200Pods", ours).Figures); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	want = map[results.Figure]float64{results.ElectionSeconds: 16, results.ReadSeconds: 1.5, results.LeadToBindSeconds: 2.5}
	if diff := cmp.Diff(want, runs[1].Find("100Nodes_200Pods", single).Figures); diff != "" {
		t.Errorf("failovers (-want +got):\n%s", diff)
	}
	alone := scaleReport()
	alone.Failovers = nil
	alone.summarize()
	if runs := alone.results(); len(runs) != 1 {
		t.Errorf("%d runs, want the starts alone", len(runs))
	}
}

func TestScaleLimits(t *testing.T) {
	empty := &ScaleReport{Large: size{Nodes: 100}}
	tests := map[string]struct {
		limits scaleLimits
		report *ScaleReport
		want   string // "" is no error
	}{
		"none":           {scaleLimits{}, empty, ""},
		"met":            {scaleLimits{firstBind: 1.5, rss: 1.25, growth: 1.25, takeOver: 2.5}, scaleReport(), ""},
		"gangs too late": {scaleLimits{firstBind: 1.4}, scaleReport(), "crd: 1.50 seconds from sync to first bind, want at most 1.40"},
		"both too late":  {scaleLimits{firstBind: 1.2}, scaleReport(), "singles: 1.25 seconds from sync to first bind, want at most 1.20; crd: 1.50"},
		"too large":      {scaleLimits{rss: 1.2}, scaleReport(), "crd: 1.25 times the memory of default"},
		"too slow":       {scaleLimits{growth: 1.2}, scaleReport(), "1.25 times the time for a pod in the small cluster"},
		"two":            {scaleLimits{growth: 1.2, takeOver: 2}, scaleReport(), "want at most 1.20; singles: 2.50 seconds from lease to first bind"},
		"not killed":     {scaleLimits{takeOver: 2}, empty, "seconds from lease to first bind were not measured"},
		"not there":      {scaleLimits{rss: 1.3}, empty, "times the memory of default were not measured"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			switch err := tc.limits.check(tc.report); {
			case tc.want == "" && err != nil:
				t.Errorf("check = %v, want nil", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("check = %v, want an error with %q", err, tc.want)
			}
		})
	}
}
