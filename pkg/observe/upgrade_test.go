package observe

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// rewritten changes the text of a pod's record.
func rewritten(pod *v1.Pod, old, is string) *v1.Pod {
	return with(pod, func(p *v1.Pod) {
		p.Annotations[v1alpha1.AllocationAnnotation] = strings.Replace(p.Annotations[v1alpha1.AllocationAnnotation], old, is, 1)
	})
}

// TestRecordsOfOtherReleases: a scheduler starts among pods that another release has bound.
func TestRecordsOfOtherReleases(t *testing.T) {
	pod := boundPod(t, "u", "n1", 2, 5)
	const unreadable = "pod-u " + reasonUnreadable
	tests := map[string]struct {
		pod         *v1.Pod
		wantCards   []int
		wantUnknown int
		// wantFree are the cards of n1 that new pods can have.
		wantFree  int
		wantNotes []string
	}{
		"newer":                 {rewritten(pod, `"v":1`, `"v":2`), nil, 2, 6, []string{unreadable}},
		"older":                 {rewritten(pod, `"v":1`, `"v":0`), nil, 2, 6, []string{unreadable}},
		"unknown fields":        {rewritten(pod, `"v":1`, `"v":1,"later":[{}]`), []int{2, 5}, 0, 6, nil},
		"names another node":    {rewritten(pod, `"node":"n1"`, `"node":"n2"`), nil, 2, 6, []string{unreadable}},
		"cards of another node": {rewritten(rewritten(pod, "GPU-n1-2", "GPU-n2-2"), "GPU-n1-5", "GPU-n2-5"), []int{2, 5}, 0, 6, []string{"n1 " + reasonQuarantine}},
		"a card that does not exist, without UUID": {
			rewritten(rewritten(pod, `"index":2,"uuid":"GPU-n1-2"`, `"index":40`), `"index":5,"uuid":"GPU-n1-5"`, `"index":41`), []int{40, 41}, 0, 0, []string{"n1 " + reasonQuarantine}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			w.putNode(t, kit.Node("n2", kit.N8s("n2")))
			if tt.pod.Annotations[v1alpha1.AllocationAnnotation] == pod.Annotations[v1alpha1.AllocationAnnotation] {
				t.Fatal("the record is as this release writes it")
			}
			w.putPod(t, tt.pod)
			w.wantHolding(t, "u", "n1", tt.wantUnknown, tt.wantCards...)
			w.wantFree(t, "n1", tt.wantFree)
			w.wantFree(t, "n2", 8)
			w.wantNotes(t, tt.wantNotes...)
			w.putPod(t, with(tt.pod, phase(v1.PodRunning)))
			w.wantNotes(t)
			w.removePod(t, tt.pod)
			w.wantHolding(t, "u", "", 0)
			w.wantFree(t, "n1", 8)
		})
	}
}

// TestRecordBecomesReadable: a newer release wrote the record; then this one can read it, since somebody translated it. A
// change the other way is not followed: the cards are known.
func TestRecordBecomesReadable(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	pod := boundPod(t, "u", "n1", 2, 5)
	newer := rewritten(pod, `"v":1`, `"v":2`)
	w.putPod(t, newer)
	w.wantHolding(t, "u", "n1", 2)
	w.wantNotes(t, "pod-u "+reasonUnreadable)
	w.putPod(t, pod)
	w.wantHolding(t, "u", "n1", 0, 2, 5)
	w.wantNotes(t)
	w.putPod(t, newer)
	w.wantHolding(t, "u", "n1", 0, 2, 5)
	w.wantNotes(t, "pod-u "+reasonEdited)
}
