package integration

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// startNativeCluster serves both PodGroup APIs.
func startNativeCluster(t *testing.T) *cluster {
	t.Helper()
	c := startCluster(t, func(p *process.ControlPlaneConfig) {
		p.FeatureGates = map[string]bool{string(features.GenericWorkload): true, string(features.TopologyAwareWorkloadScheduling): true}
		p.RuntimeConfig = map[string]string{schedulingv1beta1.SchemeGroupVersion.String(): "true"}
	})
	c.installPodGroups(t)
	return c
}

// startNativeReplica runs a scheduler with the gates on, and a probe in front of GPUTopology.
func startNativeReplica(t *testing.T, c *cluster, change func(*schedconfig.KubeSchedulerConfiguration)) (*replica, *groupProbe) {
	t.Helper()
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.GenericWorkload: true, features.TopologyAwareWorkloadScheduling: true,
	})
	probe := &groupProbe{}
	r := startReplica(t, c.config, replicaOptions{
		registry: frameworkruntime.Registry{probe.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return probe, nil }},
		configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
			all := &loaded.Profiles[0].Plugins.MultiPoint
			all.Enabled = append([]schedconfig.Plugin{{Name: probe.Name()}}, all.Enabled...)
			if change != nil {
				change(loaded)
			}
		},
	})
	probe.engine.Store(r.engine)
	return r, probe
}

// groupProbe stands before GPUTopology: it sees what is held before its Reserve and after its Unreserve.
type groupProbe struct {
	engine atomic.Pointer[engine.Engine]
	// simulated and real count calls of Reserve, taken back those of Unreserve.
	simulated, real, takenBack atomic.Int32
	// leaked counts members that held cards before they were reserved or after they were taken back.
	leaked atomic.Int32
}

func (*groupProbe) Name() string { return "GroupProbe" }

func (p *groupProbe) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Spec.SchedulingGroup == nil {
		return nil
	}
	if state.IsPodGroupSchedulingCycle() {
		p.simulated.Add(1)
	} else {
		p.real.Add(1)
	}
	p.look(pod)
	return nil
}

func (p *groupProbe) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if pod.Spec.SchedulingGroup != nil {
		p.takenBack.Add(1)
		p.look(pod)
	}
}

func (p *groupProbe) look(pod *v1.Pod) {
	if e := p.engine.Load(); e != nil {
		if _, _, held := e.Ledger().Holding(ledger.PodUID(pod.UID)); held {
			p.leaked.Add(1)
		}
	}
}

// nativeGroup creates a gang of the scheduling.k8s.io API; it stays within one domain of the label, if there is one.
func (c *cluster) nativeGroup(t *testing.T, name string, minCount int32, domain string) {
	t.Helper()
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	if domain != "" {
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: domain}}}
	}
	if _, err := c.client.SchedulingV1beta1().PodGroups(namespace).Create(t.Context(), g, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create native PodGroup %s: %v", name, err)
	}
}

// nativeMembers are n pods group-0, group-1, ... of a native group.
func nativeMembers(group string, n int, options ...testkit.PodOption) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = testkit.Pod(namespace, fmt.Sprintf("%s-%d", group, i), options...)
		pods[i].Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	}
	return pods
}

// waitNativeRefused waits until the framework says of a native group that it does not fit.
func (c *cluster) waitNativeRefused(t *testing.T, name string) {
	t.Helper()
	eventually(t, "native group "+name+" is refused", func(ctx context.Context) (bool, error) {
		g, err := c.client.SchedulingV1beta1().PodGroups(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return apimeta.IsStatusConditionFalse(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled), nil
	})
}

func racks(n []*v1.Node, each int) []*v1.Node {
	for i := range n {
		n[i].Labels["rack"] = fmt.Sprintf("r%d", i/each+1)
	}
	return n
}

// TestNativeGangs has gangs of both APIs on one cluster at once.
func TestNativeGangs(t *testing.T) {
	c := startNativeCluster(t)
	c.createNodes(t, racks(nodes("n", 4, testkit.N8s), 2)...)
	r, probe := startNativeReplica(t, c, nil)
	t.Run("side by side", func(t *testing.T) { c.nativeSideBySide(t, r) })
	t.Run("every placement is tried and taken back", func(t *testing.T) { c.nativePlacements(t, r, probe) })
	t.Run("a pod that names both", func(t *testing.T) { c.namesBoth(t) })
	c.check(t, r)
	if n := probe.leaked.Load(); n != 0 {
		t.Errorf("%d members held cards that were not theirs yet, or not any more", n)
	}
	if probe.simulated.Load() == 0 || probe.real.Load() == 0 || probe.takenBack.Load() < probe.simulated.Load() {
		t.Errorf("%d simulated and %d real reservations, %d taken back: want some, and every simulated one taken back",
			probe.simulated.Load(), probe.real.Load(), probe.takenBack.Load())
	}
}

// nativeSideBySide fills the cluster with gangs of both kinds to the last card; two more, one of each kind, hold nothing
// until cards come free.
func (c *cluster) nativeSideBySide(t *testing.T, r *replica) {
	for _, name := range []string{"x", "y"} {
		c.nativeGroup(t, name, 4, "")
		c.createGroup(t, "crd-"+name, 4)
	}
	native := append(nativeMembers("x", 4, testkit.GPUs(2)), nativeMembers("y", 4, testkit.GPUs(2))...)
	custom := append(members("crd-x", 4, testkit.GPUs(2)), members("crd-y", 4, testkit.GPUs(2))...)
	for i := range native {
		c.createPods(t, native[i], custom[i])
	}
	all := append(names(native), names(custom)...)
	c.waitBound(t, all...)
	c.check(t, r)
	if free := r.freeCards(); free != 0 {
		t.Errorf("%d cards are free, want 0", free)
	}
	for _, name := range names(native) {
		c.cardsOf(t, name) // fails without a record
	}

	c.nativeGroup(t, "z", 4, "")
	c.createGroup(t, "crd-z", 4)
	more := append(nativeMembers("z", 4, testkit.GPUs(2)), members("crd-z", 4, testkit.GPUs(2))...)
	c.createPods(t, more...)
	c.waitNativeRefused(t, "z")
	c.waitReason(t, "crd-z", "0 of 4 pods")
	c.check(t, r)
	c.deletePods(t, all[:4]...) // x
	c.waitBoundCount(t, 16)     // one of the two, whole
	c.deletePods(t, all[8:12]...)
	c.waitBound(t, names(more)...)
	c.check(t, r)
	c.deletePods(t, append(all, names(more)...)...)
	c.check(t, r)
}

// nativePlacements has a gang that fits into the second rack only, and one that fits into neither. Of cards there are enough
// in the first: it is tried in vain, since a pod without cards has all CPU of a node.
func (c *cluster) nativePlacements(t *testing.T, r *replica, probe *groupProbe) {
	onFirst := testkit.Pod(namespace, "solo", testkit.Resource(v1.ResourceCPU, 128))
	onFirst.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"}
	c.createPods(t, onFirst)
	c.waitBound(t, "solo")
	asks := []testkit.PodOption{testkit.GPUs(4), testkit.Resource(v1.ResourceCPU, 1)}
	before := probe.simulated.Load()
	c.nativeGroup(t, "w", 3, "rack")
	w := nativeMembers("w", 3, asks...)
	c.createPods(t, w...)
	c.waitBound(t, names(w)...)
	for _, name := range names(w) {
		if node := c.pod(t, name).Spec.NodeName; node != "n3" && node != "n4" {
			t.Errorf("pod %s is on node %s, want n3 or n4: the other rack has no room for three", name, node)
		}
	}
	if tried := probe.simulated.Load() - before; tried < 2+3 {
		t.Errorf("%d members were placed while placements were compared, want 2 in the first rack and 3 in the second at least", tried)
	}
	c.check(t, r)

	free := r.freeCards()
	c.nativeGroup(t, "v", 4, "rack")
	v := nativeMembers("v", 4, asks...)
	c.createPods(t, v...)
	c.waitNativeRefused(t, "v")
	c.check(t, r)
	if have := r.freeCards(); have != free {
		t.Errorf("%d cards are free, want %d: a group that does not fit holds nothing", have, free)
	}
	c.deletePods(t, "solo")
	c.waitBound(t, names(v)...)
	c.check(t, r)
}

func (c *cluster) namesBoth(t *testing.T) {
	c.nativeGroup(t, "both", 1, "")
	c.createGroup(t, "both", 1)
	pod := nativeMembers("both", 1)[0]
	inGroup("both")(pod)
	c.createPods(t, pod)
	reason := c.waitRefused(t, "both-0")
	for _, part := range []string{"scheduling.x-k8s.io/pod-group", "spec.schedulingGroup"} {
		if !contains(reason, part) {
			t.Errorf("the reason %q does not name %q", reason, part)
		}
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v1alpha1.PodGroupLabel)
	if _, err := c.client.CoreV1().Pods(namespace).Patch(t.Context(), "both-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitBound(t, "both-0")
}

// TestNativeGangStaysOffKeptNodes: while a gang that failed gathers nodes, a native one that came later stays off them, until
// the other is gone.
func TestNativeGangStaysOffKeptNodes(t *testing.T) {
	c := startNativeCluster(t)
	c.createNodes(t, nodes("n", 2, testkit.N8s)...)
	r, _ := startNativeReplica(t, c, func(loaded *schedconfig.KubeSchedulerConfiguration) {
		once := int32(1)
		gangArgs(loaded, func(args *config.CoschedulingArgs) { args.TurnAfter = &once })
	})
	c.createPods(t, testkit.Pod(namespace, "solo", testkit.GPUs(4)))
	c.waitBound(t, "solo")
	c.createGroup(t, "big", 4)
	c.createPods(t, members("big", 4, testkit.GPUs(4))...)
	eventually(t, "big has its turn", func(context.Context) (bool, error) { return r.engine.Gangs().Withheld() != nil, nil })
	c.nativeGroup(t, "late", 1, "")
	c.createPods(t, nativeMembers("late", 1, testkit.GPUs(1))...)
	if reason := c.waitRefused(t, "late-0"); !contains(reason, "kept for gang team/big") {
		t.Errorf("late-0 waits with %q, want the gang that the nodes are kept for", reason)
	}
	c.deleteGroup(t, "big")
	c.waitBound(t, "late-0")
	c.check(t, r)
}

// TestNativeGangsInTheBinary runs the program itself with the gates on its command line, and kills it while gangs of both
// kinds arrive.
func TestNativeGangsInTheBinary(t *testing.T) {
	c := startNativeCluster(t)
	c.createNodes(t, nodes("n", 4, testkit.N8s)...)
	const gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
	first := c.startBinary(t, c.config, withoutLeaderElection, gates)
	var all []string
	for i := range 4 {
		c.nativeGroup(t, fmt.Sprintf("x%d", i), 2, "")
		c.createGroup(t, fmt.Sprintf("y%d", i), 2)
		pods := append(nativeMembers(fmt.Sprintf("x%d", i), 2, testkit.GPUs(2)), members(fmt.Sprintf("y%d", i), 2, testkit.GPUs(2))...)
		c.createPods(t, pods...)
		all = append(all, names(pods)...)
		if i == 2 {
			if err := first.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	second := c.startBinary(t, c.config, withoutLeaderElection, gates)
	c.waitBound(t, all...)
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	c.check(t, startReplica(t, c.config, replicaOptions{}))
}

// TestPodGroupsAppearAndGo: the API is missing when the scheduler starts, comes, goes and comes back. Pods that name no
// group never notice.
func TestPodGroupsAppearAndGo(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, nodes("n", 1, testkit.N8s)...)
	r := startReplica(t, c.config, replicaOptions{})
	c.createPods(t, testkit.Pod(namespace, "solo-0", testkit.GPUs(1)))
	c.waitBound(t, "solo-0")
	a := members("a", 2, testkit.GPUs(1))
	c.createPods(t, a...)
	c.waitTold(t, "no PodGroup", "a-0", "a-1")
	c.installPodGroups(t)
	c.createGroup(t, "a", 2)
	c.waitBound(t, "a-0", "a-1")

	c.removePodGroups(t)
	b := members("b", 2, testkit.GPUs(1))
	c.createPods(t, append(b, testkit.Pod(namespace, "solo-1", testkit.GPUs(1)))...)
	c.waitBound(t, "solo-1")
	c.waitTold(t, "no PodGroup", "b-0", "b-1")
	c.installPodGroups(t)
	c.createGroup(t, "b", 2)
	c.waitBound(t, "b-0", "b-1")
	c.check(t, r)
}

// removePodGroups deletes the definition and waits until nothing is served.
func (c *cluster) removePodGroups(t *testing.T) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(c.config)
	err := client.Resource(definitions).Delete(t.Context(), "podgroups.scheduling.x-k8s.io", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "PodGroups are not served", func(ctx context.Context) (bool, error) {
		_, err := client.Resource(podGroupResource).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
