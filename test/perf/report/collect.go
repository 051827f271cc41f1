package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// item is one metric of one workload in scheduler_perf's file.
type item struct {
	Data   map[string]float64 `json:"data"`
	Unit   string             `json:"unit"`
	Labels map[string]string  `json:"labels"`
}

func readItems(name string) ([]item, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file struct {
		Version   string `json:"version"`
		DataItems []item `json:"dataItems"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if file.Version != "v1" {
		return nil, fmt.Errorf("%s: version %.64q, want v1", name, file.Version)
	}
	return file.DataItems, nil
}

// wanted is where a figure stands in scheduler_perf's files.
type wanted struct {
	figure         results.Figure
	metric, result string
	bucket         string
}

var figures = []wanted{
	{figure: results.PodsPerSecond, metric: "SchedulingThroughput", bucket: "Average"},
	{figure: results.Seconds, metric: "SchedulingDuration", bucket: "Duration"},
	{figure: results.AttemptP50, metric: "scheduler_scheduling_attempt_duration_seconds", result: "scheduled", bucket: "Perc50"},
	{figure: results.AttemptP99, metric: "scheduler_scheduling_attempt_duration_seconds", result: "scheduled", bucket: "Perc99"},
	{figure: results.AlgorithmP99, metric: "scheduler_scheduling_algorithm_duration_seconds", bucket: "Perc99"},
	{figure: results.SLIP99, metric: "scheduler_pod_scheduling_sli_duration_seconds", bucket: "Perc99"},
}

// read returns the figure that an item is; false where it is none.
func (w *wanted) read(i *item) (float64, bool) {
	if i.Labels["Metric"] != w.metric || w.result != "" && i.Labels["result"] != w.result {
		return 0, false
	}
	value, ok := i.Data[w.bucket]
	return value, ok
}

var errNoItems = errors.New("no metrics of scheduler_perf")

// rows returns the medians over the rounds, the variants of a workload together, both in the order of their first appearance, and
// the number of rounds.
func rows(rounds [][]item) ([]results.Row, int, error) {
	var order []string
	values := map[string]map[results.Figure][]float64{}
	for _, items := range rounds {
		for i := range items {
			name := items[i].Labels["Name"]
			if values[name] == nil {
				values[name] = map[results.Figure][]float64{}
				order = append(order, name)
			}
			for w := range figures {
				if v, ok := figures[w].read(&items[i]); ok {
					values[name][figures[w].figure] = append(values[name][figures[w].figure], v)
				}
			}
		}
	}
	if len(order) == 0 {
		return nil, 0, errNoItems
	}
	most := 0
	var all []results.Row
	for _, name := range order {
		row, err := rowOf(name)
		if err != nil {
			return nil, 0, err
		}
		for f, v := range values[name] {
			most = max(most, len(v))
			row.Figures[f] = results.Median(v)
		}
		all = append(all, row)
	}
	return grouped(all), most, nil
}

// grouped brings the rows of a workload together.
func grouped(all []results.Row) []results.Row {
	first := map[string]int{}
	for i := range all {
		if _, ok := first[all[i].Workload]; !ok {
			first[all[i].Workload] = i
		}
	}
	slices.SortStableFunc(all, func(a, b results.Row) int { return cmp.Compare(first[a.Workload], first[b.Workload]) })
	return all
}

// rowOf reads the name of an item: BENCHMARK/WORKLOAD_VARIANT/SIZE/NAMESPACE.
func rowOf(name string) (results.Row, error) {
	parts := strings.Split(name, "/")
	if len(parts) < 3 {
		return results.Row{}, fmt.Errorf("item %.64q: must be named BENCHMARK/CASE/SIZE/NAMESPACE", name)
	}
	workload, variant, ok := strings.Cut(parts[1], "_")
	if !ok {
		return results.Row{}, fmt.Errorf("item %.64q: its case must be named WORKLOAD_VARIANT", name)
	}
	return results.Row{Workload: workload + " " + parts[2], Variant: variant, Figures: map[results.Figure]float64{}}, nil
}
