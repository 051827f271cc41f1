package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestShowFile(t *testing.T) {
	got := run(t, "", "topology", "show", "--matrix", data("topo.txt"), "--query", data("gpus.csv"))
	checkFailure(t, got.failure, "")
	checkGolden(t, "show.golden", strings.ReplaceAll(got.out, data("topo.txt"), "topo.txt"))

	fromJSON := run(t, readData(t, "parse.json.golden"), "topology", "show", "-f", "-")
	checkFailure(t, fromJSON.failure, "")
	want := strings.Replace(readData(t, "show.golden"), "topo.txt (nvidia-smi topo -m)", "standard input", 1)
	if fromJSON.out != want {
		t.Errorf("output:\n%s\nwant:\n%s", fromJSON.out, want)
	}
}

// gpuNode is a node with two GPUs of which the kubelet says nothing but the number.
func gpuNode(annotations map[string]string) v1.Node {
	return v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: annotations},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
	}
}

func TestShowNodeNamesTheSource(t *testing.T) {
	const annotation = `{"v":1,"cards":[{"product":"NVIDIA A40"},{"product":"NVIDIA A40"}],"links":["X NV4","NV4 X"]}`
	slices := resourcev1.ResourceSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSliceList"}}
	tests := map[string]struct {
		node     v1.Node
		noSlices bool
		want     []string
		warnings []string
	}{
		"annotation":                  {node: gpuNode(map[string]string{"gputopology.io/topology": annotation}), want: []string{"2 GPUs, source: annotation", "NV4 48.0"}},
		"no DRA API":                  {node: gpuNode(map[string]string{"gputopology.io/topology": annotation}), noSlices: true, want: []string{"source: annotation"}},
		"allocatable alone":           {node: gpuNode(nil), want: []string{"2 GPUs, source: allocatable", "? 1.0"}},
		"broken annotation is passed": {node: gpuNode(map[string]string{"gputopology.io/topology": "{"}), want: []string{"source: allocatable"}, warnings: []string{"warning: annotation: ", `"{"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			answers := map[string]any{"/api/v1/nodes/n1": tc.node}
			if !tc.noSlices {
				answers["/apis/resource.k8s.io/v1/resourceslices"] = slices
			}
			kubeconfig, requests := server(t, answers)
			got := run(t, "", "topology", "show", "n1", "--kubeconfig", kubeconfig, "--context", "there")
			checkFailure(t, got.failure, "")
			for _, want := range tc.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("output lacks %q:\n%s", want, got.out)
				}
			}
			for _, want := range tc.warnings {
				if !strings.Contains(got.err, want) {
					t.Errorf("warnings lack %q:\n%s", want, got.err)
				}
			}
			if tc.warnings == nil && got.err != "" {
				t.Errorf("warnings: %s", got.err)
			}
			if last := requests.list[len(requests.list)-1]; last.path != "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn1" {
				t.Errorf("last request is for %s, want the node's slices", last.path)
			}
		})
	}
}

func TestShowErrors(t *testing.T) {
	kubeconfig, _ := server(t, map[string]any{"/api/v1/nodes/plain": v1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "plain"},
	}})
	there := []string{"--kubeconfig", kubeconfig, "--context", "there"}
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing":              {nil, "name a node, or a file"},
		"both":                 {[]string{"n1", "-f", "-"}, "not both"},
		"no such node":         {append(there, "n1"), "not found"},
		"a node without GPUs":  {append(there, "plain"), "node plain: no source describes a GPU"},
		"no such file":         {[]string{"-f", "absent.json"}, "absent.json"},
		"not the annotation":   {[]string{"-f", data("topo.txt")}, data("topo.txt") + ": gputopology.io/topology"},
		"kubeconfig is absent": {[]string{"n1", "--kubeconfig", "absent"}, "absent"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t, "", append([]string{"topology", "show"}, tc.args...)...)
			checkFailure(t, got.failure, tc.want)
		})
	}
}
