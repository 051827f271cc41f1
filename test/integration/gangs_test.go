package integration

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup/crd"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// startGangCluster is startCluster with PodGroups served.
func startGangCluster(t *testing.T) *cluster {
	t.Helper()
	c := startCluster(t)
	c.installPodGroups(t)
	return c
}

func (c *cluster) installPodGroups(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := crd.Install(ctx, dynamic.NewForConfigOrDie(c.config)); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) groups() versioned.Interface {
	config := rest.CopyConfig(c.config)
	config.ContentType = "application/json"
	return versioned.NewForConfigOrDie(config)
}

// groupOption changes a PodGroup under construction.
type groupOption func(*schedulingv1alpha1.PodGroup)

func minResources(gpus int64) groupOption {
	return func(g *schedulingv1alpha1.PodGroup) {
		g.Spec.MinResources = testkit.Pod("", "", testkit.GPUs(gpus)).Spec.Containers[0].Resources.Requests
	}
}

func onLoss(policy string) groupOption {
	return func(g *schedulingv1alpha1.PodGroup) {
		g.Annotations = map[string]string{v1alpha1.OnMemberLossAnnotation: policy}
	}
}

func (c *cluster) createGroup(t *testing.T, name string, minMember int32, options ...groupOption) *schedulingv1alpha1.PodGroup {
	t.Helper()
	g := &schedulingv1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Spec.MinMember = minMember
	for _, o := range options {
		o(g)
	}
	created, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Create(t.Context(), g, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create PodGroup %s: %v", name, err)
	}
	return created
}

func (c *cluster) podGroup(t *testing.T, name string) *schedulingv1alpha1.PodGroup {
	t.Helper()
	g, err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read PodGroup %s: %v", name, err)
	}
	return g
}

func (c *cluster) deleteGroup(t *testing.T, name string) {
	t.Helper()
	if err := c.groups().SchedulingV1alpha1().PodGroups(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete PodGroup %s: %v", name, err)
	}
}

// inGroup makes a pod a member.
func inGroup(name string) testkit.PodOption {
	return func(p *v1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[v1alpha1.PodGroupLabel] = name
	}
}

// gated gives a pod a scheduling gate.
func gated(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "test/gate"}} }

// members returns n pods group-0, group-1, ... of a group.
func members(group string, n int, options ...testkit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = testkit.Pod(namespace, fmt.Sprintf("%s-%d", group, i), append([]testkit.PodOption{inGroup(group)}, options...)...)
	}
	return pods
}

func names(pods []*v1.Pod) []string {
	out := make([]string, len(pods))
	for i := range pods {
		out[i] = pods[i].Name
	}
	return out
}

// nodes returns nodes prefix1, prefix2, ... of one shape.
func nodes(prefix string, n int, shape func(string) topology.Spec) []*v1.Node {
	out := make([]*v1.Node, n)
	for i := range out {
		name := fmt.Sprintf("%s%d", prefix, i+1)
		out[i] = testkit.Node(name, shape(name))
	}
	return out
}

// freeCards is how many cards nobody holds, planned ones counted as held.
func (r *replica) freeCards() int {
	free := 0
	for a := range r.engine.Ledger().Nodes() {
		free += a.Free.Len()
	}
	return free
}

// waitFree waits until exactly n cards are free.
func (r *replica) waitFree(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d cards free", n), func(context.Context) (bool, error) {
		if free := r.freeCards(); free != n {
			return false, fmt.Errorf("%d are free", free)
		}
		return true, nil
	})
}

// bound counts the bound pods of a group.
func (c *cluster) bound(ctx context.Context, group string) (int, error) {
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PodGroupLabel + "=" + group})
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			n++
		}
	}
	return n, nil
}

func (c *cluster) waitGroupBound(t *testing.T, group string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods of %s bound", n, group), func(ctx context.Context) (bool, error) {
		have, err := c.bound(ctx, group)
		if err == nil && have != n {
			err = fmt.Errorf("%d are bound", have)
		}
		return have == n, err
	})
}

func TestGangRunsWhole(t *testing.T) {
	c := startGangCluster(t)
	r := startReplica(t, c.config, replicaOptions{})
	c.createNodes(t, nodes("n", 2, testkit.N8s)...)
	c.createGroup(t, "a", 4)
	pods := members("a", 4, testkit.GPUs(4))
	c.createPods(t, pods...)
	c.waitBound(t, names(pods)...)
	c.check(t, r)
	if free := r.freeCards(); free != 0 {
		t.Errorf("%d cards are free, want 0", free)
	}
}
