package podgroup

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

// Reporter takes what a person should hear of. It must not block.
type Reporter interface {
	// Report is a warning event about an object: reason and action in UpperCamelCase, detail in one sentence.
	Report(regarding runtime.Object, reason, action, detail string)
}

// Desired is what the API should show of a gang. It is computed from the gang as a whole, never from what was
// written before.
type Desired struct {
	// Namespace and Name are the PodGroup's.
	Namespace, Name string
	// UID is the PodGroup's; a group of the same name and another UID is left alone. Where Absent is set it only has to be
	// the caller's own.
	UID gang.GroupUID
	// Absent says that there is no such PodGroup: nothing but Parked is shown.
	Absent bool
	// Phase is one of Pending, PreScheduling, Scheduling, Scheduled, Running, Finished and Failed. If it is empty, the
	// status belongs to another controller: nothing of it is written.
	Phase string
	// Running, Succeeded and Failed count members. Zeros are written too.
	Running, Succeeded, Failed int32
	// Reason is one sentence on what the gang waits for, "" if it does not wait.
	Reason string
	// Layout is where the members are, in the form of v1alpha1.Layout; "" leaves alone what is written.
	Layout string
	// StartTime is when the gang was first tried, nil if it was not. It is written to the second.
	StartTime *time.Time
	// Parked are the members that must show Reason because no scheduling cycle did it.
	Parked []ParkedPod
}

// ParkedPod is a pod that was not tried since the reason is what it is.
type ParkedPod struct {
	Namespace, Name string
	UID             types.UID
}

func (d *Desired) key() types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
}

// status is the part of a PodGroup's status that the Writer owns, in a form that == compares.
type status struct {
	phase                      string
	running, succeeded, failed int32
	// start is in seconds since 1970; 0 stands for none.
	start int64
}

// status returns the zero value where the status is another controller's.
func (d *Desired) status() status {
	if d.Phase == "" {
		return status{}
	}
	s := status{phase: d.Phase, running: d.Running, succeeded: d.Succeeded, failed: d.Failed}
	if d.StartTime != nil && !d.StartTime.IsZero() {
		s.start = d.StartTime.Unix()
	}
	return s
}

func statusOf(o *schedulingv1alpha1.PodGroup) status {
	s := status{phase: string(o.Status.Phase), running: o.Status.Running, succeeded: o.Status.Succeeded, failed: o.Status.Failed}
	if t := o.Status.ScheduleStartTime; !t.IsZero() {
		s.start = t.Unix()
	}
	return s
}

// reference names the group in events. Events that agree in all but their text are counted together, under the text of
// the first; the version keeps those of different reasons apart.
func (d *Desired) reference(version string) *v1.ObjectReference {
	return &v1.ObjectReference{
		APIVersion: schedulingv1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup",
		Namespace: d.Namespace, Name: d.Name, UID: types.UID(d.UID), ResourceVersion: version,
	}
}
