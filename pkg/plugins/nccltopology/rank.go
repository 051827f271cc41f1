package nccltopology

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// ranked turns raw scores whose order alone matters into final ones, in place:
//
//	final = max(0, 100 - step x (number of different raw scores that are better))
//	step  = max(1, 100 / (number of different raw scores - 1)), rounded down
//
// The best has 100; where all are equal, all have. Of more than 101 different ones those behind the first hundred share 0.
// Example: 7, 9, 9, 3 becomes 50, 100, 100, 0.
func ranked[S any](scores []S, value func(*S) *int64) {
	raw := make([]int64, len(scores))
	for i := range scores {
		raw[i] = *value(&scores[i])
	}
	slices.Sort(raw)
	raw = slices.Compact(raw)
	step := max(1, fwk.MaxScore/max(1, int64(len(raw)-1)))
	for i := range scores {
		v := value(&scores[i])
		at, _ := slices.BinarySearch(raw, *v)
		*v = max(fwk.MinScore, fwk.MaxScore-step*int64(len(raw)-1-at))
	}
}
