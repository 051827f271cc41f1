package checker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// metricPrefix begins the names of the scheduler's own metrics.
const metricPrefix = "gpu_topology_scheduler_"

// Counts are the values of one counter by its only label.
type Counts map[string]int

// Metrics are what the scheduler says of itself.
type Metrics struct {
	// Repairs is drift_repairs_total by kind: what sweeps mended, and what a pod's next cycle found left over.
	Repairs Counts
	// Binds is bind_outcomes_total, Rollbacks is rollbacks_total, each by all labels joined.
	Binds, Rollbacks Counts
	// Goroutines is how many there are.
	Goroutines int
}

// FetchMetrics reads /metrics of the probes' address base, such as https://127.0.0.1:10259.
func FetchMetrics(ctx context.Context, client *http.Client, base string) (m Metrics, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", http.NoBody)
	if err != nil {
		return m, err
	}
	response, err := client.Do(request)
	if err != nil {
		return m, err
	}
	defer func() {
		if closed := response.Body.Close(); err == nil {
			err = closed
		}
	}()
	if response.StatusCode != http.StatusOK {
		return m, fmt.Errorf("%s/metrics: %s", base, response.Status)
	}
	return readMetrics(response.Body)
}

func readMetrics(text io.Reader) (Metrics, error) {
	m := Metrics{Repairs: Counts{}, Binds: Counts{}, Rollbacks: Counts{}}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		sample, ok := strings.CutPrefix(lines.Text(), metricPrefix)
		if !ok {
			if n, found := strings.CutPrefix(lines.Text(), "go_goroutines "); found {
				var err error
				if m.Goroutines, err = strconv.Atoi(n); err != nil {
					return m, fmt.Errorf("metric %s: %w", lines.Text(), err)
				}
			}
			continue
		}
		name, rest, ok := strings.Cut(sample, "{")
		labels, value, found := strings.Cut(rest, "} ")
		if !ok || !found {
			continue
		}
		var into Counts
		switch name {
		case "drift_repairs_total":
			into = m.Repairs
		case "bind_outcomes_total":
			into = m.Binds
		case "rollbacks_total":
			into = m.Rollbacks
		default:
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return m, fmt.Errorf("metric %s%s: %w", metricPrefix, sample, err)
		}
		into[labelValues(labels)] += int(n)
	}
	return m, lines.Err()
}

// labelValues joins the values of labels, in their order.
func labelValues(labels string) string {
	var values []string
	for pair := range strings.SplitSeq(labels, ",") {
		_, value, _ := strings.Cut(pair, "=")
		values = append(values, strings.Trim(value, `"`))
	}
	return strings.Join(values, "/")
}
