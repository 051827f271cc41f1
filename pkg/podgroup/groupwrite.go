package podgroup

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	applyv1alpha1 "sigs.k8s.io/scheduler-plugins/pkg/generated/applyconfiguration/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

const (
	// fieldManager owns the fields that the Writer applies.
	fieldManager = "gpu-topology-scheduler"
	// layoutManager owns the layout, which stands however often the reason is applied anew.
	layoutManager = fieldManager + "-layout"
	// callTimeout bounds one write, so that one that hangs holds up the next batch no longer.
	callTimeout = 10 * time.Second

	eventReason = "GangWaiting"
	eventAction = "Scheduling"
)

// outcome is how a write ended.
type outcome uint8

const (
	// outcomeFailed: the write may or may not have happened, and is tried again.
	outcomeFailed outcome = iota
	// outcomeWritten: the API shows what was wanted.
	outcomeWritten
	// outcomeGone: the object is not there any more, or another one has its name, or it must not be written to.
	outcomeGone
)

// groupWrite is one group's part of a batch, and what came of it.
type groupWrite struct {
	desired Desired
	missing missing

	outcome outcome
	err     error
	// version is the group's, once the reason was written.
	version string
	// stranger is the group that has the name now, if the write reached it.
	stranger gang.GroupUID
}

func (w *Writer) writeGroup(ctx context.Context, g *groupWrite) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if g.missing.status {
		o, err := w.applyStatus(ctx, &g.desired)
		if err == nil && o.UID != types.UID(g.desired.UID) {
			// The server takes nothing but the status from this request, so only the answer tells whose it became.
			g.stranger, g.outcome = gang.GroupUID(o.UID), outcomeGone
			return
		}
		if err != nil {
			w.judge(ctx, g, fmt.Errorf("apply status: %w", err))
			return
		}
	}
	if g.missing.reason {
		o, err := w.applyReason(ctx, &g.desired)
		if err != nil {
			w.judge(ctx, g, fmt.Errorf("apply annotation %s: %w", v1alpha1.WaitingReasonAnnotation, err))
			return
		}
		g.version = o.ResourceVersion
	}
	if g.missing.layout {
		if err := w.applyLayout(ctx, &g.desired); err != nil {
			w.judge(ctx, g, fmt.Errorf("apply annotation %s: %w", v1alpha1.LayoutAnnotation, err))
			return
		}
	}
	g.outcome = outcomeWritten
}

func (w *Writer) applyStatus(ctx context.Context, d *Desired) (*schedulingv1alpha1.PodGroup, error) {
	status := applyv1alpha1.PodGroupStatus().
		WithPhase(schedulingv1alpha1.PodGroupPhase(d.Phase)).
		WithRunning(d.Running).WithSucceeded(d.Succeeded).WithFailed(d.Failed)
	if d.StartTime != nil && !d.StartTime.IsZero() {
		status.WithScheduleStartTime(metav1.NewTime(*d.StartTime))
	}
	return w.groups.SchedulingV1alpha1().PodGroups(d.Namespace).ApplyStatus(ctx,
		applyv1alpha1.PodGroup(d.Name, d.Namespace).WithStatus(status),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
}

// applyReason writes the annotation, or removes it by applying nothing. Apply creates what it does not find, so the UID
// goes with it: the server refuses to create an object with a UID, and to change the one of another.
func (w *Writer) applyReason(ctx context.Context, d *Desired) (*schedulingv1alpha1.PodGroup, error) {
	group := applyv1alpha1.PodGroup(d.Name, d.Namespace).WithUID(types.UID(d.UID))
	if d.Reason != "" {
		group.WithAnnotations(map[string]string{v1alpha1.WaitingReasonAnnotation: d.Reason})
	}
	return w.groups.SchedulingV1alpha1().PodGroups(d.Namespace).Apply(ctx, group,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
}

// applyLayout writes the layout. What applies to the UID of applyReason holds here.
func (w *Writer) applyLayout(ctx context.Context, d *Desired) error {
	group := applyv1alpha1.PodGroup(d.Name, d.Namespace).WithUID(types.UID(d.UID)).
		WithAnnotations(map[string]string{v1alpha1.LayoutAnnotation: d.Layout})
	_, err := w.groups.SchedulingV1alpha1().PodGroups(d.Namespace).Apply(ctx, group,
		metav1.ApplyOptions{FieldManager: layoutManager, Force: true})
	return err
}

// judge tells a group that is gone from a write that failed. A refusal can mean that the name has passed to another group,
// so the group is read.
func (w *Writer) judge(ctx context.Context, g *groupWrite, err error) {
	g.err = err
	switch {
	case apierrors.IsNotFound(err):
		g.outcome = outcomeGone
	case apierrors.IsConflict(err), apierrors.IsInvalid(err):
		o, readErr := w.groups.SchedulingV1alpha1().PodGroups(g.desired.Namespace).Get(ctx, g.desired.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(readErr) || readErr == nil && o.UID != types.UID(g.desired.UID) {
			g.outcome = outcomeGone
		}
	}
}

func reasonOf(o *schedulingv1alpha1.PodGroup) string {
	return o.Annotations[v1alpha1.WaitingReasonAnnotation]
}
