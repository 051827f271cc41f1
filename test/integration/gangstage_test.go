package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	testingclock "k8s.io/utils/clock/testing"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// stage is a cluster with a scheduler whose gangs a test has in hand.
type stage struct {
	*cluster
	r *replica
	// clock is the engine's. It keeps pace with the real one, and the test may jump ahead.
	clock *testingclock.FakeClock
	door  *doorman
	// binds answers Bindings in the API server's stead; see bindings.
	binds *bindings
}

// startStage runs both. A gang that fails rests for an hour unless change says otherwise: what happens in a test happens
// without a backoff running out.
func startStage(t *testing.T, change ...func(*config.CoschedulingArgs)) *stage {
	t.Helper()
	s := &stage{cluster: startGangCluster(t), clock: startClock(t), door: &doorman{}, binds: &bindings{}}
	s.restart(t, change...)
	return s
}

// restart ends the scheduler, if one runs, and starts another.
func (s *stage) restart(t *testing.T, change ...func(*config.CoschedulingArgs)) {
	t.Helper()
	if s.r != nil {
		s.r.stop()
	}
	s.r = startReplica(t, s.config, replicaOptions{
		clock:    s.clock,
		registry: frameworkruntime.Registry{doormanName: s.door.factory},
		wrap: func(next http.RoundTripper) http.RoundTripper {
			return &answers{next: next, pick: s.binds.pick}
		},
		configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
			profile := &loaded.Profiles[0]
			profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: doormanName})
			gangArgs(loaded, func(args *config.CoschedulingArgs) {
				args.BackoffInitial.Duration, args.BackoffMax.Duration = time.Hour, time.Hour
				for _, c := range change {
					c(args)
				}
			})
		},
	})
}

// gangArgs changes the arguments of Coscheduling in every profile: all must have the same.
func gangArgs(loaded *schedconfig.KubeSchedulerConfiguration, change func(*config.CoschedulingArgs)) {
	for i := range loaded.Profiles {
		for _, plugin := range loaded.Profiles[i].PluginConfig {
			if args, ours := plugin.Args.(*config.CoschedulingArgs); ours {
				change(args)
			}
		}
	}
}

// restless has gangs that failed try again at once. None gets a turn: ten failures are a matter of moments then.
func restless(args *config.CoschedulingArgs) {
	args.TurnAfter = new(int32(0))
	args.BackoffInitial.Duration, args.BackoffMax.Duration = time.Millisecond, time.Millisecond
}

// startClock returns a clock that follows the real one until the test ends.
func startClock(t *testing.T) *testingclock.FakeClock {
	t.Helper()
	c := testingclock.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				c.Step(20 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() { cancel(); ticking.Wait() })
	return c
}

const doormanName = "Doorman"

// doorman is a filter of the test's own. It stands last.
type doorman struct {
	mu     sync.Mutex
	ask    func(pod *v1.Pod, node string) string
	broken func(pod *v1.Pod) bool
	handle fwk.Handle
}

func (d *doorman) factory(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handle = handle
	return d, nil
}

// Name returns the plugin's name.
func (*doorman) Name() string { return doormanName }

// Filter refuses the pod with what ask says, if anything. No other pod is tried before it answers.
func (d *doorman) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	d.mu.Lock()
	ask, broken := d.ask, d.broken
	d.mu.Unlock()
	if broken != nil && broken(pod) {
		return fwk.AsStatus(errors.New("the filter of the test cannot tell"))
	}
	if ask == nil {
		return nil
	}
	if reason := ask(pod, node.Node().Name); reason != "" {
		return fwk.NewStatus(fwk.Unschedulable, reason)
	}
	return nil
}

// set changes what is asked; nil lets everybody pass.
func (d *doorman) set(ask func(pod *v1.Pod, node string) string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ask = ask
}

// breakDown has every cycle of the pods that are picked end with an error, which is no verdict: a plan is kept, and the
// scheduler goes on with other pods. nil ends that.
func (d *doorman) breakDown(broken func(pod *v1.Pod) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

// waiting counts the pods at Permit whose names have the prefix.
func (d *doorman) waiting(prefix string) int {
	d.mu.Lock()
	handle := d.handle
	d.mu.Unlock()
	n := 0
	handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if strings.HasPrefix(w.GetPod().Name, prefix) {
			n++
		}
	})
	return n
}

// holdLast stops the scheduler in the cycle of the last of n members of a group, while all others wait at Permit. Their
// node comes out of the first channel; the second one lets the cycle go on when it is closed.
func (s *stage) holdLast(t *testing.T, group string, n int) (in <-chan string, out chan<- struct{}) {
	t.Helper()
	arrived, proceed := make(chan string, 1), make(chan struct{})
	var once sync.Once
	s.door.set(func(pod *v1.Pod, node string) string {
		if strings.HasPrefix(pod.Name, group+"-") && s.door.waiting(group+"-") == n-1 {
			once.Do(func() {
				arrived <- node
				select {
				case <-proceed:
				case <-time.After(patience):
				}
			})
		}
		return ""
	})
	return arrived, proceed
}

// bindings answers the next Bindings of pods with a prefix with a code; count is how many it has answered.
type bindings struct {
	mu          sync.Mutex
	prefix      string
	code        int
	left, count int
}

func (b *bindings) refuse(prefix string, code, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prefix, b.code, b.left, b.count = prefix, code, n, 0
}

func (b *bindings) pick(r *http.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 || !isBind(b.prefix)(r) {
		return 0
	}
	b.left--
	b.count++
	return b.code
}

func (b *bindings) answered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// waitFree waits until exactly n cards are free.
func (s *stage) waitFree(t *testing.T, n int) {
	t.Helper()
	s.r.waitFree(t, n)
}

// rest ends the rest of gangs until all pods are bound. A gang may fail once more, and rest again, before the scheduler's
// cache has heard of what the ledger knows.
func (s *stage) rest(t *testing.T, pods []*v1.Pod) {
	t.Helper()
	polls := 0
	eventually(t, "bound after rest: "+pods[0].Labels[v1alpha1.PodGroupLabel], func(ctx context.Context) (bool, error) {
		if polls%40 == 0 {
			s.clock.Step(time.Hour)
		}
		polls++
		n, err := s.bound(ctx, pods[0].Labels[v1alpha1.PodGroupLabel])
		if err == nil && n != len(pods) {
			err = fmt.Errorf("%d of %d are bound", n, len(pods))
		}
		return err == nil, err
	})
}

// holds lists the pods that hold cards and whose names have the prefix.
func (s *stage) holds(prefix string) []string {
	var out []string
	l := s.r.engine.Ledger()
	for _, uid := range l.Pods() {
		if h, _, ok := l.Holding(uid); ok && strings.HasPrefix(h.Pod, namespace+"/"+prefix) {
			out = append(out, h.Pod)
		}
	}
	return out
}

// waitSays waits until the condition of each pod says part.
func (c *cluster) waitSays(t *testing.T, part string, pods ...string) {
	t.Helper()
	for _, name := range pods {
		eventually(t, fmt.Sprintf("pod %s says %q", name, part), func(ctx context.Context) (bool, error) {
			pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			said := ""
			for _, condition := range pod.Status.Conditions {
				if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse {
					said = condition.Message
				}
			}
			if !strings.Contains(said, part) {
				return false, fmt.Errorf("it says %q, node %q", said, pod.Spec.NodeName)
			}
			return true, nil
		})
	}
}

func (c *cluster) createNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace %s: %v", name, err)
	}
}

// deleteNode removes a node object.
func (c *cluster) deleteNode(t *testing.T, name string) {
	t.Helper()
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete node %s: %v", name, err)
	}
}

// scheduleTimeout is the PodGroup's own, in seconds.
func scheduleTimeout(seconds int32) groupOption {
	return func(g *schedulingv1alpha1.PodGroup) { g.Spec.ScheduleTimeoutSeconds = &seconds }
}

// on selects the node of that name.
func on(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node} }
}

// boundOf counts the bound pods of a group, and fails the test where it cannot.
func (c *cluster) boundOf(t *testing.T, group string) int {
	t.Helper()
	n, err := c.bound(t.Context(), group)
	if err != nil {
		t.Fatalf("bound pods of %s: %v", group, err)
	}
	return n
}
