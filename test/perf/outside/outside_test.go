package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 150 250 0 0 20"
	tests := map[string]struct {
		text string
		want float64 // < 0 is an error
	}{
		"plain":                 {"42 (scheduler)" + rest, 4},
		"a name with all in it": {"42 (a) S (b) 1 2)" + rest, 4},
		"cut short":             {"42 (scheduler) S 1 2 3 4 5 6 7 8 9 10 150", -1},
		"no name":               {"42 scheduler" + rest, -1},
		"no number":             {"42 (scheduler) S 1 2 3 4 5 6 7 8 9 10 x 250", -1},
		"a negative number":     {"42 (scheduler) S 1 2 3 4 5 6 7 8 9 10 -1 250", -1},
		"empty":                 {"", -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tc.text)
			if (err != nil) != (tc.want < 0) || err == nil && got != tc.want {
				t.Errorf("parseStat = %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

// TestSizesAreThoseOfSchedulerPerf holds that both benchmarks mean the same by a name.
func TestSizesAreThoseOfSchedulerPerf(t *testing.T) {
	text, err := os.ReadFile("../scheduler/performance-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name      string
		Workloads []struct {
			Name   string
			Params struct{ Nodes, Gangs, PodsPerGang, GPUs int }
		}
	}
	if err := yaml.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range cases {
		if !strings.HasPrefix(c.Name, "Gang_") {
			continue
		}
		seen++
		var got []size
		for _, w := range c.Workloads {
			got = append(got, size{w.Name, w.Params.Nodes, w.Params.Gangs, w.Params.PodsPerGang, w.Params.GPUs})
		}
		if diff := cmp.Diff(sizes, got); diff != "" {
			t.Errorf("case %s (-want +got):\n%s", c.Name, diff)
		}
	}
	if seen != 4 {
		t.Errorf("%d cases of gangs, want 4", seen)
	}
}

func TestSizesFit(t *testing.T) {
	for _, s := range sizes {
		if s.pods() > s.room() {
			t.Errorf("%s: %d pods, room for %d", s.Name, s.pods(), s.room())
		}
	}
}

func TestPod(t *testing.T) {
	s := size{Members: 8, GPUs: 4}
	tests := map[string]struct {
		members     membership
		label, name string
	}{
		"alone":    {noGang, "", ""},
		"by label": {byLabel, "gang-2", ""},
		"by field": {byField, "", "gang-2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := s.pod(17, tc.members)
			group := ""
			if g := pod.Spec.SchedulingGroup; g != nil {
				group = *g.PodGroupName
			}
			if pod.Labels[groupLabel] != tc.label || group != tc.name {
				t.Errorf("label %q, group %q, want %q, %q", pod.Labels[groupLabel], group, tc.label, tc.name)
			}
			if gpus := pod.Spec.Containers[0].Resources.Limits[gpuResource]; gpus.Value() != 4 {
				t.Errorf("%s GPUs, want 4", gpus.String())
			}
		})
	}
}

func TestOrder(t *testing.T) {
	chosen, err := variantsByName("crd,default,no-decision")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range order(chosen, 3) {
		got = append(got, v.name)
	}
	want := strings.Fields("no-decision default crd  crd default no-decision  no-decision default crd")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args string
		want string // "" is no error
	}{
		"defaults":                          {"", ""},
		"all":                               {"--size 5000Nodes_3Gangs --variants crd,default --rounds 5 --mode arrival --min-rate 1.5 --max-cpu 0.5 --min-of-flat 0.95", ""},
		"profiles":                          {"--profiles dir", ""},
		"profiles of what is idle at first": {"--profiles dir --mode arrival", `--profiles "dir"`},
		"an unknown size":                   {"--size large", `--size "large"`},
		"an unknown variant":                {"--variants crd,kai", `--variants "kai"`},
		"an unknown mode":                   {"--mode fast", `--mode "fast"`},
		"no rounds":                         {"--rounds 0", "--rounds 0"},
		"an argument":                       {"go", `arguments ["go"]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(strings.Fields(tc.args))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("parse = %v, want nil", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("parse = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestCheckCounts(t *testing.T) {
	on := func(node string, gpus int) v1.Pod {
		pod := newPod("p", gpus)
		pod.Spec.NodeName = node
		return *pod
	}
	tests := map[string]struct {
		pods []v1.Pod
		want string // "" is no error
	}{
		"full":     {[]v1.Pod{on("n1", 4), on("n2", 8), on("n1", 4)}, ""},
		"too many": {[]v1.Pod{on("n1", 4), on("n2", 8), on("n1", 5)}, "pods on node n1 hold 9 GPUs, it has 8"},
		"unbound":  {[]v1.Pod{on("n1", 4), on("", 4)}, "pod p has no node"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkCounts(tc.pods); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("checkCounts = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBinderUsesEveryPlace(t *testing.T) {
	b := &binder{places: 2, nodes: make([]v1.Node, 3)}
	for i, name := range []string{"a", "b", "c"} {
		b.nodes[i].Name = name
	}
	var got []string
	for range 7 {
		got = append(got, b.node())
	}
	if diff := cmp.Diff(strings.Fields("a a b b c c a"), got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
