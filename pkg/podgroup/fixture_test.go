package podgroup

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2/ktesting"
	testingclock "k8s.io/utils/clock/testing"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	groupfake "sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned/fake"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

const namespace = "ns"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stored is a PodGroup as the API server keeps it: with the fields that were written, zero or not, and who applied which
// annotations.
type stored struct {
	uid         types.UID
	annotations map[string]string
	applied     map[string]string
	status      map[string]any
}

// bench is a Writer against an API of maps, at a time that stands still. For PodGroups it does what the API server does
// with an apply, as far as the Writer depends on it (the generated fake client cannot apply these types).
type bench struct {
	*Writer
	t     *testing.T
	clock *testingclock.FakeClock
	pods  *fake.Clientset

	// busy says that Bindings queue up.
	busy bool

	mu     sync.Mutex
	groups map[string]*stored
	events []string
	// versions are those of the group in the events.
	versions []string
	// calls are the writes to PodGroups and their number; reads those that judge a refusal.
	calls []string
	reads int
	// fault, if set, is asked before each write to a PodGroup. late is asked after it: the write happens, the answer is
	// an error.
	fault, late func(call string) error
}

func newBench(t *testing.T, pods ...runtime.Object) *bench {
	b := &bench{t: t, clock: testingclock.NewFakeClock(start), pods: fake.NewClientset(pods...), groups: map[string]*stored{}}
	client := &groupfake.Clientset{}
	client.AddReactor("patch", "podgroups", b.patch)
	client.AddReactor("get", "podgroups", func(a clienttesting.Action) (bool, runtime.Object, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reads++
		name := a.(clienttesting.GetAction).GetName() //nolint:errcheck // the verb decides
		if o := b.groups[name]; o != nil {
			return true, o.object(name), nil
		}
		return true, nil, apierrors.NewNotFound(podGroups, name)
	})
	b.Writer = NewWriter(client, b.pods, b.clock, b, ktesting.NewLogger(t, ktesting.NewConfig()), func() bool { return b.busy })
	return b
}

var podGroups = schedulingv1alpha1.SchemeGroupVersion.WithResource("podgroups").GroupResource()

func (s *stored) object(name string) *schedulingv1alpha1.PodGroup {
	return &schedulingv1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: s.uid}}
}

// patch applies. The status subresource takes nothing but the status; the other request creates what is not there unless
// it names a UID, and cannot change a UID.
func (b *bench) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.PatchActionImpl) //nolint:errcheck // the verb decides
	b.mu.Lock()
	defer b.mu.Unlock()
	call := strings.TrimSuffix(a.Name+"/"+a.Subresource, "/")
	b.calls = append(b.calls, call)
	options := a.PatchOptions
	if a.PatchType != types.ApplyPatchType || options.FieldManager != "gpu-topology-scheduler" || options.Force == nil || !*options.Force {
		b.t.Errorf("%s: patch of type %s by %q, want a forced apply by gpu-topology-scheduler", call, a.PatchType, options.FieldManager)
	}
	if b.fault != nil {
		if err := b.fault(call); err != nil {
			return true, nil, err
		}
	}
	var sent struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Status   map[string]any    `json:"status"`
	}
	if err := json.Unmarshal(a.Patch, &sent); err != nil {
		b.t.Errorf("%s: %v", call, err)
	}
	o, err := b.target(&a, &sent.Metadata)
	if err != nil {
		return true, nil, err
	}
	if a.Subresource == "status" {
		o.status = sent.Status
	} else {
		for key := range o.applied {
			delete(o.annotations, key)
		}
		o.applied = sent.Metadata.Annotations
		maps.Copy(o.annotations, o.applied)
	}
	if b.late != nil {
		if err := b.late(call); err != nil {
			return true, nil, err
		}
	}
	answer := o.object(a.Name)
	answer.ResourceVersion = fmt.Sprintf("%04d", len(b.calls))
	return true, answer, nil
}

func (b *bench) target(a *clienttesting.PatchActionImpl, sent *metav1.ObjectMeta) (*stored, error) {
	o := b.groups[a.Name]
	switch {
	case o == nil && a.Subresource == "status":
		return nil, apierrors.NewNotFound(podGroups, a.Name)
	case o == nil && sent.UID != "":
		return nil, apierrors.NewConflict(podGroups, a.Name, fmt.Errorf("uid mismatch"))
	case o == nil:
		b.t.Errorf("apply created PodGroup %s", a.Name)
		return &stored{}, nil
	case a.Subresource != "status" && sent.UID != o.uid:
		return nil, apierrors.NewInvalid(schedulingv1alpha1.SchemeGroupVersion.WithKind("PodGroup").GroupKind(), a.Name, nil)
	}
	return o, nil
}

// create stores a group, in place of the one that has its name.
func (b *bench) create(name, uid string) *stored {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &stored{uid: types.UID(uid), annotations: map[string]string{}}
	b.groups[name] = o
	return o
}

func (b *bench) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.groups, name)
}

// Report takes an event.
func (b *bench) Report(regarding runtime.Object, reason, action, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ref, ok := regarding.(*v1.ObjectReference)
	if !ok || ref.APIVersion != "scheduling.x-k8s.io/v1alpha1" || ref.Kind != "PodGroup" || ref.Namespace != namespace {
		b.t.Errorf("Report() about %v, want a reference to a PodGroup", regarding)
		return
	}
	b.versions = append(b.versions, ref.ResourceVersion)
	b.events = append(b.events, fmt.Sprintf("%s %s %s %s: %s", ref.Name, ref.UID, reason, action, detail))
}

// pass lets time go by, a batch at a time.
func (b *bench) pass(d time.Duration) {
	for ; d > 0; d -= batchPeriod {
		b.clock.Step(batchPeriod)
		b.flush(b.t.Context())
	}
}

func desired(name, uid, phase string, running int32) Desired {
	return Desired{Namespace: namespace, Name: name, UID: gang.GroupUID(uid), Phase: phase, Running: running}
}

func waiting(name, uid, reason string, parked ...ParkedPod) Desired {
	d := desired(name, uid, "Pending", 0)
	d.Reason, d.Parked = reason, parked
	return d
}

// wrote is a status as written.
func wrote(phase string, running, succeeded, failed int) map[string]any {
	return map[string]any{
		"phase": phase, "running": float64(running), "succeeded": float64(succeeded), "failed": float64(failed),
	}
}
