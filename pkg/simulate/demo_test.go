package simulate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestJudgePending(t *testing.T) {
	n := node(t, &HGXH100, 0)
	c, err := oracle.New(map[string]*topology.Node{n.Object.Name: n.Topology})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Place("before", wholeRecord(n, 0, 1, 2)); err != nil {
		t.Fatal(err)
	}
	names := []string{n.Object.Name}
	tests := map[string]struct {
		pod    Pod
		reason string
		want   string
	}{
		"whole cards":         {wholePod("p", 8), "0/1 nodes are available: 1 node(s) had 5 of 8 whole GPUs free.", ""},
		"share":               {sharePod("p", 60, 6), "node(s) had room for 60.0 GiB on 5 of 6 GPUs", ""},
		"gap is not named":    {wholePod("p", 8), "Insufficient nvidia.com/gpu", `does not say "5 of 8 whole GPUs free"`},
		"gap is a wrong one":  {wholePod("p", 8), "node(s) had 4 of 8 whole GPUs free", "5 of 8"},
		"no room at all":      {sharePod("p", 81, 2), "node(s) had room for 81.0 GiB on 0 of 2 GPUs", ""},
		"it fits":             {wholePod("p", 5), "node(s) had 5 of 5 whole GPUs free", "it fits on h100-0"},
		"instances elsewhere": {migPod("p", "1g.10gb"), "node(s) had 0 of 1 MIG instance 1g.10gb free", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := judgePending(&tc.pod, c, names, tc.reason)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected fault: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("fault = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	const reason = "0/4 nodes are available: 1 node(s) had 0 of 8 whole GPUs free, 2 node(s) had 5 of 8 whole GPUs free, 1 Insufficient cpu."
	for gap, want := range map[string]string{
		"5 of 8 whole GPUs free": "had 5 of 8 whole GPUs free",
		"0 of 8 whole GPUs free": "had 0 of 8 whole GPUs free",
		"7 of 8 whole GPUs free": reason,
	} {
		if got := nearest(reason, gap); got != want {
			t.Errorf("nearest(%q) = %q, want %q", gap, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	failure, crash := errors.New("request failed"), errors.New("kwok ended")
	live := t.Context()
	cancelled, cancel := context.WithCancel(live)
	cancel()
	late, stop := context.WithTimeout(live, 0)
	defer stop()
	broken, fail := context.WithCancelCause(live)
	fail(crash)
	tests := map[string]struct {
		caller, running context.Context
		want            error
	}{
		"nothing ended":      {live, live, failure},
		"a process ended":    {live, broken, crash},
		"interrupted":        {cancelled, cancelled, ErrInterrupted},
		"interrupted in all": {cancelled, broken, ErrInterrupted},
		"out of time":        {late, late, failure},
	}
	for name, tc := range tests {
		if got := explain(tc.caller, tc.running, failure); !errors.Is(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestUnschedulable(t *testing.T) {
	tests := map[string]struct {
		condition v1.PodCondition
		want      string
	}{
		"reason":         {v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "0/1 nodes: full. preemption: none"}, "0/1 nodes: full."},
		"no preemption":  {v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "full"}, "full"},
		"an error":       {v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonSchedulerError, Message: "not synced"}, ""},
		"scheduled":      {v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}, ""},
		"another of its": {v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "x"}, ""},
	}
	for name, tc := range tests {
		pod := &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{tc.condition}}}
		if got := unschedulable(pod); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestRecordOf(t *testing.T) {
	n := node(t, &HGXH100, 0)
	value, err := wholeRecord(n, 3).Format()
	if err != nil {
		t.Fatal(err)
	}
	bound := func(node, annotation string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{v1alpha1.AllocationAnnotation: annotation}},
			Spec:       v1.PodSpec{NodeName: node},
		}
	}
	got, err := recordOf(bound("h100-0", value))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wholeRecord(n, 3), got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	for want, pod := range map[string]*v1.Pod{
		"its record says h100-0": bound("h100-1", value),
		"pod p:":                 bound("h100-0", "{"),
		"without annotation":     {ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{NodeName: "h100-0"}},
	} {
		if _, err := recordOf(pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\nb\nc\n", 2); got != "b\nc" {
		t.Errorf("lastLines = %q", got)
	}
	if got := lastLines("a", 2); got != "a" {
		t.Errorf("lastLines = %q", got)
	}
}

func TestThroughputTable(t *testing.T) {
	rounds := []Round{{true, 2, 500, 4.4, 10}, {false, 2.5, 400, 4, 11}, {false, 2.5, 400, 4, 9}, {true, 2.5, 400, 3.6, 10}}
	checkGolden(t, "throughput.golden", throughputTable(rounds))
}

func TestMedian(t *testing.T) {
	rounds := []Round{{Plugins: true, PodsPerSecond: 9}, {PodsPerSecond: 100}, {Plugins: true, PodsPerSecond: 1}, {Plugins: true, PodsPerSecond: 3}}
	if got := median(rounds, true, rate); got != 3 {
		t.Errorf("median of three = %v, want 3", got)
	}
	if got := median(rounds[1:3], true, rate); got != 1 {
		t.Errorf("median of one = %v, want 1", got)
	}
	if got := median([]Round{{Plugins: true, PodsPerSecond: 1}, {Plugins: true, PodsPerSecond: 4}}, true, rate); got != 2.5 {
		t.Errorf("median of two = %v, want 2.5", got)
	}
	if got := median(nil, true, rate); got != 0 {
		t.Errorf("median of none = %v, want 0", got)
	}
}
