package podgroup

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

func groupWith(change func(*schedulingv1alpha1.PodGroup)) *schedulingv1alpha1.PodGroup {
	o := &schedulingv1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "train", Name: "llama", UID: "u1", CreationTimestamp: metav1.NewTime(start), Annotations: map[string]string{},
		},
		Spec: schedulingv1alpha1.PodGroupSpec{MinMember: 4},
	}
	change(o)
	return o
}

func minMember(n int32) func(*schedulingv1alpha1.PodGroup) {
	return func(o *schedulingv1alpha1.PodGroup) { o.Spec.MinMember = n }
}

func timeout(seconds int32) func(*schedulingv1alpha1.PodGroup) {
	return func(o *schedulingv1alpha1.PodGroup) { o.Spec.ScheduleTimeoutSeconds = &seconds }
}

func onLoss(value string) func(*schedulingv1alpha1.PodGroup) {
	return func(o *schedulingv1alpha1.PodGroup) { o.Annotations[v1alpha1.OnMemberLossAnnotation] = value }
}

func minResources(list map[v1.ResourceName]string) func(*schedulingv1alpha1.PodGroup) {
	return func(o *schedulingv1alpha1.PodGroup) {
		o.Spec.MinResources = v1.ResourceList{}
		for name, value := range list {
			o.Spec.MinResources[name] = resource.MustParse(value)
		}
	}
}

func recorded(phase schedulingv1alpha1.PodGroupPhase, succeeded int32) func(*schedulingv1alpha1.PodGroup) {
	return func(o *schedulingv1alpha1.PodGroup) { o.Status.Phase, o.Status.Succeeded = phase, succeeded }
}

func TestParse(t *testing.T) {
	spec := gang.Spec{MinMember: 4}
	tests := map[string]struct {
		change func(*schedulingv1alpha1.PodGroup)
		want   Group
	}{
		"plain":       {minMember(4), Group{Spec: spec}},
		"absent or 0": {minMember(0), Group{Singles: true}},
		"one":         {minMember(1), Group{Spec: gang.Spec{MinMember: 1}}},
		"largest":     {minMember(math.MaxInt32), Group{Spec: gang.Spec{MinMember: math.MaxInt32}}},
		"timeout":     {timeout(60), Group{Spec: gang.Spec{MinMember: 4, Timeout: time.Minute}}},
		"no timeout":  {timeout(0), Group{Spec: spec}},
		"replace":     {onLoss("Replace"), Group{Spec: spec}},
		"keep":        {onLoss("Keep"), Group{Spec: gang.Spec{MinMember: 4, OnLoss: gang.LossKeep}}},
		"evict":       {onLoss("Evict"), Group{Spec: gang.Spec{MinMember: 4, OnLoss: gang.LossEvict}}},
		"resources": {
			minResources(map[v1.ResourceName]string{"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "8", "parts": "7500m", "none": "0"}),
			Group{Spec: spec, MinResources: map[v1.ResourceName]int64{
				"cpu": 1500, "memory": 1 << 30, "nvidia.com/gpu": 8, "parts": 8, "none": 0,
			}},
		},
		"empty resources":      {minResources(nil), Group{Spec: spec}},
		"never ran":            {recorded("Scheduling", 0), Group{Spec: spec}},
		"ran":                  {recorded("Running", 1), Group{Spec: spec, RecordedSucceeded: 1, RecordedRan: true}},
		"was whole":            {recorded("Scheduled", 0), Group{Spec: spec, RecordedRan: true}},
		"finished":             {recorded("Finished", 4), Group{Spec: spec, RecordedSucceeded: 4, RecordedRan: true}},
		"failed":               {recorded("Failed", 0), Group{Spec: spec, RecordedRan: true}},
		"unknown phase, count": {recorded("Perhaps", -3), Group{Spec: spec}},
		"tried": {
			func(o *schedulingv1alpha1.PodGroup) { o.Status.ScheduleStartTime = metav1.NewTime(start) }, Group{Spec: spec, RecordedStart: &start},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.UID, test.want.Namespace, test.want.Name, test.want.Created = "u1", "train", "llama", start
			got := Parse(groupWith(test.change))
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Group{}, "Object")); diff != "" {
				t.Errorf("Parse() (-want +got):\n%s", diff)
			}
			if kind := got.Object.GetObjectKind().GroupVersionKind(); kind.Kind != "PodGroup" || kind.Version != "v1alpha1" {
				t.Errorf("the object's kind is %v", kind)
			}
		})
	}
}

func TestParseNamesWhatItCannotUnderstand(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	tests := map[string]struct {
		change func(*schedulingv1alpha1.PodGroup)
		want   string
	}{
		"minMember":  {minMember(-1), `spec.minMember: "-1": must be 0 or more`},
		"least":      {minMember(math.MinInt32), `spec.minMember: "-2147483648": must be 0 or more`},
		"timeout":    {timeout(-1), `spec.scheduleTimeoutSeconds: "-1": must be 0 or more`},
		"empty":      {onLoss(""), `metadata.annotations[gputopology.io/on-member-loss]: "": must be Keep, Replace or Evict`},
		"other case": {onLoss("evict"), `metadata.annotations[gputopology.io/on-member-loss]: "evict": must be Keep, Replace or Evict`},
		"blank":      {onLoss("Evict "), `metadata.annotations[gputopology.io/on-member-loss]: "Evict ": must be Keep, Replace or Evict`},
		"control":    {onLoss("Keep\n\x00"), `metadata.annotations[gputopology.io/on-member-loss]: "Keep\n\x00": must be Keep, Replace or Evict`},
		"long":       {onLoss(long), fmt.Sprintf("metadata.annotations[gputopology.io/on-member-loss]: %q: must be Keep, Replace or Evict", strings.Repeat("ü", 64))},
		"negative":   {minResources(map[v1.ResourceName]string{"cpu": "-1m"}), `spec.minResources["cpu"]: "-1m": must not be negative`},
		"too much cpu": {
			minResources(map[v1.ResourceName]string{"cpu": "10P"}), `spec.minResources["cpu"]: "10P": does not fit into 64 bits`,
		},
		"too much memory": {
			minResources(map[v1.ResourceName]string{"memory": "1e30"}), `spec.minResources["memory"]: "1e30": does not fit into 64 bits`,
		},
		"no name": {minResources(map[v1.ResourceName]string{"": "1"}), `spec.minResources[""]: "1": a resource needs a name`},
		"several": {func(o *schedulingv1alpha1.PodGroup) {
			minMember(-7)(o)
			timeout(-2)(o)
			minResources(map[v1.ResourceName]string{"b": "-1", "a": "-2", "c": "3"})(o)
			onLoss("Ignore")(o)
		}, `spec.minMember: "-7": must be 0 or more; spec.scheduleTimeoutSeconds: "-2": must be 0 or more; ` +
			`spec.minResources["a"]: "-2": must not be negative; spec.minResources["b"]: "-1": must not be negative; ` +
			`metadata.annotations[gputopology.io/on-member-loss]: "Ignore": must be Keep, Replace or Evict`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Parse(groupWith(test.change))
			if want := "PodGroup train/llama is not valid: " + test.want; got.Invalid != want {
				t.Errorf("Invalid is\n%s\nwant\n%s", got.Invalid, want)
			}
			if got.Spec.OnLoss == gang.LossEvict {
				t.Error("an annotation that cannot be read evicts")
			}
		})
	}
}

func TestCaseB011LongTimeoutIsClampedAndSaidSo(t *testing.T) {
	tests := map[string]struct {
		seconds     int32
		want        time.Duration
		wantClamped string
	}{
		"longest": {900, 900 * time.Second, ""},
		"longer": {
			901, 900 * time.Second,
			"spec.scheduleTimeoutSeconds is 901, but the scheduling framework waits 900 s at most: that is the effective timeout of PodGroup train/llama",
		},
		"2000 s": {
			2000, 900 * time.Second,
			"spec.scheduleTimeoutSeconds is 2000, but the scheduling framework waits 900 s at most: that is the effective timeout of PodGroup train/llama",
		},
		"largest": {
			math.MaxInt32, 900 * time.Second,
			"spec.scheduleTimeoutSeconds is 2147483647, but the scheduling framework waits 900 s at most: that is the effective timeout of PodGroup train/llama",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Parse(groupWith(timeout(test.seconds)))
			if got.Spec.Timeout != test.want || got.Clamped != test.wantClamped || got.Invalid != "" {
				t.Errorf("timeout %s, clamped %q, invalid %q", got.Spec.Timeout, got.Clamped, got.Invalid)
			}
		})
	}
}

// An old definition without a minimum lets these through.
func TestCaseB035MinMemberOfEveryKind(t *testing.T) {
	tests := map[string]struct {
		spec        string
		wantSingles bool
		wantMin     int
		wantInvalid bool
	}{
		"no spec":  {`{}`, true, 0, false},
		"absent":   {`{"spec":{}}`, true, 0, false},
		"null":     {`{"spec":{"minMember":null}}`, true, 0, false},
		"0":        {`{"spec":{"minMember":0}}`, true, 0, false},
		"negative": {`{"spec":{"minMember":-1}}`, false, 0, true},
		"1":        {`{"spec":{"minMember":1}}`, false, 1, false},
		"huge":     {`{"spec":{"minMember":2147483647}}`, false, math.MaxInt32, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := &schedulingv1alpha1.PodGroup{}
			if err := json.Unmarshal([]byte(test.spec), o); err != nil {
				t.Fatal(err)
			}
			got := Parse(o)
			if got.Singles != test.wantSingles || got.Spec.MinMember != test.wantMin || (got.Invalid != "") != test.wantInvalid {
				t.Errorf("Parse() = singles %t, minMember %d, invalid %q", got.Singles, got.Spec.MinMember, got.Invalid)
			}
		})
	}
}
