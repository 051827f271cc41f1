package main

import (
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

func TestParse(t *testing.T) {
	got := run(t, "", "topology", "parse", "--matrix", data("topo.txt"), "--query", data("gpus.csv"))
	checkFailure(t, got.failure, "")
	checkGolden(t, "parse.json.golden", got.out)
	if want := "warning: GPU3 takes no pods: memory.total reads [GPU is lost]\n"; got.err != want {
		t.Errorf("standard error = %q, want %q", got.err, want)
	}
	if _, err := v1alpha1.ParseTopology(strings.TrimSpace(got.out)); err != nil {
		t.Errorf("the output is no annotation: %v", err)
	}
}

func TestParseFormats(t *testing.T) {
	card := []string{"topology", "parse", "--matrix", "-", "--product", "NVIDIA L40S", "--vram", "46068Mi"}
	got := run(t, readData(t, "topo.txt"), append(card, "-o", "yaml")...)
	checkFailure(t, got.failure, "")
	checkGolden(t, "parse.yaml.golden", got.out)

	one := "\tGPU0\nGPU0\t X \n"
	json := `{"v":1,"cards":[{"product":"NVIDIA L40S","vramBytes":48305799168}],"links":["X"]}` + "\n"
	for format, want := range map[string]string{"json": json, "annotation": "gputopology.io/topology=" + json} {
		got := run(t, one, append(card, "-o", format)...)
		checkFailure(t, got.failure, "")
		if got.out != want {
			t.Errorf("-o %s = %q, want %q", format, got.out, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	const matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tQQ\t X \n"
	tests := map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"link: file, line and column":   {matrix, []string{"--matrix", "-"}, `standard input: line 3, column GPU0: "QQ"`},
		"memory: file, line and column": {"index, memory.total [MiB]\n0, much\n", []string{"--matrix", data("topo.txt"), "--query", "-"}, `standard input: line 2, column memory.total: "much"`},
		"query of another machine":      {"index, name\n0, L4\n", []string{"--matrix", data("topo.txt"), "--query", "-"}, data("topo.txt") + `: query.index: "1"`},
		"no such file":                  {"", []string{"--matrix", "absent.txt"}, "absent.txt"},
		"not a matrix":                  {"", []string{"--matrix", data("gpus.csv")}, data("gpus.csv") + ": line 5"},
		"no matrix":                     {"", nil, "--matrix"},
		"both from standard input":      {"", []string{"--matrix", "-", "--query", "-"}, "cannot both be standard input"},
		"vram is no number":             {"", []string{"--matrix", data("topo.txt"), "--vram", "much"}, `--vram "much"`},
		"vram is negative":              {"", []string{"--matrix", data("topo.txt"), "--vram", "-1"}, `--vram "-1": must be 1 to`},
		"vram is zero":                  {"", []string{"--matrix", data("topo.txt"), "--vram", "0"}, `--vram "0": must be 1 to`},
		"vram is absurd":                {"", []string{"--matrix", data("topo.txt"), "--vram", "1Ei"}, `--vram "1Ei": must be 1 to`},
		"vram is half a byte":           {"", []string{"--matrix", data("topo.txt"), "--vram", "500m"}, `--vram "500m": must be 1 to`},
		"format":                        {"", []string{"--matrix", data("topo.txt"), "-o", "xml"}, `--output "xml"`},
		"an argument":                   {"", []string{"topo.txt"}, "unknown command"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t, tc.stdin, append([]string{"topology", "parse"}, tc.args...)...)
			checkFailure(t, got.failure, tc.want)
			if got.out != "" {
				t.Errorf("output in spite of the error: %s", got.out)
			}
		})
	}
}
