package spread

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTrialOfManyDomains: whatever a dry run changes, in whatever order, the minimum is that over all domains.
func TestTrialOfManyDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 6), 6, 16).Draw(t, "pods by host")
		s := cluster(len(sizes), 0)
		for i, n := range sizes {
			s.touch(i, int64(100+i), n)
		}
		trial, by := s.counts(NewCache(1), "k")[1].Try(), map[string]int{}
		for i, n := range sizes {
			by[s.nodes[i].Name] = n
		}
		for range rapid.IntRange(4, 20).Draw(t, "changes") {
			host, n := fmt.Sprintf("n%05d", rapid.IntRange(0, 17).Draw(t, "host")), rapid.IntRange(-6, 6).Draw(t, "n")
			before, parent := trial.Min(), trial
			trial = trial.Clone()
			trial.Add(host, n, true)
			by[host] += n
			if parent.Min() != before {
				t.Fatalf("the clone changed its parent's minimum from %d to %d", before, parent.Min())
			}
			lowest, first := 0, true
			for _, pods := range by {
				if first || pods < lowest {
					lowest, first = pods, false
				}
			}
			if diff := cmp.Diff([]int{len(by), lowest, by[host]}, []int{trial.Domains(), trial.Min(), trial.Pods(host)}); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", by, diff)
			}
		}
	})
}

// TestTrialOfTheLowestDomains: a dry run that raises all domains that Counts keeps at hand looks at the others.
func TestTrialOfTheLowestDomains(t *testing.T) {
	s := cluster(7, 0)
	for i := range s.nodes {
		s.touch(i, int64(100+i), 7-i)
	}
	trial := s.counts(NewCache(1), "k")[1].Try()
	for i, want := range []int{2, 3, 4, 5, 6, 7, 11} {
		trial.Add(fmt.Sprintf("n%05d", 6-i), 10, true)
		if got := trial.Min(); got != want {
			t.Errorf("%d domains raised: minimum %d, want %d", i+1, got, want)
		}
	}
}
