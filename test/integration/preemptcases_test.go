package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// ofClass gives a pod a priority class.
func ofClass(name string) kit.PodOption {
	return func(p *v1.Pod) { p.Spec.PriorityClassName = name }
}

// atOnce has a pod gone as soon as it is deleted.
func atOnce(p *v1.Pod) {
	zero := int64(0)
	p.Spec.TerminationGracePeriodSeconds = &zero
}

// preemptions counts the events that say that a pod was preempted.
func (c *cluster) preemptions(t *testing.T, pod string) int {
	t.Helper()
	notes, err := c.notes(t.Context(), "Preempted", pod)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, times := range notes {
		n += times
	}
	return n
}

const slowName = "Slow"

// slow is a PreBind plugin that takes its time with the pods whose names it knows.
type slow struct {
	// gates are closed when a pod may go on. A pod named deaf-... does not listen to its context meanwhile.
	gates map[string]chan struct{}

	mu       sync.Mutex
	in, back map[string]bool
}

func (*slow) Name() string { return slowName }

func (*slow) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (s *slow) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	gate := s.gates[pod.Name]
	if gate == nil {
		return nil
	}
	s.note(s.in, pod.Name)
	if strings.HasPrefix(pod.Name, "deaf") {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return fwk.AsStatus(ctx.Err())
	}
}

func (*slow) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (s *slow) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.note(s.back, pod.Name)
}

func (s *slow) note(where map[string]bool, pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	where[pod] = true
}

// has is a condition for eventually.
func (s *slow) has(where map[string]bool, pod string) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return where[pod], nil
	}
}

// waitFor waits until something comes out of a channel, or it is closed.
func waitFor(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	eventually(t, what, func(context.Context) (bool, error) {
		select {
		case <-happened:
			return true, nil
		default:
			return false, nil
		}
	})
}

// preemptStage is one node of eight cards, a slow PreBind plugin, and a count of Bindings.
type preemptStage struct {
	*cluster
	r    *replica
	slow *slow
	// sent counts the Bindings of pods that are slow.
	sent atomic.Int32
	// bind holds Bindings of pods named late-... until it is closed; binding is closed when one has come.
	bind, binding chan struct{}
}

// TestCaseB046DeletedInPreBind: whatever a pod of low priority is at when one of high priority comes, or its user deletes it:
// it gives its cards up at once, the other pod has them after one round of preemption at most, and what the first one still
// had under way writes nothing.
func TestCaseB046DeletedInPreBind(t *testing.T) {
	s := &preemptStage{
		cluster: startCluster(t), bind: make(chan struct{}), binding: make(chan struct{}),
		slow: &slow{
			gates: map[string]chan struct{}{"slow": make(chan struct{}), "deaf": make(chan struct{})},
			in:    map[string]bool{}, back: map[string]bool{},
		},
	}
	s.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	s.createPriorityClass(t, "high", 1000)
	var once sync.Once
	s.r = startReplica(t, s.config, replicaOptions{
		registry: frameworkruntime.Registry{slowName: factoryOf(s.slow)},
		configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
			withoutBackoff(loaded)
			enable(loaded, "", slowName)
		},
		wrap: answering(func(r *http.Request) int {
			switch {
			case isBind("slow")(r), isBind("deaf")(r):
				s.sent.Add(1)
			case isBind("late")(r):
				once.Do(func() { close(s.binding); <-s.bind })
			}
			return 0
		}),
	})
	t.Run("preempted in PreBind", s.preemptedInPreBind)
	t.Run("preempted while its Binding is sent", s.preemptedInBind)
	t.Run("deleted in a PreBind that does not listen", s.deletedInPreBind)
}

// highRuns creates a pod that needs the whole node, and has it bound.
func (s *preemptStage) highRuns(t *testing.T, name string) {
	t.Helper()
	s.createPods(t, kit.Pod(namespace, name, kit.GPUs(8), ofClass("high"), atOnce))
	s.waitBound(t, name)
}

// preemptedInPreBind: the scheduler ends the cycle of the pod, and need not delete it. It does so again if the other pod is
// tried before that cycle has come to its end.
func (s *preemptStage) preemptedInPreBind(t *testing.T) {
	s.createPods(t, kit.Pod(namespace, "slow", kit.GPUs(8)))
	eventually(t, "slow is in PreBind", s.slow.has(s.slow.in, "slow"))
	s.highRuns(t, "h1")
	eventually(t, "slow is rolled back", s.slow.has(s.slow.back, "slow"))
	eventually(t, "slow was preempted", func(context.Context) (bool, error) { return s.preemptions(t, "slow") > 0, nil })
	s.check(t, s.r)
	if n := s.sent.Load(); n != 0 {
		t.Errorf("%d Bindings were sent for a pod that was preempted before", n)
	}
	s.deletePods(t, "slow", "h1")
	s.r.waitFree(t, 8)
}

// preemptedInBind: from here on the scheduler deletes its victim. Its Binding comes through after that.
func (s *preemptStage) preemptedInBind(t *testing.T) {
	s.createPods(t, kit.Pod(namespace, "late", kit.GPUs(8), atOnce))
	waitFor(t, "the Binding of late is sent", s.binding)
	s.highRuns(t, "h2")
	if _, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), "late", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("late is still there: %v", err)
	}
	eventually(t, "late was preempted", func(context.Context) (bool, error) { return s.preemptions(t, "late") > 0, nil })
	if n := s.preemptions(t, "late"); n != 1 {
		t.Errorf("late was preempted %d times, want once", n)
	}
	close(s.bind)
	eventually(t, "the Binding of late has failed", s.slow.has(s.slow.back, "late"))
	s.check(t, s.r)
	s.deletePods(t, "h2")
	s.r.waitFree(t, 8)
}

// deletedInPreBind: the cards are free while the plugin still has the pod, and when it lets it go no Binding is sent.
func (s *preemptStage) deletedInPreBind(t *testing.T) {
	s.sent.Store(0)
	s.createPods(t, kit.Pod(namespace, "deaf", kit.GPUs(8)))
	eventually(t, "deaf is in PreBind", s.slow.has(s.slow.in, "deaf"))
	if free := s.r.freeCards(); free != 0 {
		t.Fatalf("%d cards are free while deaf is in PreBind: the test shows nothing", free)
	}
	s.deletePods(t, "deaf")
	s.r.waitFree(t, 8)
	s.highRuns(t, "h3")
	if n := s.preemptions(t, "deaf"); n != 0 {
		t.Errorf("deaf was preempted %d times although it was gone", n)
	}
	before := s.cardsOf(t, "h3")
	close(s.slow.gates["deaf"])
	eventually(t, "deaf was rolled back", s.slow.has(s.slow.back, "deaf"))
	if n := s.sent.Load(); n != 0 {
		t.Errorf("%d Bindings were sent for cards that were given back", n)
	}
	s.check(t, s.r)
	if now := s.cardsOf(t, "h3"); now != before || s.r.freeCards() != 0 {
		t.Errorf("h3 has cards %s, had %s; %d are free", now, before, s.r.freeCards())
	}
}

// TestCaseB152GangsPreemptNobody: two gangs that outrank eight running pods. One would not fit if all of those went, the other
// would. Gangs do not preempt: both wait, with a reason, and nobody dies. A pod of their priority that is in no gang preempts
// one of the eight, which shows that preemption is at work. What comes free in another way the second gang has.
func TestCaseB152GangsPreemptNobody(t *testing.T) {
	s := startStage(t, restless)
	s.createPriorityClass(t, "high", 1000)
	s.createPriorityClass(t, "higher", 2000)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	low, lows := podsOf("low", 8, kit.GPUs(1), atOnce, on("n1"))
	s.createPods(t, append(low, kit.Pod(namespace, "top", kit.GPUs(8), ofClass("higher"), on("n2")))...)
	s.waitBound(t, append(lows, "top")...)
	for group, n := range map[string]int{"h": 3, "k": 2} {
		s.createGroup(t, group, int32(n))
		pods := members(group, n, kit.GPUs(4), ofClass("high"))
		s.createPods(t, pods...)
		reason := fmt.Sprintf("0 of %d pods can be placed", n)
		s.waitReason(t, group, reason)
		s.waitSays(t, reason, names(pods)...)
		for _, pod := range pods {
			if node := s.pod(t, pod.Name).Status.NominatedNodeName; node != "" {
				t.Errorf("member %s is nominated for node %s", pod.Name, node)
			}
		}
		if held := s.holds(group + "-"); len(held) > 0 {
			t.Errorf("a gang that waits holds %v", held)
		}
	}
	s.createPods(t, kit.Pod(namespace, "solo", kit.GPUs(1), ofClass("high")))
	s.waitBound(t, "solo")
	dead := 0
	for _, name := range append(lows, "top") {
		pod, err := s.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			dead++
		} else if err != nil || pod.DeletionTimestamp != nil {
			t.Errorf("pod %s: deletion timestamp %v, error %v", name, pod.DeletionTimestamp, err)
		}
	}
	if dead != 1 {
		t.Errorf("%d pods are gone, want the one that solo preempted", dead)
	}
	eventually(t, "solo's preemption is reported", func(ctx context.Context) (bool, error) {
		n, err := s.countEvents(ctx, "Preempted", "")
		if err == nil && n != 1 {
			err = fmt.Errorf("%d preemptions are reported", n)
		}
		return err == nil, err
	})
	s.check(t, s.r)
	s.deletePods(t, append(lows, "solo")...)
	s.waitGroupBound(t, "k", 2)
	if n := s.boundOf(t, "h"); n != 0 {
		t.Errorf("%d members of h are bound", n)
	}
	s.check(t, s.r)
}
