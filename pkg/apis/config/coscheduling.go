package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// StatusWriting says who keeps the status of PodGroups.
type StatusWriting string

// The ways of keeping the status of PodGroups.
const (
	// StatusManaged has the scheduler write phase and counts.
	StatusManaged StatusWriting = "Managed"
	// StatusExternal leaves phase and counts to a controller, such as the one of scheduler-plugins. The reason why a gang
	// waits is still written.
	StatusExternal StatusWriting = "External"
)

// MaxPermitTimeout is the longest wait at Permit that the scheduler framework grants (k8s.io/kubernetes,
// pkg/scheduler/framework/runtime, maxTimeout).
const MaxPermitTimeout = 15 * time.Minute

// The defaults of CoschedulingArgs.
const (
	defaultPermitTimeout    = time.Minute
	defaultBackoffInitial   = time.Second
	defaultBackoffMax       = 10 * time.Second
	defaultPlanTTL          = 5 * time.Second
	defaultTurnAfter        = int32(10)
	defaultTurnTimeout      = 10 * time.Minute
	defaultNodeLeaseTimeout = 40 * time.Second
)

// CoschedulingArgs are the arguments of the plugin Coscheduling. All profiles of a process must have the same.
type CoschedulingArgs struct {
	metav1.TypeMeta `json:",inline"`

	// PermitTimeout bounds the wait of a reserved member for its siblings, for PodGroups without
	// scheduleTimeoutSeconds. More than 0, at most 15m. Default: 1m.
	PermitTimeout *metav1.Duration `json:"permitTimeout,omitempty"`
	// BackoffInitial is how long a gang rests after its first failed plan; the rest doubles with each further one up
	// to BackoffMax. More than 0. Default: 1s and 10s.
	BackoffInitial *metav1.Duration `json:"backoffInitial,omitempty"`
	BackoffMax     *metav1.Duration `json:"backoffMax,omitempty"`
	// PlanTTL is how long a plan may go without progress of any member before its cards are given back. More than 0.
	// Default: 5s.
	PlanTTL *metav1.Duration `json:"planTTL,omitempty"`
	// TurnAfter is the number of failed plans after which a gang gets a turn: GPU pods of equal or lower priority that
	// were created later may not take cards on the nodes that the gang needs. 0 gives no turns. Default: 10.
	TurnAfter *int32 `json:"turnAfter,omitempty"`
	// TurnTimeout ends a turn that brought nothing. More than 0. Default: 10m.
	TurnTimeout *metav1.Duration `json:"turnTimeout,omitempty"`
	// NodeLeaseTimeout is the age of a node's lease beyond which no gang is planned on it, counted from when this
	// process last saw it renewed. Nodes without a lease are judged by their taints and conditions alone. 0 turns the
	// watch of leases off. Default: 40s, when the node controller gives a node up (kube-controller-manager
	// --node-monitor-grace-period was 40s up to Kubernetes 1.31, 50s since).
	NodeLeaseTimeout *metav1.Duration `json:"nodeLeaseTimeout,omitempty"`
	// Status is Managed or External. Default: Managed.
	Status StatusWriting `json:"status,omitempty"`
}

// SetCoschedulingDefaults fills in what the file leaves out.
func SetCoschedulingDefaults(args *CoschedulingArgs) {
	length := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	setDefault(&args.PermitTimeout, length(defaultPermitTimeout))
	setDefault(&args.BackoffInitial, length(defaultBackoffInitial))
	setDefault(&args.BackoffMax, length(max(defaultBackoffMax, args.BackoffInitial.Duration)))
	setDefault(&args.PlanTTL, length(defaultPlanTTL))
	setDefault(&args.TurnAfter, defaultTurnAfter)
	setDefault(&args.TurnTimeout, length(defaultTurnTimeout))
	setDefault(&args.NodeLeaseTimeout, length(defaultNodeLeaseTimeout))
	if args.Status == "" {
		args.Status = StatusManaged
	}
}

// ValidateCoscheduling returns every fault of arguments that SetCoschedulingDefaults has been at, each with its field and
// value; nil without any.
func ValidateCoscheduling(args *CoschedulingArgs) error {
	var errs field.ErrorList
	invalid := func(name string, d *metav1.Duration, why string) {
		errs = append(errs, field.Invalid(field.NewPath(name), shown(d), why))
	}
	positive := func(name string, d *metav1.Duration) bool {
		if d == nil || d.Duration <= 0 {
			invalid(name, d, "must be more than 0")
			return false
		}
		return true
	}
	if d := args.PermitTimeout; positive("permitTimeout", d) && d.Duration > MaxPermitTimeout {
		invalid("permitTimeout", d, "must be at most "+MaxPermitTimeout.String()+": the framework waits no longer")
	}
	first, most := positive("backoffInitial", args.BackoffInitial), positive("backoffMax", args.BackoffMax)
	if first && most && args.BackoffMax.Duration < args.BackoffInitial.Duration {
		invalid("backoffMax", args.BackoffMax, "must be at least backoffInitial")
	}
	positive("planTTL", args.PlanTTL)
	positive("turnTimeout", args.TurnTimeout)
	if args.TurnAfter != nil && *args.TurnAfter < 0 {
		errs = append(errs, field.Invalid(field.NewPath("turnAfter"), *args.TurnAfter, "must be 0 or more"))
	}
	if args.NodeLeaseTimeout != nil && args.NodeLeaseTimeout.Duration < 0 {
		invalid("nodeLeaseTimeout", args.NodeLeaseTimeout, "must be 0 or more")
	}
	if args.Status != StatusManaged && args.Status != StatusExternal {
		errs = append(errs, field.NotSupported(field.NewPath("status"), args.Status, []StatusWriting{StatusManaged, StatusExternal}))
	}
	return errs.ToAggregate()
}

// DeepCopyInto copies into out, which shares no memory with the receiver afterwards.
func (args *CoschedulingArgs) DeepCopyInto(out *CoschedulingArgs) {
	*out = *args
	out.PermitTimeout, out.PlanTTL = copied(args.PermitTimeout), copied(args.PlanTTL)
	out.BackoffInitial, out.BackoffMax = copied(args.BackoffInitial), copied(args.BackoffMax)
	out.TurnAfter, out.TurnTimeout = copied(args.TurnAfter), copied(args.TurnTimeout)
	out.NodeLeaseTimeout = copied(args.NodeLeaseTimeout)
}

// DeepCopy returns a copy.
func (args *CoschedulingArgs) DeepCopy() *CoschedulingArgs {
	if args == nil {
		return nil
	}
	out := new(CoschedulingArgs)
	args.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (args *CoschedulingArgs) DeepCopyObject() runtime.Object {
	if args == nil {
		return nil
	}
	return args.DeepCopy()
}
