package nccltopology

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// inFront has the plugin take it that its PostFilter stands before preemption.
func (f *fixture) inFront() *fixture {
	f.profile.Do(func() {
		f.names, f.lists.weights = true, placement.Weights{Own: 10, Domain: 5}
		f.Plugin.filters = []string{nodeports.Name, f.filters.Name()}
	})
	return f
}

// few returns the nodes that a cycle of the pod looks at, nil for all.
func (f *fixture) few(t fails, pod *v1.Pod) sets.Set[string] {
	result, status := f.PreFilter(f.ctx, framework.NewCycleState(), pod, f.infos)
	if status.IsSkip() {
		return nil
	}
	if !status.IsSuccess() || len(result.NodeNames) == 0 {
		t.Fatalf("PreFilter: %v, %v", result, status)
	}
	return result.NodeNames
}

// fails is the part of *testing.T and *rapid.T that is needed here.
type fails interface {
	Fatalf(format string, args ...any)
}

// usual has the kind of request known: a list is kept of what is asked for twice.
func (f *fixture) usual(t fails, options ...kit.PodOption) *v1.Pod {
	f.few(t, kit.Pod("ns", "before", append(options, kit.UID("before"))...))
	return kit.Pod("ns", "p", append(options, kit.UID("p"))...)
}

// TestShortlistHoldsTheBest: whatever is taken, a cycle that looks at few nodes looks at one that a cycle over all nodes would not beat, by
// the scores of both plugins.
func TestShortlistHoldsTheBest(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		racks, each := rapid.IntRange(1, 5).Draw(r, "racks"), rapid.IntRange(1, 5).Draw(r, "each")
		f := newFixture(t, racked(racks, each, 2, kit.N8s)).inFront()
		cards := rapid.IntRange(1, 8).Draw(r, "cards")
		pod := f.usual(r, kit.GPUs(int64(cards)))
		for i := range 12 {
			node := rapid.SampledFrom(f.infos).Draw(r, "node").Node().Name
			uid := ledger.PodUID(fmt.Sprint("held-", node))
			if _, _, held := f.engine.Ledger().Holding(uid); held {
				f.engine.Ledger().Forget(uid)
			} else {
				f.take(t, string(uid), node, rapid.IntRange(1, 8).Draw(r, "taken"))
			}
			few, all := f.few(r, pod), f.feasible(t, pod)
			if want := min(shortlistLength, len(all)); len(few) != want {
				r.Fatalf("step %d: looks at %d nodes, want %d of %d that serve", i, len(few), want, len(all))
			}
			scores := f.scores(t, pod, all)
			best, chosen := int64(-1), int64(-1)
			for _, info := range all {
				name := info.Node().Name
				score := 2*f.gradeOf(t, pod, name) + scores[name]
				if best = max(best, score); few.Has(name) {
					chosen = max(chosen, score)
				}
			}
			if chosen != best {
				r.Fatalf("step %d: the best of the few nodes has %d points, the best of all %d", i, chosen, best)
			}
		}
	})
}

// gradeOf is GPUTopology's score where all rings are as wide.
func (f *fixture) gradeOf(t testing.TB, pod *v1.Pod, node string) int64 {
	t.Helper()
	asked, err := f.engine.RequestOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	a := f.engine.Ledger().Node(ledger.NodeName(node))
	_, quality, rejection, err := f.engine.Chooser().Assess(&a.View, asked)
	if err != nil || rejection != nil {
		t.Fatal(rejection, err)
	}
	grade := a.View.Grade(quality, false)
	return grade.Final(max(0, grade.Bottleneck()))
}

// TestShortlistOfOtherRequests: shares and MIG instances have lists too, of nodes that serve.
func TestShortlistOfOtherRequests(t *testing.T) {
	f := newFixture(t, append(racked(2, 10, 2, kit.N8s), kit.Node("mig", kit.N8m("mig")))).inFront()
	if got := f.few(t, f.usual(t, kit.VRAM(1024, 1))); len(got) != shortlistLength || got.Has("mig") {
		t.Errorf("a share is looked at on %v, want %d nodes of whole cards", got, shortlistLength)
	}
	if got := f.few(t, f.usual(t, kit.Resource("nvidia.com/mig-1g.10gb", 1))); !got.Equal(sets.New("mig")) {
		t.Errorf("an instance is looked at on %v, want the node in MIG mode", got)
	}
}

// TestShortlistKinds: what was asked for once has no list, and of more kinds than are kept none is made in vain.
func TestShortlistKinds(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s)).inFront()
	shares := func(i int) *v1.Pod { return kit.Pod("ns", "p", kit.UID("p"), kit.VRAM(int64(1000+i), 1)) }
	if f.few(t, shares(0)) != nil || f.few(t, shares(0)) == nil {
		t.Error("the first pod of a kind has a list, or the second has none")
	}
	renamed := shares(0)
	renamed.Spec.Containers[0].Name = "other"
	if f.few(t, renamed) == nil {
		t.Error("a pod whose container has another name has no list")
	}
	for round := range 2 {
		for i := range maxKinds + 1 {
			if f.few(t, shares(100+i)) != nil {
				t.Fatalf("round %d: kind %d has a list, though %d others were asked for since", round, i, maxKinds)
			}
		}
	}
}

// TestShortlistPassesOverNodes: nodes that do not serve make no place for others on the list.
func TestShortlistPassesOverNodes(t *testing.T) {
	for name, spoil := range map[string]func(*v1.Node){
		"cordoned":     func(n *v1.Node) { n.Spec.Unschedulable = true },
		"tainted":      func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} },
		"not selected": func(n *v1.Node) { n.Labels["disk"] = "hdd" },
		"no CPU":       func(n *v1.Node) { n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("1") },
		"no memory":    func(n *v1.Node) { n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("1Gi") },
		"no pods":      func(n *v1.Node) { n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("0") },
		"no RDMA":      func(n *v1.Node) { delete(n.Status.Allocatable, "rdma/ib") },
	} {
		t.Run(name, func(t *testing.T) {
			nodes := racked(2, 80, 2, kit.N8s)
			for i, n := range nodes {
				n.Labels["disk"] = "ssd"
				n.Status.Allocatable["rdma/ib"] = resource.MustParse("8")
				if i < 78 {
					spoil(n)
				}
			}
			f := newFixture(t, nodes).inFront()
			f.take(t, "a", "r1n1", 4) // the rack to fill up
			pod := f.usual(t, kit.GPUs(1), kit.Resource(v1.ResourceCPU, 2), kit.Resource(v1.ResourceMemory, 2<<30), kit.Resource("rdma/ib", 1),
				func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
			got := f.few(t, pod)
			if len(got) < shortlistLeast || len(got) > shortlistLength {
				t.Errorf("looks at %d nodes, want %d to %d", len(got), shortlistLeast, shortlistLength)
			}
			for i := range 78 {
				if got.Has(nodes[i].Name) {
					t.Errorf("looks at %s", nodes[i].Name)
				}
			}
			if !got.Has("r1n79") || !got.Has("r1n80") {
				t.Errorf("looks at %v, want what serves of the first rack among them", sets.List(got))
			}
		})
	}
}

// TestShortlistOfNone: where no node of the list serves, all are looked at, so that the filters say why.
func TestShortlistOfNone(t *testing.T) {
	nodes := racked(2, 20, 2, kit.N8s)
	for _, n := range nodes {
		n.Spec.Unschedulable = true
	}
	f := newFixture(t, nodes).inFront()
	if got := f.few(t, f.usual(t, kit.GPUs(1))); got != nil {
		t.Errorf("looks at %v, want all nodes", got)
	}
}

// TestWideOf: for whom all nodes are looked at.
func TestWideOf(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s)).inFront()
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "served"}}}
	if _, err := f.client.CoreV1().Services("ns").Create(f.ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "the Service is known", func() bool {
		all, err := f.services.Services("ns").Get("s")
		return err == nil && all != nil
	})
	owned := func(version, kind string) func(*v1.Pod) {
		yes := true
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "o", Controller: &yes}}
		}
	}
	here := v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}
	for name, volume := range map[string]v1.PersistentVolume{
		"shared": {}, "local": {Spec: v1.PersistentVolumeSpec{NodeAffinity: &here}}, "zonal": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: "z"}}},
	} {
		volume.Name = name
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: name}}
		if _, err := f.client.CoreV1().PersistentVolumes().Create(f.ctx, &volume, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.CoreV1().PersistentVolumeClaims("ns").Create(f.ctx, claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.eventually(t, "the volume is known", func() bool {
			_, unbound := f.claims.PersistentVolumeClaims("ns").Get(name)
			_, missing := f.volumes.Get(name)
			return unbound == nil && missing == nil
		})
	}
	unbound := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "unbound", Namespace: "ns"}}
	if _, err := f.client.CoreV1().PersistentVolumeClaims("ns").Create(f.ctx, unbound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "the claim is known", func() bool {
		_, err := f.claims.PersistentVolumeClaims("ns").Get("unbound")
		return err == nil
	})
	claim := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		}
	}
	volume := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} }
	}
	affinity := func(a v1.Affinity) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Affinity = &a } }
	port := v1.ContainerPort{ContainerPort: 80, HostPort: 80}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		wide   bool
	}{
		"nothing":        {func(*v1.Pod) {}, false},
		"a Job's":        {owned("batch/v1", "Job"), false},
		"a volume":       {volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), false},
		"a port":         {func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}} }, false},
		"a selector":     {affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: leafKey, Operator: v1.NodeSelectorOpExists}}}}}}}), false},
		"a ReplicaSet's": {owned("apps/v1", "ReplicaSet"), true}, "a StatefulSet's": {owned("apps/v1", "StatefulSet"), true}, "an RC's": {owned("v1", "ReplicationController"), true},
		"a Service's":     {func(p *v1.Pod) { p.Labels = map[string]string{"app": "served"} }, true},
		"a shared volume": {claim("shared"), false},
		"a local volume":  {claim("local"), true}, "a zonal volume": {claim("zonal"), true}, "a claim unbound": {claim("unbound"), true}, "a claim unknown": {claim("none"), true},
		"an own claim":    {volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}), true},
		"a device":        {func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d"}} }, true},
		"a host port":     {func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{port} }, false},
		"a spread":        {func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{}} }, true},
		"near pods":       {affinity(v1.Affinity{PodAffinity: &v1.PodAffinity{}}), true},
		"far from pods":   {affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}), true},
		"preferred nodes": {affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1}}}}), true},
		"promised a node": {func(p *v1.Pod) { p.Status.NominatedNodeName = "r1n1" }, true},
		"a member":        {func(p *v1.Pod) { p.Labels = map[string]string{v1alpha1.PodGroupLabel: "g"} }, true},
	} {
		pod := f.usual(t, kit.GPUs(1))
		c.change(pod)
		if got := f.few(t, pod) == nil; got != c.wide {
			t.Errorf("%s: looks at all nodes: %t, want %t", name, got, c.wide)
		}
	}
}

// TestNoShortlist: what keeps the plugin from naming nodes to anybody.
func TestNoShortlist(t *testing.T) {
	t.Run("not before preemption", func(t *testing.T) {
		f := newFixture(t, racked(1, 2, 1, kit.N8s))
		if got := f.few(t, f.usual(t, kit.GPUs(1))); got != nil {
			t.Errorf("looks at %v, want all nodes: nobody would hear that none of these serves", got)
		}
	})
	t.Run("hints", func(t *testing.T) {
		nodes := racked(1, 2, 1, kit.N8s)
		nodes[0].Annotations[v1alpha1.NCCLHintAnnotation] = `{"nvlinkBandwidth":0.9}`
		f := newFixture(t, nodes).inFront()
		f.eventually(t, "the hint is known", f.engine.Hinted)
		if got := f.few(t, f.usual(t, kit.GPUs(1))); got != nil {
			t.Errorf("looks at %v, want all nodes: what a hint says is in no list", got)
		}
	})
	t.Run("cycle of a group", func(t *testing.T) {
		f := newFixture(t, racked(1, 2, 1, kit.N8s)).inFront()
		pod, state := f.usual(t, kit.GPUs(1)), framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(framework.NewCycleState())
		if _, status := f.PreFilter(f.ctx, state, pod, f.infos); !status.IsSkip() {
			t.Errorf("PreFilter: %v, want skip", status)
		}
	})
}

// TestShortlistFails: a pod that none of its few nodes served is tried on all nodes next, and nobody is evicted before.
func TestShortlistFails(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s)).inFront()
	pod, state := f.usual(t, kit.GPUs(1)), framework.NewCycleState()
	if _, status := f.PreFilter(f.ctx, state, pod, f.infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	failed, err := testutil.GetCounterMetricValue(metrics.Shortlists.WithLabelValues(metrics.ShortlistFailed))
	if err != nil {
		t.Fatal(err)
	}
	if _, status := f.PostFilter(f.ctx, state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("PostFilter: %v, want one that ends preemption", status)
	}
	if f.activated.of("p") == 0 {
		t.Error("nobody wants the pod tried again while its attempt ends")
	}
	f.eventually(t, "the pod is tried again when its attempt has ended", func() bool { return f.activated.of("p") == 2 })
	if n, err := testutil.GetCounterMetricValue(metrics.Shortlists.WithLabelValues(metrics.ShortlistFailed)); err != nil || n != failed+1 {
		t.Errorf("%f lists failed by the metric, want %f (%v)", n, failed+1, err)
	}
	again := framework.NewCycleState()
	if _, status := f.PreFilter(f.ctx, again, pod, f.infos); !status.IsSkip() {
		t.Errorf("PreFilter after that: %v, want all nodes", status)
	}
	if _, status := f.PostFilter(f.ctx, again, pod, nil); status.Code() != fwk.Unschedulable || f.activated.of("p") != 2 {
		t.Errorf("PostFilter after that: %v, want one that leaves it to preemption", status)
	}
}

// TestShortlistSpreads: where GPUTopology spreads pods over nodes, the list begins with empty ones.
func TestShortlistSpreads(t *testing.T) {
	f := newFixture(t, racked(1, 20, 1, kit.N8s)).inFront()
	f.engine.Profile(kit.SchedulerName).NodePacking = config.NodePackingSpread
	var used []string
	for i := range 10 {
		used = append(used, f.infos[i].Node().Name)
		f.take(t, fmt.Sprint("held-", i), used[i], 4)
	}
	if got := f.few(t, f.usual(t, kit.GPUs(1))); got.HasAny(used...) || len(got) != shortlistLength {
		t.Errorf("looks at %v, want none of %v", sets.List(got), used)
	}
}

// TestShortlistPassesOverTakenPorts: a node whose host port is in use makes no place on the list.
func TestShortlistPassesOverTakenPorts(t *testing.T) {
	listen := func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 29500, HostPort: 29500, Protocol: v1.ProtocolTCP}}
	}
	nodes, placed := racked(1, 16, 1, kit.N8s), []*v1.Pod{}
	for _, n := range nodes[:12] {
		placed = append(placed, kit.Pod("ns", "on-"+n.Name, kit.UID("on-"+n.Name), kit.OnNode(n.Name), listen))
	}
	f := newFixture(t, nodes, placed...).inFront()
	if got, want := f.few(t, f.usual(t, kit.GPUs(1), listen)), sets.New("r1n13", "r1n14", "r1n15", "r1n16"); !got.Equal(want) {
		t.Errorf("looks at %v, want %v", sets.List(got), sets.List(want))
	}
}

// TestShortlistKeepsToDialects: a node whose cards a record dialect cannot name makes no place on the list.
func TestShortlistKeepsToDialects(t *testing.T) {
	nodes := racked(1, 4, 1, kit.N8s)
	nodes[0] = racked(1, 1, 1, func(name string) topology.Spec {
		spec := kit.N8s(name)
		for i := range spec.Cards {
			spec.Cards[i].UUID = ""
		}
		return spec
	})[0]
	f := newFixture(t, nodes).inFront()
	f.engine.Profile(kit.SchedulerName).RecordDialects = []string{"hami"}
	if got := f.few(t, f.usual(t, kit.GPUs(1))); got.Has("r1n1") || len(got) != 3 {
		t.Errorf("looks at %v, want the three nodes whose cards have UUIDs", sets.List(got))
	}
}

// TestShortlistKeepsOffFailingNodes: a node whose kubelet lately failed GPU pods makes no place on the list.
func TestShortlistKeepsOffFailingNodes(t *testing.T) {
	f := newFixture(t, racked(1, 4, 1, kit.N8s)).inFront()
	pod := f.usual(t, kit.GPUs(1))
	if got := f.few(t, pod); len(got) != 4 {
		t.Fatalf("looks at %v, want all four nodes", sets.List(got))
	}
	for i := range 3 {
		name := fmt.Sprint("refused-", i)
		refused := kit.Pod("ns", name, kit.UID(name), kit.GPUs(1), kit.OnNode("r1n1"))
		refused.Status.Phase, refused.Status.Reason = v1.PodFailed, "UnexpectedAdmissionError"
		if _, err := f.client.CoreV1().Pods("ns").Create(f.ctx, refused, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.eventually(t, "the node is avoided", func() bool { return f.engine.Observer().Avoided("r1n1") })
	if got := f.few(t, pod); got.Has("r1n1") || len(got) != 3 {
		t.Errorf("looks at %v, want the three other nodes", sets.List(got))
	}
}
