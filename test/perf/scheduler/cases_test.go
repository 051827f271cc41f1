package scheduler

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// testCase is the part of scheduler_perf's case that has to do with names and sizes.
type testCase struct {
	Name                string
	SchedulerConfigPath string
	WorkloadTemplate    []map[string]any
	Workloads           []size
}

type size struct {
	Name   string
	Labels []string
	Params map[string]any
}

func readCases(t *testing.T) []testCase {
	t.Helper()
	var all []testCase
	for _, name := range []string{gpuCases, spreadCases} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var some []testCase
		if err := yaml.Unmarshal(text, &some); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, some...)
	}
	return all
}

// TestEveryCaseHasItsTwin holds that whatever runs with our plugins runs without them too, in the same sizes, and that nothing
// that is called in-tree has our plugins.
func TestEveryCaseHasItsTwin(t *testing.T) {
	sizes := map[string][]size{}
	for _, c := range readCases(t) {
		sizes[c.Name] = c.Workloads
	}
	const shipped, stock, tuned = "../../../manifests/base/scheduler-config.yaml", "config/in-tree.yaml", "config/tuned-spread.yaml"
	for _, c := range readCases(t) {
		workload, variant, ok := strings.Cut(c.Name, "_")
		if !ok {
			t.Errorf("%s: must be named WORKLOAD_VARIANT", c.Name)
			continue
		}
		want := map[string]string{"Ours": shipped, "Singles": shipped, "Native": shipped, "Gangs": shipped, "Tuned": tuned, "InTree": stock, "NoGangs": stock}[variant]
		if c.SchedulerConfigPath != want {
			t.Errorf("%s: schedulerConfigPath %q, want %q", c.Name, c.SchedulerConfigPath, want)
		}
		for _, twin := range []string{workload + "_Ours", workload + "_InTree"} {
			if diff := cmp.Diff(c.Workloads, sizes[twin]); diff != "" {
				t.Errorf("%s and %s differ in size: %s", c.Name, twin, diff)
			}
		}
	}
}

// TestSizes holds that every workload has a size for each of the two targets of make, and that names tell the truth about nodes.
func TestSizes(t *testing.T) {
	nodes := regexp.MustCompile(`^(\d+)Nodes_`)
	for _, c := range readCases(t) {
		var labels []string
		for _, s := range c.Workloads {
			if len(s.Labels) != 1 {
				t.Errorf("%s/%s: labels %v, want one", c.Name, s.Name, s.Labels)
			}
			labels = append(labels, s.Labels...)
			sum := 0
			for _, p := range []string{"nodes", "gpuNodes", "reserved"} {
				if n, ok := s.Params[p].(float64); ok {
					sum += int(n)
				}
			}
			if m := nodes.FindStringSubmatch(s.Name); m == nil || m[1] != strconv.Itoa(sum) {
				t.Errorf("%s/%s has %d nodes", c.Name, s.Name, sum)
			}
		}
		for _, want := range []string{"short", "performance"} {
			if !slices.Contains(labels, want) {
				t.Errorf("%s: no size with label %s", c.Name, want)
			}
		}
	}
}

// TestMeasuredOnce holds that the metrics of a workload are those of one op, in the namespace that is measured.
func TestMeasuredOnce(t *testing.T) {
	for _, c := range readCases(t) {
		n := 0
		for i, op := range c.WorkloadTemplate {
			if op["collectMetrics"] == nil {
				continue
			}
			n++
			if op["namespace"] != "measured" || i != len(c.WorkloadTemplate)-1 {
				t.Errorf("%s: op %d collects metrics; it must be the last, in namespace measured", c.Name, i)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d ops collect metrics, want 1", c.Name, n)
		}
	}
}
