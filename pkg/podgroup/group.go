package podgroup

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

// maxTimeout is the longest that the scheduling framework lets a pod wait at Permit (k8s.io/kubernetes,
// pkg/scheduler/framework/runtime: maxTimeout).
const maxTimeout = 15 * time.Minute

// Phases that a PodGroup's status can hold. The scheduler-plugins types declare all but two.
const (
	phasePreScheduling = "PreScheduling"
	phaseScheduled     = "Scheduled"
)

// Group is a PodGroup as the scheduler understands it.
type Group struct {
	// UID tells two groups of one name apart.
	UID gang.GroupUID
	// Namespace and Name are those of the object.
	Namespace, Name string
	// Created is the object's creation time, to the second.
	Created time.Time
	// Spec is what the state machine needs to know. It means nothing if Invalid is set or Singles is true.
	Spec gang.Spec
	// MinResources is what must be free, in total, before any member is placed: cpu in thousandths of a core, all
	// else in whole units, parts of one rounded up. Nil if not asked for.
	MinResources map[v1.ResourceName]int64
	// Wish is what is asked of the fabric.
	Wish Wish
	// Invalid, if not empty, is a sentence that names every field of the object that cannot be understood, with its
	// value. Members are refused with it.
	Invalid string
	// Singles is true for a group without a quorum (minMember absent or 0): its pods are scheduled one by one.
	Singles bool
	// RecordedSucceeded is the number of succeeded members in the status, which counts those deleted since. A
	// negative number in the status is none.
	RecordedSucceeded int
	// RecordedRan is true if the status says that the gang was whole once.
	RecordedRan bool
	// RecordedStart is when the gang was first tried according to the status, nil if it does not say so.
	RecordedStart *time.Time
	// Clamped, if not empty, is a sentence on a scheduleTimeoutSeconds that is beyond what the framework can wait.
	Clamped string
	// Object is the *v1alpha1.PodGroup, with its kind set and without managed fields. It is shared: read only.
	Object runtime.Object
}

// Parse reads a PodGroup. It keeps o, which must not change afterwards.
func Parse(o *schedulingv1alpha1.PodGroup) Group {
	g := Group{
		UID: gang.GroupUID(o.UID), Namespace: o.Namespace, Name: o.Name, Created: o.CreationTimestamp.Time,
		RecordedSucceeded: max(0, int(o.Status.Succeeded)), RecordedRan: ran(string(o.Status.Phase)), Object: withKind(o),
	}
	if start := o.Status.ScheduleStartTime; !start.IsZero() {
		g.RecordedStart = &start.Time
	}
	var faults []string
	refuse := func(field, value, reason string) {
		faults = append(faults, (&v1alpha1.FieldError{Field: field, Value: value, Reason: reason}).Error())
	}
	switch n := o.Spec.MinMember; {
	case n < 0:
		refuse("spec.minMember", strconv.Itoa(int(n)), "must be 0 or more")
	case n == 0:
		g.Singles = true
	default:
		g.Spec.MinMember = int(n)
	}
	g.readTimeout(o.Spec.ScheduleTimeoutSeconds, refuse)
	g.readMinResources(o.Spec.MinResources, refuse)
	g.readOnLoss(o.Annotations, refuse)
	g.readWish(o.Annotations, refuse)
	if len(faults) > 0 {
		g.Invalid = fmt.Sprintf("PodGroup %s/%s is not valid: %s", o.Namespace, o.Name, strings.Join(faults, "; "))
	}
	return g
}

// withKind returns o with its kind, which objects of a typed list lack and events need.
func withKind(o *schedulingv1alpha1.PodGroup) *schedulingv1alpha1.PodGroup {
	kind := schedulingv1alpha1.SchemeGroupVersion.WithKind("PodGroup")
	if o.GroupVersionKind() == kind {
		return o
	}
	shallow := *o
	shallow.SetGroupVersionKind(kind)
	return &shallow
}

func ran(phase string) bool {
	switch phase {
	case phaseScheduled, string(schedulingv1alpha1.PodGroupRunning), string(schedulingv1alpha1.PodGroupFinished),
		string(schedulingv1alpha1.PodGroupFailed):
		return true
	}
	return false
}

// refuser notes a field that cannot be understood.
type refuser func(field, value, reason string)

// readTimeout leaves 0, the scheduler's own default, where the group says nothing or 0.
func (g *Group) readTimeout(seconds *int32, refuse refuser) {
	if seconds == nil {
		return
	}
	const field = "spec.scheduleTimeoutSeconds"
	timeout := time.Duration(*seconds) * time.Second
	switch {
	case timeout < 0:
		refuse(field, strconv.Itoa(int(*seconds)), "must be 0 or more")
	case timeout > maxTimeout:
		g.Clamped = fmt.Sprintf("%s is %d, but the scheduling framework waits %d s at most: that is the effective timeout of PodGroup %s/%s",
			field, *seconds, int(maxTimeout/time.Second), g.Namespace, g.Name)
		timeout = maxTimeout
		fallthrough
	default:
		g.Spec.Timeout = timeout
	}
}

func (g *Group) readMinResources(list v1.ResourceList, refuse refuser) {
	names := make([]v1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		quantity, field := list[name], fmt.Sprintf("spec.minResources[%.64q]", string(name))
		limit := resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
		if name == v1.ResourceCPU {
			limit = resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)
		}
		switch {
		case name == "":
			refuse(field, quantity.String(), "a resource needs a name")
		case quantity.Sign() < 0:
			refuse(field, quantity.String(), "must not be negative")
		case quantity.Cmp(*limit) > 0:
			refuse(field, quantity.String(), "does not fit into 64 bits")
		default:
			if g.MinResources == nil {
				g.MinResources = make(map[v1.ResourceName]int64, len(list))
			}
			if name == v1.ResourceCPU {
				g.MinResources[name] = quantity.MilliValue()
			} else {
				g.MinResources[name] = quantity.Value()
			}
		}
	}
}

func (g *Group) readOnLoss(annotations map[string]string, refuse refuser) {
	value, has := annotations[v1alpha1.OnMemberLossAnnotation]
	switch {
	case !has || value == v1alpha1.MemberLossReplace:
		g.Spec.OnLoss = gang.LossReplace
	case value == v1alpha1.MemberLossKeep:
		g.Spec.OnLoss = gang.LossKeep
	case value == v1alpha1.MemberLossEvict:
		g.Spec.OnLoss = gang.LossEvict
	default:
		// Nobody is evicted or moved on the word of an annotation that cannot be read.
		g.Spec.OnLoss = gang.LossKeep
		refuse("metadata.annotations["+v1alpha1.OnMemberLossAnnotation+"]", value, "must be Keep, Replace or Evict")
	}
}
