package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHistogram(t *testing.T) {
	const text = `# HELP a_seconds help
a_seconds_bucket{profile="p",result="scheduled",le="0.1"} 3
a_seconds_bucket{profile="q",result="scheduled",le="0.1"} 1
a_seconds_bucket{profile="p",result="scheduled",le="+Inf"} 8
a_seconds_bucket{profile="p",result="error",le="0.1"} 50
a_seconds_sum{profile="p",result="scheduled"} 12
ab_seconds_bucket{profile="p",result="scheduled",le="0.1"} 7
`
	got, err := parseHistogram([]byte(text), "a_seconds", `result="scheduled"`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(histogram{0.1: 4, math.Inf(1): 8}, got); diff != "" {
		t.Error(diff)
	}
	for name, bad := range map[string]string{
		"bound": `a_seconds_bucket{result="scheduled",le="x"} 3`,
		"count": `a_seconds_bucket{result="scheduled",le="1"} x`,
	} {
		if _, err := parseHistogram([]byte(bad), "a_seconds", `result="scheduled"`); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQuantile(t *testing.T) {
	for name, tc := range map[string]struct {
		h    histogram
		q    float64
		want float64
	}{
		"empty":           {q: 0.5},
		"no observations": {h: histogram{1: 0, math.Inf(1): 0}, q: 0.5},
		"first bucket":    {h: histogram{1: 10, 2: 10, math.Inf(1): 10}, q: 0.5, want: 0.5},
		"second bucket":   {h: histogram{1: 10, 3: 20, math.Inf(1): 20}, q: 0.75, want: 2},
		"beyond":          {h: histogram{1: 10, 3: 20, math.Inf(1): 40}, q: 0.99, want: 3},
		"empty bucket":    {h: histogram{1: 0, 2: 0, 4: 10, math.Inf(1): 10}, q: 0.5, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.h.quantile(tc.q); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLess(t *testing.T) {
	got := histogram{1: 5, 2: 9}.less(histogram{1: 2})
	if diff := cmp.Diff(histogram{1: 3, 2: 9}, got); diff != "" {
		t.Error(diff)
	}
}
