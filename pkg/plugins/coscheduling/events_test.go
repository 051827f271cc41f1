package coscheduling

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestHints asks every hint for both of its answers: of a gang that does not fit, only the first member is woken.
func TestHints(t *testing.T) {
	pods := members("a", 2, kit.GPUs(8))
	f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1"))}, pods)...)
	f.seesGroup("a", 2)
	if _, _, status := f.prefilter(t, pods[0]); status.IsSuccess() {
		t.Fatal("two members of 8 cards fit a node of 8")
	}
	f.clock.Step(time.Minute) // the gang has rested
	lead, second := pods[0], pods[1]
	single := kit.Pod("ns", "s", kit.UID("s"), kit.GPUs(1))
	ended := kit.Pod("ns", "x", kit.UID("x"), kit.GPUs(8), kit.OnNode("n1"))
	node := kit.Node("n1", kit.N8s("n1"))
	slice := func(driver string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver}}
	}
	asksAnew := lead.DeepCopy()
	asksAnew.Generation++
	moved := lead.DeepCopy()
	moved.Labels["scheduling.x-k8s.io/pod-group"] = "b"
	group := "g"
	both := lead.DeepCopy()
	both.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	native := both.DeepCopy()
	native.Labels = nil
	tests := map[string]struct {
		hint     fwk.QueueingHintFn
		waiting  *v1.Pod
		old, new any
		want     fwk.QueueingHint
	}{
		"a pod ended, for the first member":   {f.afterPodChange, lead, ended, nil, fwk.QueueSkip},
		"a pod ended, for another member":     {f.afterPodChange, second, ended, nil, fwk.QueueSkip},
		"a pod ended, for a pod of no gang":   {f.afterPodChange, single, ended, nil, fwk.Queue},
		"a node came, for the first member":   {f.afterNodeChange, lead, nil, node, fwk.QueueSkip},
		"a node came, for another member":     {f.afterNodeChange, second, nil, node, fwk.QueueSkip},
		"the GPU driver published":            {f.afterSliceChange, lead, nil, slice("gpu.nvidia.com"), fwk.QueueSkip},
		"another driver published":            {f.afterSliceChange, lead, nil, slice("nic.example.com"), fwk.QueueSkip},
		"it asks for something else":          {f.afterOwnChange, lead, lead, asksAnew, fwk.Queue},
		"it names another gang":               {f.afterOwnChange, lead, lead, moved, fwk.Queue},
		"only its status changed":             {f.afterOwnChange, lead, lead, lead.DeepCopy(), fwk.QueueSkip},
		"it names one group instead of two":   {f.afterOwnChange, native, both, native, fwk.Queue},
		"a pod ended, for one of two groups":  {f.afterPodChange, both, ended, nil, fwk.QueueSkip},
		"another pod asks for something else": {f.afterOwnChange, second, lead, asksAnew, fwk.QueueSkip},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.hint(klog.Background(), tt.waiting, tt.old, tt.new)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("hint is %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("while the gang rests nobody is woken, and the event is remembered", func(t *testing.T) {
		if _, _, status := f.prefilter(t, lead); status.IsSuccess() {
			t.Fatal("it fits")
		}
		if got, err := f.afterPodChange(klog.Background(), lead, ended, nil); err != nil || got != fwk.QueueSkip {
			t.Errorf("hint is %v, %v, want QueueSkip", got, err)
		}
	})
}

// TestEveryEventHasAHint: an event without one would wake every waiting pod.
func TestEveryEventHasAHint(t *testing.T) {
	f := newFixture(t)
	events, err := f.EventsToRegister(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.QueueingHintFn == nil {
			t.Errorf("event %s has no hint", e.Event.Label())
		}
	}
}
