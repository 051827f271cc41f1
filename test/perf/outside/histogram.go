package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// attemptMetric is the scheduler's histogram of the seconds that attempts took, binding included.
	attemptMetric = "scheduler_scheduling_attempt_duration_seconds"
	// algorithmMetric is that of the seconds in which a node was chosen for a pod.
	algorithmMetric = "scheduler_scheduling_algorithm_duration_seconds"
)

// histogram has the counts of a Prometheus histogram by the upper bound of their bucket, each with those of all lower ones.
type histogram map[float64]float64

// parseHistogram sums the series of a histogram that have a label, written as in the metric; "" for all.
func parseHistogram(text []byte, metric, wanted string) (histogram, error) {
	h := histogram{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, ok := strings.CutPrefix(lines.Text(), metric+"_bucket{")
		if !ok || !strings.Contains(series, wanted) {
			continue
		}
		labels, value, _ := strings.Cut(series, "} ")
		le, err := strconv.ParseFloat(label(labels, "le"), 64)
		if err != nil {
			return nil, fmt.Errorf("metric %.64q: le: %w", lines.Text(), err)
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %.64q: %w", lines.Text(), err)
		}
		h[le] += count
	}
	return h, lines.Err()
}

// less returns what came after an earlier reading.
func (h histogram) less(before histogram) histogram {
	grown := histogram{}
	for bound, count := range h {
		grown[bound] = count - before[bound]
	}
	return grown
}

// quantile returns the value below which a share q of the observations is, by a straight line inside of a bucket, as Prometheus
// does. Beyond the highest finite bound it is that bound; without observations it is 0.
func (h histogram) quantile(q float64) float64 {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	for bound, count := range h {
		buckets = append(buckets, bucket{bound, count})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return 0
	}
	wanted, low := q*buckets[len(buckets)-1].count, bucket{}
	for _, b := range buckets {
		switch {
		case b.count < wanted:
			low = b
		case math.IsInf(b.bound, 1) || b.count == low.count:
			return low.bound
		default:
			return low.bound + (b.bound-low.bound)*(wanted-low.count)/(b.count-low.count)
		}
	}
	return low.bound
}
