package podgroup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

func pod(name string, change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 3,
	}}
	if change != nil {
		change(p)
	}
	return p
}

func park(name string) ParkedPod {
	return ParkedPod{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}
}

func (b *bench) conditions(name string) []v1.PodCondition {
	b.t.Helper()
	p, err := b.pods.CoreV1().Pods(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return p.Status.Conditions
}

// podWrites returns the patches of pods so far, and forgets them.
func (b *bench) podWrites() []string {
	var names []string
	for _, action := range b.pods.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			names = append(names, patch.GetName()+"/"+patch.GetSubresource())
		}
	}
	b.pods.ClearActions()
	return names
}

func unschedulable(message string, since time.Time) []v1.PodCondition {
	return []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: message,
		ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(since),
	}}
}

func TestParkedPodsShowTheReasonOnce(t *testing.T) {
	b := newBench(t, pod("a-0", nil))
	b.create("a", "u1")
	for range 50 {
		b.Set(waiting("a", "u1", "1 of 8 pods exist", park("a-0")))
		b.pass(batchPeriod)
	}
	if got := b.podWrites(); len(got) != 1 || got[0] != "a-0/status" {
		t.Errorf("writes %q, want one to the status", got)
	}
	since := start.Add(parkDelay)
	if diff := cmp.Diff(unschedulable("1 of 8 pods exist", since), localized(b.conditions("a-0"))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}

	// Another reason is no transition.
	b.Set(waiting("a", "u1", "no room", park("a-0")))
	b.pass(5 * time.Second)
	if diff := cmp.Diff(unschedulable("no room", since), localized(b.conditions("a-0"))); diff != "" {
		t.Errorf("conditions after another reason (-want +got):\n%s", diff)
	}
	b.podWrites()

	// A pod that left the park and came back may show anything.
	b.Set(waiting("a", "u1", "no room"))
	b.Set(waiting("a", "u1", "no room", park("a-0")))
	b.pods.ClearActions()
	b.pass(5 * time.Second)
	if len(b.pods.Actions()) == 0 {
		t.Error("a pod that was parked again was not looked at")
	}
	if got := b.podWrites(); len(got) != 0 {
		t.Errorf("writes %q, but the pod shows the reason", got)
	}
	if len(b.dirty) != 0 {
		t.Errorf("%d entries are still dirty", len(b.dirty))
	}
}

func localized(conditions []v1.PodCondition) []v1.PodCondition {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(conditions[i].LastTransitionTime.UTC())
	}
	return conditions
}

func TestReasonThatDoesNotStandIsNotWrittenToPods(t *testing.T) {
	// A pod arrives every 200 ms, and the sentence changes with each.
	b := newBench(t, pod("a-0", nil))
	b.create("a", "u1")
	arrive := func(i int) { b.Set(waiting("a", "u1", fmt.Sprintf("%d of 99 pods exist", i), park("a-0"))) }
	i := 0
	for ; i < int(parkLimit/batchPeriod); i++ {
		arrive(i)
		b.pass(batchPeriod)
	}
	if got := b.podWrites(); len(got) != 0 {
		t.Errorf("%d writes within the first %s", len(got), parkLimit)
	}
	arrive(i)
	b.pass(batchPeriod)
	if got := b.podWrites(); len(got) != 1 {
		t.Errorf("writes %q after %s, want one", got, parkLimit)
	}
}

func TestPodsThatDoNotWaitAreLeftAlone(t *testing.T) {
	bound := []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
	gated := []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonSchedulingGated}}
	now := metav1.NewTime(start)
	tests := map[string]struct {
		object *v1.Pod
		want   []v1.PodCondition
	}{
		"bound": {pod("a-0", func(p *v1.Pod) { p.Spec.NodeName, p.Status.Conditions = "n1", bound }), bound},
		"gated": {pod("a-0", func(p *v1.Pod) {
			p.Spec.SchedulingGates, p.Status.Conditions = []v1.PodSchedulingGate{{Name: "quota"}}, gated
		}), gated},
		"terminating": {pod("a-0", func(p *v1.Pod) { p.DeletionTimestamp = &now }), nil},
		"failed":      {pod("a-0", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }), nil},
		"succeeded":   {pod("a-0", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), nil},
		"another pod": {pod("a-0", func(p *v1.Pod) { p.UID = "later" }), nil},
		"gone":        {pod("b-0", nil), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, test.object)
			b.create("a", "u1")
			b.Set(waiting("a", "u1", "no room", park("a-0")))
			b.pass(time.Minute)
			reads := len(b.pods.Actions())
			if got := b.podWrites(); len(got) != 0 || reads != 1 {
				t.Errorf("writes %q after %d reads, want none after 1", got, reads)
			}
			if diff := cmp.Diff(test.want, b.conditions(test.object.Name)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// The pod is bound between the read and the write: the write is for another version, so it is refused.
func TestPodBoundMeanwhileIsLeftAlone(t *testing.T) {
	b := newBench(t, pod("a-0", nil))
	b.create("a", "u1")
	patches := 0
	b.pods.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patches++
		patch := string(action.(clienttesting.PatchAction).GetPatch()) //nolint:errcheck // the verb decides
		if want := `{"metadata":{"uid":"uid-a-0","resourceVersion":"7"},`; len(patch) < len(want) || patch[:len(want)] != want {
			t.Errorf("patch %s does not begin with %s", patch, want)
		}
		bound := pod("a-0", func(p *v1.Pod) { p.Spec.NodeName = "n1" })
		if err := b.pods.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), bound, namespace); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(v1.Resource("pods"), "a-0", errors.New("changed"))
	})
	b.Set(waiting("a", "u1", "no room", park("a-0")))
	b.pass(time.Minute)
	if patches != 1 || len(b.conditions("a-0")) != 0 {
		t.Errorf("%d patches, conditions %v, want one patch that was refused", patches, b.conditions("a-0"))
	}
}

func TestFailedWritesToPodsAreTriedAgain(t *testing.T) {
	b := newBench(t, pod("a-0", nil), pod("a-1", nil))
	b.create("a", "u1")
	faults := []error{unavailable, apierrors.NewTooManyRequests("slow down", 2)}
	b.pods.PrependReactor("get", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if name := action.(clienttesting.GetAction).GetName(); name != "a-1" || len(faults) == 0 { //nolint:errcheck // the verb decides
			return false, nil, nil
		}
		err := faults[0]
		faults = faults[1:]
		return true, nil, err
	})
	b.Set(waiting("a", "u1", "no room", park("a-0"), park("a-1")))
	b.pass(10 * time.Second)
	if got := b.podWrites(); len(got) != 2 {
		t.Errorf("writes %q, want one for each pod", got)
	}
	for _, name := range []string{"a-0", "a-1"} {
		if got := b.conditions(name); len(got) != 1 || got[0].Message != "no room" {
			t.Errorf("pod %s: conditions %v", name, got)
		}
	}
}

// A large gang that is parked must not take the API from others, and two of them share what there is.
func TestABatchHasFewParkedPods(t *testing.T) {
	const size = 100
	var objects []runtime.Object
	gangs := map[string][]ParkedPod{}
	for _, group := range []string{"a", "b"} {
		for i := range size {
			name := fmt.Sprintf("%s-%d", group, i)
			objects = append(objects, pod(name, nil))
			gangs[group] = append(gangs[group], park(name))
		}
	}
	b := newBench(t, objects...)
	for group, parked := range gangs {
		b.create(group, group)
		b.Set(waiting(group, group, "no room", parked...))
	}
	b.pass(parkDelay - batchPeriod)
	total := 0
	for range 2*size/batchPods + 1 {
		b.pass(batchPeriod)
		n := len(b.podWrites())
		if n > batchPods {
			t.Errorf("%d writes in one batch, want at most %d", n, batchPods)
		}
		total += n
	}
	if total != 2*size {
		t.Errorf("%d pods were written, want %d", total, 2*size)
	}
}
