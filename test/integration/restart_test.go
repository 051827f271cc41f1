package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB083TerminatingPodsCountAfterRestart: a pod that is being stopped runs on until its object is gone; a new
// scheduler charges it from its first list on.
func TestCaseB083TerminatingPodsCountAfterRestart(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	first := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(8)))
	c.waitBound(t, "p")
	c.finish(t, "p", v1.PodRunning)
	first.stop()

	grace := int64(30)
	if err := c.client.CoreV1().Pods(namespace).Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	p := c.pod(t, "p")
	if p.DeletionTimestamp == nil || p.Status.Phase != v1.PodRunning {
		t.Fatalf("p is %s with deletion timestamp %v: the test shows nothing", p.Status.Phase, p.DeletionTimestamp)
	}
	c.createPods(t, kit.Pod(namespace, "q", kit.GPUs(8)))
	second := startReplica(t, c.config, replicaOptions{})
	eventually(t, "ledger rebuilt", func(context.Context) (bool, error) { return second.engine.HasSynced(), nil })
	if _, stage, ok := second.engine.Ledger().Holding(ledger.PodUID(p.UID)); !ok || stage != ledger.StageBound {
		t.Errorf("p is charged: %t, stage %v, once the ledger is rebuilt", ok, stage)
	}
	c.waitRefused(t, "q")
	c.check(t, second)
	c.deletePods(t, "p")
	c.waitBound(t, "q")
	c.check(t, second)
}

// badNode carries a text that is no description of its cards, and offers no cards otherwise.
func badNode(name, text string) *v1.Node {
	n := kit.Node(name, kit.N8s(name))
	n.Annotations = map[string]string{v1alpha1.TopologyAnnotation: text}
	delete(n.Status.Allocatable, "nvidia.com/gpu")
	delete(n.Status.Capacity, "nvidia.com/gpu")
	return n
}

// sickCards are two cards that a description gives these texts for; the kubelet offers both.
func sickCards(name, first, second string) *v1.Node {
	n := kit.Node(name, kit.N2(name))
	n.Annotations[v1alpha1.TopologyAnnotation] = fmt.Sprintf(`{"v":1,"cards":[%s,%s],"links":["X PIX","PIX X"]}`, first, second)
	return n
}

// TestCaseB106CardsWithoutSize: cards of no or negative size are no cards, before and after a restart, and a pod that
// fits nowhere waits.
func TestCaseB106CardsWithoutSize(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t,
		sickCards("n1", `{"uuid":"GPU-a","vramBytes":0}`, `{"uuid":"GPU-b","vramBytes":-1}`),
		kit.Node("n2", kit.N8s("n2")))
	first := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(1)), kit.Pod(namespace, "x", kit.GPUs(9)))
	c.waitBound(t, "p")
	c.waitRefused(t, "x")
	c.check(t, first)
	c.waitEvent(t, "GPUInventoryProblem", "n1")
	first.stop()

	second := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "r", kit.GPUs(7)), kit.Pod(namespace, "late", kit.VRAM(1000, 1)))
	c.waitBound(t, "r")
	c.waitRefused(t, "late")
	for _, name := range []string{"p", "r"} {
		if got := c.pod(t, name).Spec.NodeName; got != "n2" {
			t.Errorf("pod %s is on node %s, want n2", name, got)
		}
	}
	if got := c.pod(t, "x").Spec.NodeName; got != "" {
		t.Errorf("pod x, which fits nowhere, is on node %s", got)
	}
	c.check(t, second)
	if n, err := c.countEvents(t.Context(), "GPUInventoryProblem", "n2"); err != nil || n != 0 {
		t.Errorf("%d events about the good node, error %v", n, err)
	}
}

// TestCaseB110MalformedTopology: whatever stands in the annotation, nothing breaks, every bad node is reported and every
// pod lands on good hardware.
func TestCaseB110MalformedTopology(t *testing.T) {
	c := startCluster(t)
	row := func(n int) string { return `"X` + strings.Repeat(" NV18", n-1) + `"` }
	rows := func(n, columns int) string { return strings.TrimSuffix(strings.Repeat(row(columns)+",", n), ",") }
	described := func(cards int, links string) string {
		return fmt.Sprintf(`{"v":1,"cards":[%s],"links":[%s]}`, strings.TrimSuffix(strings.Repeat("{},", cards), ","), links)
	}
	bad := []*v1.Node{
		badNode("empty", ""),
		badNode("no-version", "{}"),
		badNode("truncated", `{"v":1,"cards":[{"uuid":"GPU-0"`),
		badNode("seven-rows", described(8, rows(7, 8))),
		badNode("card-42", described(8, rows(8, 42))),
		badNode("many", described(200, rows(200, 200))),
		sickCards("same-uuid", `{"uuid":"GPU-s","vramBytes":25769803776}`, `{"uuid":"GPU-s","vramBytes":25769803776}`),
	}
	missing := badNode("missing", "")
	missing.Annotations = nil
	c.createNodes(t, append(bad, missing, kit.Node("good", kit.N8s("good")))...)
	r := startReplica(t, c.config, replicaOptions{})
	ones, names := podsOf("one", 2, kit.GPUs(1))
	twos, more := podsOf("two", 2, kit.GPUs(2))
	shares, rest := podsOf("share", 4, kit.VRAM(40960, 1))
	names = append(append(names, more...), rest...)
	c.createPods(t, append(append(ones, twos...), shares...)...)
	c.waitBound(t, names...)
	for _, name := range names {
		if got := c.pod(t, name).Spec.NodeName; got != "good" {
			t.Errorf("pod %s is on node %s", name, got)
		}
	}
	c.createPods(t, kit.Pod(namespace, "over", kit.GPUs(1)))
	t.Logf("over waits: %s", c.waitRefused(t, "over"))
	for _, n := range bad {
		c.waitEvent(t, "GPUInventoryProblem", n.Name)
	}
	c.check(t, r)
}

// rejecter is a reserve plugin that refuses the pods with its label.
type rejecter struct {
	name, label string
	// engine is set once the scheduler has been built.
	engine *atomic.Pointer[engine.Engine]
	// left counts the calls that found something held: a pod was not rolled back.
	left *atomic.Int32
	// tried counts the refusals.
	tried *atomic.Int32
}

func (r *rejecter) Name() string { return r.name }

func (r *rejecter) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	r.look()
	if _, has := pod.Labels[r.label]; has {
		r.tried.Add(1)
		return fwk.NewStatus(fwk.Unschedulable, "refused by the test plugin "+r.name)
	}
	return nil
}

func (r *rejecter) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) { r.look() }

// look is for the one that stands first. Its Reserve comes before ours and its Unreserve after ours: nothing may be held but
// what was left behind.
func (r *rejecter) look() {
	if r.name != rejectFirst {
		return
	}
	if e := r.engine.Load(); e == nil || e.Ledger().Stats().Pods() != 0 || e.Ledger().Node("n1").Free.Len() != 8 {
		r.left.Add(1)
	}
}

const (
	rejectFirst = "RejectFirst"
	rejectLast  = "RejectLast"
)

// TestCaseB039ReserveOfAnotherPluginFails: a plugin before ours and one after it refuse pods at Reserve. Ours gives back
// what it took, and does nothing for pods it never reserved for.
func TestCaseB039ReserveOfAnotherPluginFails(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	var shared atomic.Pointer[engine.Engine]
	var left, before, after atomic.Int32
	factory := func(name, label string, tried *atomic.Int32) frameworkruntime.PluginFactory {
		return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return &rejecter{name: name, label: label, engine: &shared, left: &left, tried: tried}, nil
		}
	}
	r := startReplica(t, c.config, replicaOptions{
		registry: frameworkruntime.Registry{rejectFirst: factory(rejectFirst, "y", &before), rejectLast: factory(rejectLast, "x", &after)},
		configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
			all := &loaded.Profiles[0].Plugins.MultiPoint
			all.Enabled = slices.Concat([]schedconfig.Plugin{{Name: rejectFirst}}, all.Enabled, []schedconfig.Plugin{{Name: rejectLast}})
		},
	})
	shared.Store(r.engine)
	const each = 100
	labelled := func(label string) kit.PodOption {
		return func(p *v1.Pod) { p.Labels = map[string]string{label: ""} }
	}
	x, xs := podsOf("x", each, kit.GPUs(1), labelled("x"))
	y, ys := podsOf("y", each, kit.GPUs(1), labelled("y"))
	c.createPods(t, append(x, y...)...)
	for _, name := range append(xs, ys...) {
		if reason := c.waitRefused(t, name); !contains(reason, "refused by the test plugin") {
			t.Fatalf("pod %s waits for another reason: %s", name, reason)
		}
	}
	if before.Load() < each || after.Load() < each {
		t.Fatalf("%d and %d refusals, want %d each: the test shows nothing", before.Load(), after.Load(), each)
	}
	if n := left.Load(); n != 0 {
		t.Errorf("cards were held %d times when a cycle began or had been rolled back", n)
	}
	c.check(t, r)
	c.createPods(t, kit.Pod(namespace, "whole", kit.GPUs(8)))
	c.waitBound(t, "whole")
	c.check(t, r)
}
