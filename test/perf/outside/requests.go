package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// requestMetric counts what the API server has served.
const requestMetric = "apiserver_request_total{"

// writes asks the API server how many requests that change something it has served, by verb, resource and, where it was
// refused, code.
func (b *bench) writes(ctx context.Context) (map[string]float64, error) {
	text, err := b.client.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("/metrics of the API server: %w", err)
	}
	return parseRequests(text)
}

// parseRequests sums the metric over all other labels.
func parseRequests(text []byte) (map[string]float64, error) {
	counts := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, ok := strings.CutPrefix(lines.Text(), requestMetric)
		if !ok {
			continue
		}
		labels, value, ok := strings.Cut(series, "} ")
		if !ok {
			return nil, fmt.Errorf("metric %.64q: no labels", lines.Text())
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %.64q: %w", lines.Text(), err)
		}
		verb := label(labels, "verb")
		switch verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
		default:
			continue
		}
		resource := label(labels, "resource")
		if sub := label(labels, "subresource"); sub != "" {
			resource += "/" + sub
		}
		name := verb + " " + resource
		if code := label(labels, "code"); !strings.HasPrefix(code, "2") {
			name += " " + code
		}
		counts[name] += count
	}
	return counts, lines.Err()
}

// label returns the value of one label of a series; none of those that are asked for holds a quote.
func label(labels, name string) string {
	_, rest, ok := strings.Cut(","+labels, ","+name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// since returns by how much counts have grown.
func since(before, after map[string]float64) map[string]int {
	grown := map[string]int{}
	for name, n := range after {
		if n > before[name] {
			grown[name] = int(n - before[name])
		}
	}
	return grown
}
