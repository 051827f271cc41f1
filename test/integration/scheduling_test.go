package integration

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func nodesN8s(n int) []*v1.Node {
	nodes := make([]*v1.Node, n)
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		nodes[i] = kit.Node(name, kit.N8s(name))
	}
	return nodes
}

func podsOf(prefix string, n int, options ...kit.PodOption) ([]*v1.Pod, []string) {
	pods, names := make([]*v1.Pod, n), make([]string, n)
	for i := range pods {
		names[i] = fmt.Sprintf("%s-%03d", prefix, i)
		pods[i] = kit.Pod(namespace, names[i], options...)
	}
	return pods, names
}

// TestTwoHundredPodsBindConcurrently also holds that every bound pod has its record and that nothing is left held once
// all pods are gone.
func TestTwoHundredPodsBindConcurrently(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, nodesN8s(30)...)
	r := startReplica(t, c.config, replicaOptions{})
	pods, names := podsOf("p", 200, kit.GPUs(1))
	c.createPods(t, pods...)
	c.waitBound(t, names...)
	c.check(t, r)

	bound, err := c.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range bound {
		parsed, err := v1alpha1.ParseRecord(bound[i].Annotations[v1alpha1.AllocationAnnotation])
		if err != nil {
			t.Errorf("record of pod %s: %v", bound[i].Name, err)
			continue
		}
		if parsed.Node != bound[i].Spec.NodeName || len(parsed.Cards) != 1 {
			t.Errorf("pod %s on node %s has the record %+v", bound[i].Name, bound[i].Spec.NodeName, parsed)
		}
	}
	c.deletePods(t, names...)
	c.check(t, r)
	for a := range r.engine.Ledger().Nodes() {
		if a.Pods != 0 || a.Free.Len() != 8 {
			t.Errorf("node %s: %d pods, %d free cards after all pods are gone", a.Name, a.Pods, a.Free.Len())
		}
	}
}

// TestRestartRebuildsTheLedger stops the scheduler in the middle of a burst and starts another one.
func TestRestartRebuildsTheLedger(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, nodesN8s(30)...)
	first := startReplica(t, c.config, replicaOptions{})
	pods, names := podsOf("p", 200, kit.GPUs(1))
	for i, p := range pods {
		c.createPods(t, p)
		if i == 100 {
			first.stop()
		}
	}
	second := startReplica(t, c.config, replicaOptions{})
	c.waitBound(t, names...)
	c.check(t, second)
}

// TestForeignPodIsCharged (B064): a pod that another scheduler placed has no record, and is never treated as if it held
// nothing.
func TestCaseB064ForeignPodIsCharged(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N2("n1")))
	foreign := kit.Pod(namespace, "f", kit.GPUs(1), kit.ForScheduler("default-scheduler"))
	c.createPods(t, foreign)
	err := c.client.CoreV1().Pods(namespace).Bind(t.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "f"}, Target: v1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "p", kit.VRAM(20000, 1)))
	c.waitBound(t, "p")
	c.createPods(t, kit.Pod(namespace, "r", kit.VRAM(20000, 1)))
	reason := c.waitRefused(t, "r")
	t.Logf("r waits: %s", reason)
	c.check(t, r)

	c.deletePods(t, "f")
	c.waitBound(t, "r")
	c.check(t, r)
}

// TestCaseB122PackingLeavesWholeNodes: with packing, a small pod goes to the node that is already in use.
func TestCaseB122PackingLeavesWholeNodes(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")), kit.Node("n2", kit.N8s("n2")))
	r := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "first", kit.GPUs(5)))
	c.waitBound(t, "first")
	used := c.pod(t, "first").Spec.NodeName
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(1)))
	c.waitBound(t, "p")
	if got := c.pod(t, "p").Spec.NodeName; got != used {
		t.Errorf("p is on %s, want the node already in use, %s", got, used)
	}
	c.createPods(t, kit.Pod(namespace, "r", kit.GPUs(8)))
	c.waitBound(t, "r")
	c.check(t, r)

	c.createPods(t, kit.Pod(namespace, "s", kit.GPUs(4)))
	if reason := c.waitRefused(t, "s"); !contains(reason, "1 node(s) had 2 of 4 whole GPUs free") {
		t.Errorf("s waits with %q, which does not say what the best node has", reason)
	}
}

// TestCaseB123PodsWithoutGPUsAreUntouched: no record, no pull to GPU nodes, and the default binder binds them.
func TestCaseB123PodsWithoutGPUsAreUntouched(t *testing.T) {
	c := startCluster(t)
	cpu := kit.Node("cpu", kit.N1("cpu"))
	cpu.Annotations = nil
	delete(cpu.Status.Allocatable, "nvidia.com/gpu")
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")), cpu)
	r := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "share", kit.VRAM(1000, 1)))
	c.waitBound(t, "share")
	pods, names := podsOf("c", 20)
	c.createPods(t, pods...)
	c.waitBound(t, names...)
	on := map[string]int{}
	for _, name := range names {
		p := c.pod(t, name)
		on[p.Spec.NodeName]++
		if _, has := p.Annotations[v1alpha1.AllocationAnnotation]; has {
			t.Errorf("pod %s has an allocation record", name)
		}
	}
	if on["cpu"] == 0 {
		t.Errorf("pods without GPUs are drawn to the GPU node: %v", on)
	}
	c.check(t, r)
}

// TestCaseB071BurstOfHalfCards: sixteen half-card pods at once fill eight cards two by two.
func TestCaseB071BurstOfHalfCards(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	r := startReplica(t, c.config, replicaOptions{})
	pods, names := podsOf("half", 16, kit.VRAM(40960, 1))
	c.createPods(t, pods...)
	c.waitBound(t, names...)
	c.check(t, r)
	for i, use := range r.engine.Ledger().Node("n1").Use {
		if use.Holders != 2 {
			t.Errorf("card %d has %d pods, want 2", i, use.Holders)
		}
	}
}

// TestCaseB070ReplacementGetsTheVictimsCards: cards come free only with the pod that held them.
func TestCaseB070ReplacementGetsTheVictimsCards(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	r := startReplica(t, c.config, replicaOptions{})
	pods, names := podsOf("p", 4, kit.GPUs(2))
	c.createPods(t, pods...)
	c.waitBound(t, names...)
	for round := range 20 {
		victim := names[(round*7)%len(names)]
		freed := c.cardsOf(t, victim)
		replacement := fmt.Sprintf("r-%03d", round)
		c.createPods(t, kit.Pod(namespace, replacement, kit.GPUs(2)))
		c.deletePods(t, victim)
		c.waitBound(t, replacement)
		if got := c.cardsOf(t, replacement); got != freed {
			t.Fatalf("round %d: %s got cards %s, want those of %s, %s", round, replacement, got, victim, freed)
		}
		names[(round*7)%len(names)] = replacement
	}
	c.check(t, r)
}

func (c *cluster) cardsOf(t *testing.T, name string) string {
	t.Helper()
	parsed, err := v1alpha1.ParseRecord(c.pod(t, name).Annotations[v1alpha1.AllocationAnnotation])
	if err != nil {
		t.Fatalf("record of pod %s: %v", name, err)
	}
	var indices []int
	for _, card := range parsed.Cards {
		indices = append(indices, card.Index)
	}
	return fmt.Sprint(indices)
}

// TestCaseB120PreemptionCountsAssumedCards: removing victims in the dry run gives back exactly their cards, also of one
// bound a moment ago.
func TestCaseB120PreemptionCountsAssumedCards(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	r := startReplica(t, c.config, replicaOptions{})
	atOnce := func(p *v1.Pod) { zero := int64(0); p.Spec.TerminationGracePeriodSeconds = &zero }
	low, names := podsOf("low", 8, kit.GPUs(1), atOnce, kit.Priority(0))
	c.createPods(t, low...)
	c.waitBound(t, names...)
	for name, value := range map[string]int32{"high": 1000} {
		c.createPriorityClass(t, name, value)
	}
	high := kit.Pod(namespace, "high", kit.GPUs(4), kit.Annotate(v1alpha1.NUMAPolicyAnnotation, v1alpha1.PolicyRequire))
	high.Spec.PriorityClassName = "high"
	c.createPods(t, high)
	c.waitBound(t, "high")
	c.waitBoundCount(t, 5)
	c.check(t, r)
	if cards := c.cardsOf(t, "high"); cards != "[0 1 2 3]" && cards != "[4 5 6 7]" {
		t.Errorf("high has cards %s, want four of one NUMA node", cards)
	}
}

// TestCaseB136StaticMIG: pods that ask for per-profile MIG resources are counted card by card, ours and others'.
func TestCaseB136StaticMIG(t *testing.T) {
	c := startCluster(t)
	spec := kit.N8m("n1")
	spec.Cards, spec.Links = spec.Cards[:2], nil
	c.createNodes(t, kit.Node("n1", spec))
	r := startReplica(t, c.config, replicaOptions{})
	const profile = "nvidia.com/mig-1g.10gb"
	foreign, _ := podsOf("f", 3, kit.Resource(profile, 1), kit.ForScheduler("default-scheduler"))
	c.createPods(t, foreign...)
	for _, p := range foreign {
		err := c.client.CoreV1().Pods(namespace).Bind(t.Context(), &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.Name}, Target: v1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	ours, names := podsOf("m", 11, kit.Resource(profile, 1))
	c.createPods(t, ours...)
	c.waitBound(t, names...)
	c.createPods(t, kit.Pod(namespace, "twelfth", kit.Resource(profile, 1)))
	t.Logf("twelfth waits: %s", c.waitRefused(t, "twelfth"))
	c.check(t, r)
}

// TestBadInputIsRefused: the reason names the field and the value, and the pod never lands.
func TestBadInputIsRefused(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	startReplica(t, c.config, replicaOptions{})
	bad := map[string]*v1.Pod{
		"nan":    kit.Pod(namespace, "nan", kit.Annotate("gpu-fraction", "NaN")),
		"over":   kit.Pod(namespace, "over", kit.Annotate("gpu-fraction", "1.5")),
		"policy": kit.Pod(namespace, "policy", kit.GPUs(1), kit.Annotate(v1alpha1.NUMAPolicyAnnotation, "bin-pack ")),
	}
	want := map[string][]string{
		"nan": {"gpu-fraction", "NaN"}, "over": {"gpu-fraction", "1.5"}, "policy": {v1alpha1.NUMAPolicyAnnotation, "bin-pack "},
	}
	for name, pod := range bad {
		c.createPods(t, pod)
		message := c.waitRefused(t, name)
		for _, part := range want[name] {
			if !contains(message, part) {
				t.Errorf("pod %s: reason %q does not name %q", name, message, part)
			}
		}
	}
}

func (c *cluster) createPriorityClass(t *testing.T, name string, value int32) {
	t.Helper()
	_, err := c.client.SchedulingV1().PriorityClasses().Create(context.Background(), priorityClass(name, value), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The admission check reads priority classes from a cache of its own.
	probe := kit.Pod(namespace, "priority-probe-"+name)
	probe.Spec.PriorityClassName = name
	eventually(t, "priority class "+name+" is known", func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().Pods(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, err
	})
}
