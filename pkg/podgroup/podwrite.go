package podgroup

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

// podWrite is one parked pod's part of a batch, and what came of it.
type podWrite struct {
	group  gang.GroupUID
	pod    ParkedPod
	reason string

	outcome outcome
	err     error
}

// writePod makes the pod show the reason, unless something better stands there. The pod is read first: it may be bound by
// now, and a condition that says otherwise must not follow. The write is refused if the pod changed in between.
func (w *Writer) writePod(ctx context.Context, p *podWrite) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client := w.pods.CoreV1().Pods(p.pod.Namespace)
	pod, err := client.Get(ctx, p.pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p.outcome = outcomeGone
		return
	case err != nil:
		p.err = fmt.Errorf("read pod: %w", err)
		return
	case pod.UID != p.pod.UID || !waits(pod):
		p.outcome = outcomeGone
		return
	}
	condition := v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: p.reason,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.NewTime(w.clock.Now()),
	}
	if old := scheduled(pod); old != nil && old.Status == condition.Status {
		if old.Reason == condition.Reason && old.Message == condition.Message {
			p.outcome = outcomeWritten
			return
		}
		condition.LastTransitionTime = old.LastTransitionTime
	}
	patch, err := conditionPatch(pod, condition)
	if err != nil {
		p.err = err
		return
	}
	_, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	switch {
	case err == nil:
		p.outcome = outcomeWritten
	case apierrors.IsNotFound(err):
		p.outcome = outcomeGone
	default:
		p.err = fmt.Errorf("patch status: %w", err)
	}
}

// waits reports whether the pod's place is still to be found by a scheduler. A gated pod already says why it waits.
func waits(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

func scheduled(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// conditionPatch is a strategic merge patch of one condition, for exactly this version of the pod.
func conditionPatch(pod *v1.Pod, condition v1.PodCondition) ([]byte, error) {
	type metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	}
	type status struct {
		Conditions []v1.PodCondition `json:"conditions"`
	}
	patch, err := json.Marshal(struct {
		Metadata metadata `json:"metadata"`
		Status   status   `json:"status"`
	}{metadata{pod.UID, pod.ResourceVersion}, status{[]v1.PodCondition{condition}}})
	if err != nil {
		return nil, fmt.Errorf("build patch: %w", err)
	}
	return patch, nil
}
