package podgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

func TestParseWish(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        Wish
		wantInvalid []string // what the sentence names; none for a valid group
	}{
		"nothing": {nil, Wish{}, nil},
		"everything": {map[string]string{
			"gputopology.io/required-topology": "spine", "gputopology.io/preferred-topology": "network.topology.nvidia.com/leaf",
			"gputopology.io/slice-size": "8", "gputopology.io/slice-topology": "leaf", "gputopology.io/require-interconnect": "rdma",
		}, Wish{Required: "spine", Preferred: "network.topology.nvidia.com/leaf", SliceSize: 8, SliceLevel: "leaf", Interconnect: "rdma"}, nil},
		"empty level":          {map[string]string{"gputopology.io/required-topology": ""}, Wish{}, []string{"required-topology"}},
		"size without level":   {map[string]string{"gputopology.io/slice-size": "8"}, Wish{}, []string{"slice-size", `"8"`, "slice-topology"}},
		"level without size":   {map[string]string{"gputopology.io/slice-topology": "leaf"}, Wish{SliceLevel: "leaf"}, []string{"slice-topology", `"leaf"`}},
		"size of none":         {map[string]string{"gputopology.io/slice-size": "0", "gputopology.io/slice-topology": "leaf"}, Wish{SliceLevel: "leaf"}, []string{"slice-size", `"0"`}},
		"size in words":        {map[string]string{"gputopology.io/slice-size": "many", "gputopology.io/slice-topology": "leaf"}, Wish{SliceLevel: "leaf"}, []string{"slice-size", `"many"`}},
		"unknown interconnect": {map[string]string{"gputopology.io/require-interconnect": "NVLink"}, Wish{}, []string{"require-interconnect", `"NVLink"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := &schedulingv1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", Annotations: tt.annotations}}
			o.Spec.MinMember = 2
			g := Parse(o)
			if d := cmp.Diff(tt.want, g.Wish); d != "" {
				t.Errorf("wish (-want +got):\n%s", d)
			}
			if (g.Invalid != "") != (len(tt.wantInvalid) > 0) {
				t.Errorf("invalid: %q", g.Invalid)
			}
			for _, word := range tt.wantInvalid {
				if !strings.Contains(g.Invalid, word) {
					t.Errorf("%q does not name %s", g.Invalid, word)
				}
			}
		})
	}
}
