package nccltopology

import (
	"errors"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestShortlistAsksTheFilters: nodes in front of the list that a filter refuses make no place on it, and once one passes the rest is
// left to the cycle.
func TestShortlistAsksTheFilters(t *testing.T) {
	f := newFixture(t, racked(1, 16, 1, kit.N8s)).inFront()
	asked := map[string]int{}
	f.filters.status = func(node string) *fwk.Status {
		asked[node]++
		switch node {
		case "r1n1", "r1n10", "r1n16": // the first of the fabric's order, which is that of names, and a later one
			return fwk.NewStatus(fwk.Unschedulable, "not here")
		}
		return nil
	}
	got := f.few(t, f.usual(t, kit.GPUs(1)))
	if want := sets.New("r1n11", "r1n12", "r1n13", "r1n14", "r1n15", "r1n16"); !got.Equal(want) {
		t.Errorf("looks at %v, want %v", sets.List(got), sets.List(want))
	}
	if asked["r1n1"] == 0 || asked["r1n11"] == 0 || asked["r1n12"] != 0 {
		t.Errorf("filters were asked about %v, want those up to the first that passes", asked)
	}
}

// TestShortlistOfFiltersThatRefuse: where the filters refuse many nodes, all are looked at.
func TestShortlistOfFiltersThatRefuse(t *testing.T) {
	f := newFixture(t, racked(4, 20, 4, kit.N8s)).inFront()
	for n, want := range map[int]int{shortlistRefused: shortlistLength, shortlistRefused + 1: 0} {
		refused := sets.New[string]()
		f.filters.status = func(node string) *fwk.Status {
			if refused.Has(node) || len(refused) < n {
				refused.Insert(node)
				return fwk.NewStatus(fwk.Unschedulable, "not here")
			}
			return nil
		}
		if got := f.few(t, f.usual(t, kit.GPUs(1))); len(got) != want {
			t.Errorf("filters refuse %d nodes: looks at %v, want %d", n, sets.List(got), want)
		}
	}
}

// TestFiltersThatSitOut: a filter whose PreFilter has written is asked, another is not, and what the framework has noted of filters that
// sit out is left as it was.
func TestFiltersThatSitOut(t *testing.T) {
	listening := func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: 1, Protocol: v1.ProtocolTCP}}
	}
	f := newFixture(t, racked(1, 2, 1, kit.N8s), kit.Pod("ns", "there", kit.UID("there"), kit.OnNode("r1n1"), listening)).inFront()
	plugin, err := nodeports.New(f.ctx, nil, nil, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	ports, ok := plugin.(fwk.PreFilterPlugin)
	if !ok {
		t.Fatal("NodePorts has no PreFilter")
	}
	pod, state, before := kit.Pod("ns", "p", kit.UID("p"), kit.GPUs(1), listening), framework.NewCycleState(), sets.New("Other")
	state.SetSkipFilterPlugins(before)
	if ok, known := f.passes(f.ctx, state, pod, f.infos[0]); !ok || !known {
		t.Errorf("before NodePorts has written: passes %t, known %t", ok, known)
	}
	if _, status := ports.PreFilter(f.ctx, state, pod, f.infos); !status.IsSuccess() {
		t.Fatal(status)
	}
	if ok, known := f.passes(f.ctx, state, pod, f.infos[0]); ok || !known {
		t.Errorf("the port is taken: passes %t, known %t", ok, known)
	}
	if got := state.GetSkipFilterPlugins(); !got.Equal(before) {
		t.Errorf("filters that sit out: %v, want %v", got, before)
	}
}

// TestFilterThatFails: where a filter fails, the cycle is left to tell of it.
func TestFilterThatFails(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s)).inFront()
	f.filters.status = func(string) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }
	if got := f.few(t, f.usual(t, kit.GPUs(1))); got != nil {
		t.Errorf("looks at %v, want all nodes", sets.List(got))
	}
}

// TestWidenedForgetsWhoIsGone: pods that none of a few nodes served are remembered while they wait, however many they are, and no
// longer.
func TestWidenedForgetsWhoIsGone(t *testing.T) {
	const pods = 3 * widenedSlack
	f := newFixture(t, racked(1, 1, 1, kit.N8s)).inFront()
	waiting := make([]*v1.Pod, pods)
	for i := range waiting {
		waiting[i] = kit.Pod("ns", "w"+strconv.Itoa(i), kit.UID("w"+strconv.Itoa(i)))
		if _, err := f.client.CoreV1().Pods("ns").Create(f.ctx, waiting[i], metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.eventually(t, "the pods are known", func() bool {
		_, err := f.widened.lister.Pods("ns").Get(waiting[pods-1].Name)
		return err == nil
	})
	for _, pod := range waiting {
		f.widened.add(pod)
	}
	for _, pod := range waiting {
		if !f.widened.has(pod) {
			t.Fatalf("pod %s waits and is forgotten", pod.Name)
		}
	}
	for i := range 3 * pods {
		f.widened.add(kit.Pod("ns", "gone", kit.UID("gone-"+strconv.Itoa(i))))
	}
	if n := len(f.widened.pods); n > 3*pods+widenedSlack {
		t.Errorf("%d pods are remembered, of %d that wait", n, pods)
	}
}

// TestShortlistLeavesTheChoice: a node with a taint that says that others are preferred is on the list beside others, whose place it
// does not take.
func TestShortlistLeavesTheChoice(t *testing.T) {
	nodes := racked(2, 12, 2, kit.N8s)
	for _, n := range nodes[:12] {
		n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectPreferNoSchedule}}
	}
	f := newFixture(t, nodes).inFront()
	f.take(t, "a", "r1n1", 4) // the rack to fill up is the tainted one
	count := func(options ...kit.PodOption) [2]int {
		var out [2]int
		for name := range f.few(t, f.usual(t, append(options, kit.GPUs(1))...)) {
			out[name[1]-'1']++
		}
		return out
	}
	if got := count(); got != [2]int{shortlistLength, shortlistLength} {
		t.Errorf("looks at %v nodes of the racks, want as many of both", got)
	}
	tolerant := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }
	if got := count(tolerant); got != [2]int{shortlistLength, 0} {
		t.Errorf("a pod that tolerates it is looked at on %v nodes of the racks", got)
	}
}

// TestShortlistsFollowEveryChange: lists of all kinds follow the ledger, whichever was asked for last, also where more has changed than
// the ledger remembers, and where the fabric is another one.
func TestShortlistsFollowEveryChange(t *testing.T) {
	f := newFixture(t, racked(2, 2, 2, kit.N8s)).inFront()
	one, five := f.usual(t, kit.GPUs(1)), f.usual(t, kit.GPUs(5))
	want := func(when string, pod *v1.Pod, nodes ...string) {
		t.Helper()
		if got := f.few(t, pod); !got.Equal(sets.New(nodes...)) {
			t.Errorf("%s: looks at %v, want %v", when, sets.List(got), nodes)
		}
	}
	all := []string{"r1n1", "r1n2", "r2n1", "r2n2"}
	want("at first", one, all...)
	want("at first", five, all...)
	f.take(t, "a", "r1n1", 8)
	want("a node is full", one, all[1:]...)
	want("a node is full, the other kind", five, all[1:]...)
	for range 1500 { // the ledger remembers 1024
		f.take(t, "b", "r2n2", 4)
		f.engine.Ledger().Forget("b")
	}
	f.take(t, "b", "r2n2", 4)
	f.engine.Ledger().Forget("a")
	want("much has changed", one, all...)
	want("much has changed, the other kind", five, all[:3]...)
	moved := racked(3, 1, 3, kit.N8s)[2]
	if _, err := f.client.CoreV1().Nodes().Create(f.ctx, moved, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "the node is known", func() bool {
		_, known := f.engine.Fabric().Position("r3n1")
		return known && f.engine.Ledger().Node("r3n1") != nil
	})
	f.take(t, "c", "r2n1", 8)
	want("the fabric is another one", one, "r1n1", "r1n2", "r2n2")
	want("the fabric is another one, the other kind", five, "r1n1", "r1n2")
}

// TestShortlistKindsStay: of more kinds than are kept, those that were asked for last are.
func TestShortlistKindsStay(t *testing.T) {
	f := newFixture(t, racked(1, 2, 1, kit.N8s)).inFront()
	share := func(i int) *v1.Pod { return kit.Pod("ns", "p", kit.UID("p"), kit.VRAM(int64(1000+i), 1)) }
	f.few(t, share(0))
	for i := range maxKinds {
		f.few(t, share(1+i))
		if f.few(t, share(0)) == nil {
			t.Fatalf("a kind asked for all the time has no list after %d others", i+1)
		}
	}
}

// profiled is a handle that lists plugins.
type profiled struct {
	fwk.Handle
	plugins schedconfig.Plugins
}

func (p *profiled) ListPlugins() *schedconfig.Plugins { return &p.plugins }

// TestMayName: the plugin names nodes where its PostFilter stands before preemption, by the weights of the profile.
func TestMayName(t *testing.T) {
	set := func(names ...string) schedconfig.PluginSet {
		var out schedconfig.PluginSet
		for i, name := range names {
			out.Enabled = append(out.Enabled, schedconfig.Plugin{Name: name, Weight: int32(10 - 3*i)})
		}
		return out
	}
	for name, c := range map[string]struct {
		postFilter, score schedconfig.PluginSet
		want              bool
		weights           placement.Weights
	}{
		"before":          {set("Coscheduling", Name, names.DefaultPreemption), set(engine.CardsName, Name), true, placement.Weights{Own: 10, Domain: 7}},
		"no preemption":   {set(Name), set(Name), true, placement.Weights{Domain: 10}},
		"after":           {set("Coscheduling", names.DefaultPreemption, Name), set(engine.CardsName, Name), false, placement.Weights{}},
		"not at all":      {set("Coscheduling", names.DefaultPreemption), set(engine.CardsName, Name), false, placement.Weights{}},
		"no scores count": {set(Name, names.DefaultPreemption), set("ImageLocality"), false, placement.Weights{}},
	} {
		f := newFixture(t, racked(1, 1, 1, kit.N8s))
		f.handle = &profiled{Handle: f.handle, plugins: schedconfig.Plugins{PostFilter: c.postFilter, Score: c.score}}
		if got := f.mayName(f.ctx); got != c.want || f.lists.weights != c.weights {
			t.Errorf("%s: names nodes: %t by %+v, want %t by %+v", name, got, f.lists.weights, c.want, c.weights)
		}
	}
}
