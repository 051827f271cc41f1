package observe

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

const (
	reasonAdmission = "GPUAdmissionFailing"
	actionAvoid     = "AvoidNode"

	// admissionFailure is status.reason of a pod that the kubelet refused since its device manager could not give it what it
	// asked for (k8s.io/kubernetes, pkg/kubelet/lifecycle, UnexpectedAdmissionError).
	admissionFailure = "UnexpectedAdmissionError"
	// failureWindow is the time within which failures of a node count together.
	failureWindow = time.Minute
)

// EndedSelector is the field selector of pods that have succeeded or failed, which the scheduler's own pod informer leaves
// out. A field selector has no "or": what is in none of the other phases has ended.
const EndedSelector = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"

// ShortEnded is the transform of an informer of ended pods. It keeps what is read of them here and by the gang book.
func ShortEnded(object any) (any, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return object, nil
	}
	short := &v1.Pod{
		ObjectMeta: pod.ObjectMeta,
		Spec: v1.PodSpec{
			NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName, SchedulingGroup: pod.Spec.SchedulingGroup,
			Priority: pod.Spec.Priority,
		},
		Status: v1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason},
	}
	short.ManagedFields = nil
	if pod.Status.Reason == admissionFailure {
		short.Spec.Containers, short.Spec.InitContainers = pod.Spec.Containers, pod.Spec.InitContainers // what it asked for
	}
	return short, nil
}

// RegisterEnded adds the handler to an informer of pods selected by EndedSelector. Call it once, before the informer starts.
func (o *Observer) RegisterEnded(informer cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
	o.ended = informer.GetStore()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if pod, ok := objectOf[*v1.Pod](o.logger, object); ok {
				o.EndedSeen(pod, initial)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("ended Pod informer: %w", err)
	}
	return registration, nil
}

// EndedSeen says that a pod has succeeded or failed. old is true for one that had before this process began to watch.
func (o *Observer) EndedSeen(pod *v1.Pod, old bool) {
	if !Terminal(pod) {
		return
	}
	uid := ledger.PodUID(pod.UID)
	o.forgetAhead(uid)
	o.cooling.mu.Lock()
	delete(o.cooling.running, uid)
	o.cooling.mu.Unlock()
	freed := o.cooled(uid)
	if _, _, held := o.ledger.Holding(uid); held {
		o.noteEnd(pod) // before it is released: from then on its being listed as living may be wondered at
		freed = o.ledger.Release(uid) || freed
		o.noteQuarantine(pod.Spec.NodeName)
	}
	if freed && o.options.Freed != nil {
		o.options.Freed()
	}
	if !old && pod.Status.Phase == v1.PodFailed && pod.Status.Reason == admissionFailure && request.TakesCards(pod) {
		o.admissionFailed(pod.Spec.NodeName)
	}
}

// admission counts the GPU pods that each node's kubelet refused to start. One card that fell off the bus can make it refuse
// every GPU pod, while the scheduler sees free cards and sends more.
type admission struct {
	mu sync.Mutex
	// nodes has an entry for each node that failed a pod lately; it goes with the node.
	nodes map[string]*refusals
	// avoided is when each node that is avoided stops being so, nil if there is none: Filter reads it for every node.
	avoided atomic.Pointer[map[string]time.Time]
}

type refusals struct {
	at []time.Time // within failureWindow, ascending
	// until is when the node stops being avoided; zero if it is not.
	until time.Time
}

func (o *Observer) admissionFailed(node string) {
	limit := o.options.AdmissionFailures
	if node == "" || limit <= 0 {
		return
	}
	metrics.AdmissionFailures.Inc()
	if _, err := o.nodes.Get(node); err != nil {
		return // a node that is gone, and is not to be remembered
	}
	now := o.clock.Now()
	o.admission.mu.Lock()
	defer o.admission.mu.Unlock()
	n := o.admission.nodes[node]
	if n == nil {
		n = &refusals{}
		o.admission.nodes[node] = n
	}
	n.at = append(slices.DeleteFunc(n.at, func(t time.Time) bool { return now.Sub(t) >= failureWindow }), now)
	if len(n.at) < limit || now.Before(n.until) {
		return
	}
	n.at, n.until = nil, now.Add(o.options.AdmissionCooling)
	o.admission.publish()
	metrics.AvoidedNodes.Inc()
	why := fmt.Sprintf("the kubelet failed %d GPU pods at admission within %s (%s): no new GPU pods for %s", limit, failureWindow, admissionFailure, o.options.AdmissionCooling)
	o.logger.Info("Node is avoided for GPU pods", "node", node, "reason", why)
	if object, err := o.nodes.Get(node); err == nil {
		o.report.Report(object, reasonAdmission, actionAvoid, why)
	}
}

// publish shows readers what has changed. The caller holds mu.
func (a *admission) publish() {
	avoided := map[string]time.Time{}
	for name, n := range a.nodes {
		if !n.until.IsZero() {
			avoided[name] = n.until
		}
	}
	if len(avoided) == 0 {
		a.avoided.Store(nil)
		return
	}
	a.avoided.Store(&avoided)
}

// Avoided reports whether no new GPU pods should go to the node, since its kubelet lately failed several at admission. It
// takes no lock.
func (o *Observer) Avoided(node string) bool {
	avoided := o.admission.avoided.Load()
	return avoided != nil && o.clock.Now().Before((*avoided)[node])
}

// Readmit forgets failures that do not count any more, and reports whether a node is not avoided any longer.
func (o *Observer) Readmit() bool {
	now := o.clock.Now()
	o.admission.mu.Lock()
	defer o.admission.mu.Unlock()
	readmitted := false
	for name, n := range o.admission.nodes {
		over := !now.Before(n.until)
		if over && !n.until.IsZero() {
			n.until, readmitted = time.Time{}, true
		}
		if over && (len(n.at) == 0 || now.Sub(n.at[len(n.at)-1]) >= failureWindow) {
			delete(o.admission.nodes, name)
		}
	}
	if readmitted {
		o.admission.publish()
	}
	return readmitted
}

func (o *Observer) forgetAdmission(node string) {
	o.admission.mu.Lock()
	defer o.admission.mu.Unlock()
	if n := o.admission.nodes[node]; n != nil {
		delete(o.admission.nodes, node)
		o.admission.publish()
	}
}
