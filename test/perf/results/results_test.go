package results

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   float64
	}{
		"none": {},
		"one":  {values: []float64{3}, want: 3},
		"odd":  {values: []float64{9, 1, 4}, want: 4},
		"even": {values: []float64{9, 1, 4, 5}, want: 4.5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Median(tc.values); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMergeKeepsTheLatestOfAScope(t *testing.T) {
	old := []Run{
		{Benchmark: SchedulerPerf, Scope: "seed", Time: "2026-01-02T00:00:00Z", Commit: "b"},
		{Benchmark: Outside, Scope: "x", Time: "2026-01-01T00:00:00Z", Commit: "a"},
	}
	recent := []Run{
		{Benchmark: SchedulerPerf, Scope: "seed", Time: "2026-01-01T00:00:00Z", Commit: "a"},
		{Benchmark: Outside, Scope: "x", Time: "2026-01-03T00:00:00Z", Commit: "c"},
	}
	want := []Run{old[0], recent[1]}
	if diff := cmp.Diff(want, Merge(old, recent)); diff != "" {
		t.Error(diff)
	}
}

func TestRatio(t *testing.T) {
	ours := &Row{Figures: map[Figure]float64{PodsPerSecond: 300, Seconds: 2}}
	theirs := &Row{Figures: map[Figure]float64{PodsPerSecond: 200, SLIP99: 0}}
	if got, ok := ours.Ratio(theirs, PodsPerSecond); !ok || got != 1.5 {
		t.Errorf("got %v, %t, want 1.5, true", got, ok)
	}
	for _, f := range []Figure{Seconds, SLIP99, AttemptP99} {
		if got, ok := ours.Ratio(theirs, f); ok {
			t.Errorf("%s: got %v, want no ratio", f, got)
		}
	}
	if _, ok := ours.Ratio(nil, PodsPerSecond); ok {
		t.Error("a ratio to nothing")
	}
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.json")
	if got, err := Read(name); err != nil || got != nil {
		t.Fatalf("got %v, %v, want nothing where there is no file", got, err)
	}
	want := []Run{{Benchmark: Outside, Scope: "x", Rows: []Row{{Workload: "w", Variant: "v", Figures: map[Figure]float64{Seconds: 1.25}}}}}
	if err := Write(name, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
