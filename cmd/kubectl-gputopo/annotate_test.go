package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestAnnotateSendsOneMergePatch(t *testing.T) {
	kubeconfig, requests := server(t, map[string]any{"/api/v1/nodes/n1": v1.Node{}})
	got := run(t, "", "topology", "annotate", "n1", "--matrix", data("topo.txt"), "--query", data("gpus.csv"), "--kubeconfig", kubeconfig, "--context", "there")
	checkFailure(t, got.failure, "")
	if want := "node/n1 annotated: 4 GPUs from " + data("topo.txt") + "\n"; got.out != want {
		t.Errorf("output = %q, want %q", got.out, want)
	}
	if len(requests.list) != 1 {
		t.Fatalf("%d requests, want 1: %v", len(requests.list), requests.list)
	}
	sent := requests.list[0]
	if sent.method != "PATCH" || sent.path != "/api/v1/nodes/n1?fieldManager=kubectl-gputopo" || sent.contentType != "application/merge-patch+json" {
		t.Errorf("request = %s %s %s", sent.method, sent.path, sent.contentType)
	}
	var patch map[string]any
	if err := json.Unmarshal([]byte(sent.body), &patch); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"gputopology.io/topology": strings.TrimSpace(readData(t, "parse.json.golden")),
	}}}
	if diff := cmp.Diff(want, patch); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func TestAnnotateFromFileKeepsTheDescription(t *testing.T) {
	kubeconfig, requests := server(t, map[string]any{"/api/v1/nodes/n1": v1.Node{}})
	golden := readData(t, "parse.json.golden")
	got := run(t, golden, "topology", "annotate", "n1", "-f", "-", "--kubeconfig", kubeconfig, "--context", "there")
	checkFailure(t, got.failure, "")
	quoted, err := json.Marshal(strings.TrimSpace(golden))
	if err != nil {
		t.Fatal(err)
	}
	if len(requests.list) != 1 || !strings.Contains(requests.list[0].body, string(quoted)) {
		t.Errorf("requests = %v, want one with the annotation as given", requests.list)
	}
}

func TestAnnotateErrors(t *testing.T) {
	kubeconfig, requests := server(t, nil)
	there := []string{"--kubeconfig", kubeconfig, "--context", "there"}
	tests := map[string]struct {
		stdin string
		args  []string
		want  string
		sent  int
	}{
		"no such node":       {"", append(there, "n2", "--matrix", data("topo.txt")), "not found", 1},
		"no such context":    {"", []string{"n1", "--matrix", data("topo.txt"), "--kubeconfig", kubeconfig, "--context", "moon"}, `"moon"`, 0},
		"no node":            {"", append(there, "--matrix", data("topo.txt")), "accepts 1 arg(s)", 0},
		"no description":     {"", append(there, "n1"), "--matrix", 0},
		"two descriptions":   {"", append(there, "n1", "--matrix", "-", "-f", "-"), "give one", 0},
		"file and product":   {"", append(there, "n1", "-f", "-", "--product", "L4"), "go with --matrix", 0},
		"broken description": {`{"v":1,"cards":[{}],"links":["X X"]}`, append(there, "n1", "-f", "-"), `standard input: links[0]: "X X"`, 0},
		"another version":    {`{"v":2}`, append(there, "n1", "-f", "-"), "version 2", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			requests.list = nil
			got := run(t, tc.stdin, append([]string{"topology", "annotate"}, tc.args...)...)
			checkFailure(t, got.failure, tc.want)
			if len(requests.list) != tc.sent {
				t.Errorf("%d requests, want %d: %v", len(requests.list), tc.sent, requests.list)
			}
		})
	}
}
