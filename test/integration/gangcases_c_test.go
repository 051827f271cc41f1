package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// groupStatus is what the tests look at of a PodGroup's status.
type groupStatus struct {
	Phase                      string
	Running, Succeeded, Failed int32
}

func statusOf(g *schedulingv1alpha1.PodGroup) groupStatus {
	return groupStatus{string(g.Status.Phase), g.Status.Running, g.Status.Succeeded, g.Status.Failed}
}

func (c *cluster) waitStatus(t *testing.T, group string, want groupStatus) {
	t.Helper()
	eventually(t, fmt.Sprintf("status of %s is %+v", group, want), func(ctx context.Context) (bool, error) {
		g, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Get(ctx, group, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if have := statusOf(g); have != want {
			return false, fmt.Errorf("it is %+v", have)
		}
		return true, nil
	})
}

// watchPhases records the phases that a PodGroup shows from its creation on, each once for as long as it lasts.
func (c *cluster) watchPhases(t *testing.T, g *schedulingv1alpha1.PodGroup) (phases func() []string) {
	t.Helper()
	events, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Watch(context.Background(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + g.Name, ResourceVersion: g.ResourceVersion,
	})
	if err != nil {
		t.Fatalf("watch PodGroup %s: %v", g.Name, err)
	}
	var mu sync.Mutex
	var seen []string
	var watching sync.WaitGroup
	watching.Go(func() {
		for e := range events.ResultChan() {
			now, ok := e.Object.(*schedulingv1alpha1.PodGroup)
			if !ok {
				continue
			}
			mu.Lock()
			if phase := string(now.Status.Phase); len(seen) == 0 || seen[len(seen)-1] != phase {
				seen = append(seen, phase)
			}
			mu.Unlock()
		}
	})
	t.Cleanup(func() { events.Stop(); watching.Wait() })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func (c *cluster) setPhases(t *testing.T, pods []*v1.Pod, phases ...v1.PodPhase) {
	t.Helper()
	for i, phase := range phases {
		c.finish(t, pods[i].Name, phase)
	}
}

// TestCaseB030PhaseFailedOnlyBelowQuorum: a group of which enough members run or have run is not Failed, and every phase
// comes once, also when a scheduler that starts anew hears of everything again.
func TestCaseB030PhaseFailedOnlyBelowQuorum(t *testing.T) {
	const running, succeeded, failed = v1.PodRunning, v1.PodSucceeded, v1.PodFailed
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	first := startReplica(t, c.config, replicaOptions{})
	phases := c.watchPhases(t, c.createGroup(t, "a", 3))
	pods := members("a", 5, testkit.GPUs(1))
	c.createPods(t, pods...)
	c.waitBound(t, names(pods)...)
	c.waitStatus(t, "a", groupStatus{Phase: "Scheduled"})
	c.setPhases(t, pods, running, running, running, failed, succeeded)
	c.waitStatus(t, "a", groupStatus{"Running", 3, 1, 1})
	c.setPhases(t, pods, running, running, failed)
	c.waitStatus(t, "a", groupStatus{"Running", 2, 1, 2})
	c.setPhases(t, pods, running, failed)
	c.waitStatus(t, "a", groupStatus{"Failed", 1, 1, 3})
	eventually(t, "the reason is written, which is a write of its own", func(context.Context) (bool, error) {
		return c.podGroup(t, "a").Annotations[v1alpha1.WaitingReasonAnnotation] != "", nil
	})
	first.stop()

	before := c.podGroup(t, "a")
	second := startReplica(t, c.config, replicaOptions{})
	c.createGroup(t, "b", 1)
	c.createPods(t, members("b", 1, testkit.GPUs(1))...)
	c.waitStatus(t, "b", groupStatus{Phase: "Scheduled"}) // written in the same batch as a's, or after it
	if d := cmp.Diff(before, c.podGroup(t, "a")); d != "" {
		t.Errorf("a scheduler that starts anew wrote what was true already (-before +after):\n%s", d)
	}
	seen := phases()
	if last := seen[len(seen)-2:]; last[0] != "Running" || last[1] != "Failed" {
		t.Errorf("the last phases are %v, want Running and Failed", last)
	}
	if once := slices.Compact(slices.Sorted(slices.Values(seen))); len(once) != len(seen) {
		t.Errorf("a phase came back: %v", seen)
	}
	c.check(t, second)
}

var (
	podGroupResource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	definitions      = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// raw is a PodGroup as it is stored.
func (c *cluster) raw(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	g, err := dynamic.NewForConfigOrDie(c.config).Resource(podGroupResource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read PodGroup %s: %v", name, err)
	}
	return g
}

// TestCaseB032EmptyGroup: the status of a group that ran and whose pods are all gone says so, in figures that are stored.
func TestCaseB032EmptyGroup(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	r := startReplica(t, c.config, replicaOptions{})
	c.createGroup(t, "a", 2)
	pods := members("a", 2, testkit.GPUs(1))
	c.createPods(t, pods...)
	c.waitBound(t, names(pods)...)
	c.setPhases(t, pods, v1.PodRunning, v1.PodRunning)
	c.waitStatus(t, "a", groupStatus{"Running", 2, 0, 0})
	c.deletePods(t, names(pods)...)
	c.waitStatus(t, "a", groupStatus{Phase: "Pending"})
	stored := c.raw(t, "a")
	for _, field := range []string{"running", "succeeded", "failed"} {
		if n, has, err := unstructured.NestedInt64(stored.Object, "status", field); !has || n != 0 || err != nil {
			t.Errorf("stored status.%s: %d, there %t, error %v; want a 0 that is there", field, n, has, err)
		}
	}
	c.check(t, r)
}

// answers is a transport that answers some requests in the API server's stead. pick returns the code of such an answer, 0
// for a request that is sent on.
type answers struct {
	next http.RoundTripper
	pick func(*http.Request) int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code := a.pick(r)
	if code == 0 {
		return a.next.RoundTrip(r)
	}
	return statusAnswer(r, code), nil
}

// isGroupWrite picks writes to PodGroups; part is "/status" or "".
func isGroupWrite(r *http.Request, part string) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/podgroups/") && strings.HasSuffix(r.URL.Path, part)
}

// TestCaseB033CountsAreComputed: 64 members bind and start at once while half the writes of the status meet conflicts.
func TestCaseB033CountsAreComputed(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 8, testkit.N8s)...)
	var mu sync.Mutex
	writes := 0
	half := func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		if !isGroupWrite(r, "/status") {
			return 0
		}
		if writes++; writes%2 == 1 {
			return http.StatusConflict
		}
		return 0
	}
	r := startReplica(t, c.config, replicaOptions{wrap: func(next http.RoundTripper) http.RoundTripper { return &answers{next, half} }})
	c.createGroup(t, "a", 64)
	pods := members("a", 64, testkit.GPUs(1))
	c.createPods(t, pods...)
	c.waitBound(t, names(pods)...)
	c.waitStatus(t, "a", groupStatus{Phase: "Scheduled"})
	c.setPhases(t, pods, slices.Repeat([]v1.PodPhase{v1.PodRunning}, 64)...)
	c.waitStatus(t, "a", groupStatus{"Running", 64, 0, 0})
	c.check(t, r)
	mu.Lock()
	defer mu.Unlock()
	if writes < 2 {
		t.Errorf("%d writes: no conflict was met, so the test shows nothing", writes)
	}
}

// TestCaseB037FailedStatusWrites: the first writes hang until both members are bound, which shows that binding does not
// wait for them, and then fail in three ways.
func TestCaseB037FailedStatusWrites(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	bound := make(chan struct{})
	var mu sync.Mutex
	codes := []int{http.StatusInternalServerError, http.StatusConflict, http.StatusTooManyRequests}
	failing := func(r *http.Request) int {
		if !isGroupWrite(r, "/status") {
			return 0
		}
		select {
		case <-bound:
		case <-r.Context().Done():
			return http.StatusGatewayTimeout
		}
		mu.Lock()
		defer mu.Unlock()
		if len(codes) == 0 {
			return 0
		}
		code := codes[0]
		codes = codes[1:]
		return code
	}
	r := startReplica(t, c.config, replicaOptions{wrap: func(next http.RoundTripper) http.RoundTripper { return &answers{next, failing} }})
	c.createGroup(t, "a", 2)
	pods := members("a", 2, testkit.GPUs(1))
	c.createPods(t, pods...)
	c.waitBound(t, names(pods)...)
	close(bound)
	c.waitStatus(t, "a", groupStatus{Phase: "Scheduled"})
	mu.Lock()
	defer mu.Unlock()
	if len(codes) != 0 {
		t.Errorf("%d faults were not met", len(codes))
	}
	c.check(t, r)
}

// TestCaseB035MinMemberOfEveryKind: the definition that is installed knows no minimum, so any number can be stored.
func TestCaseB035MinMemberOfEveryKind(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	c.dropMinimum(t)
	r := startReplica(t, c.config, replicaOptions{})
	c.createRawGroup(t, "zero", map[string]any{"minMember": int64(0)})
	c.createRawGroup(t, "minus", map[string]any{"minMember": int64(-1)})
	c.createRawGroup(t, "huge", map[string]any{"minMember": int64(2147483647)})
	c.createRawGroup(t, "absent", map[string]any{})
	c.waitStatus(t, "huge", groupStatus{Phase: "Pending"}) // all four have been seen, and have no pods

	for _, name := range []string{"minus", "huge", "zero", "absent"} {
		c.createPods(t, members(name, 1, testkit.GPUs(1))...)
	}
	c.waitBound(t, "zero-0", "absent-0")
	if reason := c.waitRefused(t, "huge-0"); !contains(reason, "1 of 2147483647 members exist") {
		t.Errorf("huge-0 waits with %q, want how many of 2147483647 members exist", reason)
	}
	if reason := c.waitRefused(t, "minus-0"); !contains(reason, "spec.minMember") || !contains(reason, "-1") {
		t.Errorf("minus-0 waits with %q, want the field and its value", reason)
	}
	c.waitEvent(t, "GangWaiting", "minus")
	if free := r.freeCards(); free != 6 {
		t.Errorf("%d cards are free, want 6: only zero-0 and absent-0 have one", free)
	}
	c.check(t, r)
}

// dropMinimum makes the installed definition one that an old release of its project might have had.
func (c *cluster) dropMinimum(t *testing.T) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(c.config).Resource(definitions)
	definition, err := client.Get(t.Context(), "podgroups.scheduling.x-k8s.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		fields, ok := version.(map[string]any)
		if !ok {
			t.Fatalf("a version of the definition is a %T", version)
		}
		unstructured.RemoveNestedField(fields, "schema", "openAPIV3Schema", "properties", "spec", "properties", "minMember", "minimum")
	}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Update(t.Context(), definition, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createRawGroup tries until the server takes it: a changed definition is in force a moment later.
func (c *cluster) createRawGroup(t *testing.T, name string, spec map[string]any) {
	t.Helper()
	groups := dynamic.NewForConfigOrDie(c.config).Resource(podGroupResource).Namespace(namespace)
	eventually(t, "PodGroup "+name+" is created", func(ctx context.Context) (bool, error) {
		_, err := groups.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": podGroupResource.GroupVersion().String(), "kind": "PodGroup",
			"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
		}}, metav1.CreateOptions{})
		return err == nil, err
	})
}

// TestCaseB038GroupsLeftBehind: groups of which everything has ended charge nothing, however many there are.
func TestCaseB038GroupsLeftBehind(t *testing.T) {
	const rounds = 50
	c := startGangCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N2)...)
	r := startReplica(t, c.config, replicaOptions{})
	for i := range rounds + 1 {
		name := fmt.Sprintf("r-%d", i)
		c.createGroup(t, name, 2, minResources(2))
		pods := members(name, 2, testkit.GPUs(1))
		c.createPods(t, pods...)
		c.waitBound(t, names(pods)...)
		if i < rounds {
			c.setPhases(t, pods, v1.PodSucceeded, v1.PodSucceeded)
			c.deletePods(t, names(pods)...)
		}
	}
	c.check(t, r)
	c.waitStatus(t, "r-0", groupStatus{"Finished", 0, 2, 0})
}
