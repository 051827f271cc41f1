package inventory

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// heartbeat returns the node as the API delivers it after an update that concerns no GPU: all of it new.
func heartbeat(n *v1.Node) *v1.Node {
	out := n.DeepCopy()
	for key, value := range out.Annotations {
		out.Annotations[key] = strings.Clone(value)
	}
	out.ResourceVersion += "1"
	out.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return out
}

func TestCacheHeartbeat(t *testing.T) {
	c := NewCache(Options{})
	node := annotated(t, n8s(), strs{"nvidia.com/gpu": "8"})
	first, changed := c.Resolve(node, nil, time.Time{})
	if !changed {
		t.Error("the first call reports no change")
	}
	again, changed := c.Resolve(heartbeat(node), nil, time.Time{})
	if changed || again.Topology != first.Topology {
		t.Errorf("a heartbeat made a new topology (changed: %v)", changed)
	}
	if allocs := testing.AllocsPerRun(100, func() { c.Resolve(node, nil, time.Time{}) }); allocs > 0 {
		t.Errorf("a heartbeat costs %v allocations", allocs)
	}
}

// TestCacheKnowsVersions: a version that was read is not read again, and everything else that the answer depends on still is:
// whose version it is, the slices, and the time.
func TestCacheKnowsVersions(t *testing.T) {
	observed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	value, err := v1alpha1.FormatTopologyAt(n8s(), observed)
	if err != nil {
		t.Fatal(err)
	}
	at := func(version string, uid types.UID) *v1.Node {
		n := topo(value)
		n.ResourceVersion, n.UID = version, uid
		return n
	}
	c := NewCache(Options{MaxAge: 15 * time.Minute})
	steps := []struct {
		name        string
		node        *v1.Node
		list        sliceList
		after       time.Duration
		wantChanged bool
	}{
		{"new", at("7", "u"), nil, 0, true},
		{"the version that was read", silent(at("7", "u")), nil, 0, false},
		{"another version, the same words", at("8", "u"), nil, 0, false},
		{"that version again", silent(at("8", "u")), nil, 0, false},
		{"without a version", at("", "u"), nil, 0, false},
		{"of another node of that name", at("8", "v"), nil, 0, true},
		{"it grows stale", at("8", "v"), nil, 16 * time.Minute, true},
		{"slices come", silent(at("8", "v")), dra8(), 16 * time.Minute, true},
	}
	for _, s := range steps {
		if _, changed := c.Resolve(s.node, s.list, observed.Add(s.after)); changed != s.wantChanged {
			t.Errorf("%s: changed %t, want %t", s.name, changed, s.wantChanged)
		}
	}
}

// silent is a node that says nothing: where the answer stays the same, nobody has looked.
func silent(n *v1.Node) *v1.Node {
	n.Annotations = nil
	return n
}

// TestInputsCoverSources changes everything that the sources read, one by one: the cache must see each.
func TestInputsCoverSources(t *testing.T) {
	base := func() (*v1.Node, sliceList) {
		labels := with(gfdLabels(h100Label, 3), "nvidia.com/mig-7g.80gb.count", "1")
		return newNode(strs{}, labels, strs{"nvidia.com/gpu": "2", "nvidia.com/gpu^": "2"}), nil
	}
	changes := map[string]func(n *v1.Node, s *sliceList){
		"annotation": func(n *v1.Node, _ *sliceList) { n.Annotations[v1alpha1.TopologyAnnotation] = `{"v":1,"cards":[{}]}` },
		"register":   func(n *v1.Node, _ *sliceList) { n.Annotations[annotationHAMiRegister] = hamiJSON(2, nil) },
		"score": func(n *v1.Node, _ *sliceList) {
			n.Annotations[annotationHAMiRegister] = hamiJSON(2, nil)
			n.Annotations[annotationHAMiScore] = scores(2, func(int, int) int { return 400 })
		},
		"cordon": func(n *v1.Node, _ *sliceList) { n.Annotations[annotationCordon] = "GPU-0" },
		"volcano": func(n *v1.Node, _ *sliceList) {
			n.Annotations[annotationVolcanoRegister] = "GPU-0,10,1,T4,true,hami-core:"
		},
		"product":         func(n *v1.Node, _ *sliceList) { n.Labels[labelProduct] = "NVIDIA-L40S" },
		"count":           func(n *v1.Node, _ *sliceList) { n.Labels[labelCount] = "1" },
		"memory":          func(n *v1.Node, _ *sliceList) { n.Labels[labelMemory] = "1" },
		"no memory":       func(n *v1.Node, _ *sliceList) { delete(n.Labels, labelMemory) },
		"replicas":        func(n *v1.Node, _ *sliceList) { n.Labels[labelReplicas] = "2" },
		"instances":       func(n *v1.Node, _ *sliceList) { n.Labels["nvidia.com/mig-7g.80gb.count"] = "2" },
		"instance memory": func(n *v1.Node, _ *sliceList) { n.Labels["nvidia.com/mig-7g.80gb.memory"] = "80000" },
		"allocatable":     func(n *v1.Node, _ *sliceList) { n.Status.Allocatable[resourceGPU] = *resourceOf(1) },
		"capacity": func(n *v1.Node, _ *sliceList) {
			n.Labels = nil
			n.Status.Capacity[resourceGPU] = *resourceOf(3)
		},
		"instances in status": func(n *v1.Node, _ *sliceList) { n.Status.Allocatable["nvidia.com/mig-7g.80gb"] = *resourceOf(0) },
		"shared resource":     func(n *v1.Node, _ *sliceList) { n.Status.Allocatable[resourceSharedGPU] = *resourceOf(3) },
		"Volcano's resource": func(n *v1.Node, _ *sliceList) {
			n.Annotations[annotationVolcanoRegister] = "GPU-0,10,1,T4,true,hami-core:"
			n.Status.Allocatable[resourceVolcanoGPU] = *resourceOf(0)
		},
		"slices": func(_ *v1.Node, s *sliceList) { *s = dra8() },
		"UID":    func(n *v1.Node, _ *sliceList) { n.UID = "another" },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			c := NewCache(Options{})
			node, list := base()
			c.Resolve(node, list, time.Time{})
			change(node, &list)
			got, changed := c.Resolve(node, list, time.Time{})
			if !changed {
				t.Error("the cache did not see the change")
			}
			if want := Resolve(node, list, Options{}); dump(got) != dump(want) {
				t.Errorf("the cache says\n%s, want\n%s", dump(got), dump(want))
			}
		})
	}
}

func TestCacheResourceSlices(t *testing.T) {
	c := NewCache(Options{})
	node := newNode(nil, nil, nil)
	list := dra8()
	for i, s := range list {
		s.UID, s.ResourceVersion = types.UID(fmt.Sprint(i)), "1"
	}
	first, _ := c.Resolve(node, list, time.Time{})
	same, changed := c.Resolve(heartbeat(node), sliceList{list[1].DeepCopy(), list[0].DeepCopy()}, time.Time{})
	if changed || same.Topology != first.Topology {
		t.Error("the same slices in another order made a new topology")
	}
	newer := list[1].DeepCopy()
	newer.ResourceVersion = "2"
	taint("NoExecute")(&newer.Spec.Devices[0])
	after, changed := c.Resolve(node, sliceList{list[0], newer}, time.Time{})
	if got := usable(after); !changed || got != "{0,1,2,3,5,6,7}" {
		t.Errorf("after a taint: changed %v, usable %s", changed, got)
	}
}

func TestCaseB098Cache(t *testing.T) {
	observed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	value, err := v1alpha1.FormatTopologyAt(n8s(), observed)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCache(Options{MaxAge: 15 * time.Minute})
	node := topo(value)
	steps := []struct {
		at          time.Duration
		wantChanged bool
		wantUsable  int
	}{
		{0, true, 8}, {10 * time.Minute, false, 8}, {15 * time.Minute, false, 8}, {16 * time.Minute, true, 0}, {time.Hour, false, 0},
		{5 * time.Minute, true, 8}, // the clock was set back
	}
	for _, s := range steps {
		res, changed := c.Resolve(node, nil, observed.Add(s.at))
		if changed != s.wantChanged || res.Topology.Usable().Len() != s.wantUsable {
			t.Errorf("after %s: changed %v, usable %s; want %v, %d cards", s.at, changed, res.Topology.Usable(), s.wantChanged, s.wantUsable)
		}
	}
	renewed, err := v1alpha1.FormatTopologyAt(n8s(), observed.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := c.Resolve(node, nil, observed.Add(5*time.Minute))
	after, changed := c.Resolve(topo(renewed), nil, observed.Add(5*time.Minute))
	if changed || after.Topology != before.Topology || !after.Until.After(before.Until) {
		t.Errorf("a renewed time: changed %v, until %s", changed, after.Until)
	}
}

// TestCaseB100CacheIsBounded makes and drops nodes whose names come back with other cards.
func TestCaseB100CacheIsBounded(t *testing.T) {
	c := NewCache(Options{})
	for round := range 5000 {
		node := newNode(nil, gfdLabels(h100Label, round%8+1), nil)
		node.Name, node.UID = fmt.Sprintf("n%d", round%3), types.UID(fmt.Sprint(round))
		res, changed := c.Resolve(node, nil, time.Time{})
		if !changed || res.Topology.Len() != round%8+1 {
			t.Fatalf("round %d: changed %v, %d cards", round, changed, res.Topology.Len())
		}
		if round%2 == 0 {
			c.Forget(node.Name)
		}
	}
	if c.Len() > 3 || len(c.shared) > c.Len() {
		t.Errorf("%d nodes and %d shared results are held", c.Len(), len(c.shared))
	}
	for i := range 3 {
		c.Forget(fmt.Sprintf("n%d", i))
		c.Forget("never seen")
	}
	if c.Len() != 0 || len(c.shared) != 0 {
		t.Errorf("%d nodes and %d shared results are left", c.Len(), len(c.shared))
	}
}

func TestCacheSharesTopologies(t *testing.T) {
	c := NewCache(Options{})
	labels := gfdLabels(h100Label, 8)
	seen := map[any]bool{}
	for i := range 100 {
		own := maps.Clone(labels)
		own["kubernetes.io/hostname"] = fmt.Sprint(i)
		node := newNode(nil, own, strs{"nvidia.com/gpu": "8"})
		node.Name = fmt.Sprint(i)
		res, _ := c.Resolve(node, nil, time.Time{})
		seen[res.Topology] = true
	}
	if len(seen) != 1 || len(c.shared) != 1 {
		t.Errorf("100 like nodes have %d topologies", len(seen))
	}
}

// TestCacheSharesKinds: nodes with cards of their own share all but the UUIDs, as long as one of them is there.
func TestCacheSharesKinds(t *testing.T) {
	c := NewCache(Options{})
	resolve := func(name string, change func(*topology.Spec)) *topology.Node {
		spec := kit.N8s(name)
		change(&spec)
		node := kit.Node(name, spec)
		res, _ := c.Resolve(node, nil, time.Time{})
		if got := res.Topology.Card(3).UUID; got != spec.Cards[3].UUID {
			t.Errorf("card 3 of node %s is %q, want %q", name, got, spec.Cards[3].UUID)
		}
		return res.Topology
	}
	usual := func(*topology.Spec) {}
	a, b := resolve("a", usual), resolve("b", usual)
	if a == b || a.Shape() != b.Shape() {
		t.Error("like nodes do not share what they have in common")
	}
	if d := resolve("d", func(s *topology.Spec) { s.Cards[0].Healthy = false }); d.Shape() == a.Shape() || d.Usable().Has(0) || !a.Usable().Has(0) {
		t.Error("a node with a sick card shares the others' memory")
	}
	if len(c.kinds) != 2 {
		t.Errorf("%d kinds are held, want 2", len(c.kinds))
	}
	if healed := resolve("d", usual); healed.Shape() != a.Shape() || len(c.kinds) != 1 {
		t.Errorf("after the card is well again %d kinds are held, want 1", len(c.kinds))
	}
	c.Forget("a")
	if e := resolve("e", usual); e.Shape() != b.Shape() {
		t.Error("the kind went with its first node")
	}
	for _, name := range []string{"b", "d", "e"} {
		c.Forget(name)
	}
	if len(c.kinds) != 0 {
		t.Errorf("%d kinds are held of no nodes", len(c.kinds))
	}
}

func TestCacheConcurrently(t *testing.T) {
	c := NewCache(Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				node := newNode(nil, gfdLabels(h100Label, i%2+1), nil)
				node.Name = fmt.Sprintf("n%d", g)
				if res, _ := c.Resolve(node, nil, time.Time{}); res.Topology.Len() != i%2+1 {
					t.Errorf("node %d, round %d: %d cards", g, i, res.Topology.Len())
				}
				if i%7 == 0 {
					c.Forget(node.Name)
				}
			}
		})
	}
	wg.Wait()
	if c.Len() != 8 || len(c.shared) != 1 {
		t.Errorf("%d nodes, %d shared results", c.Len(), len(c.shared))
	}
}

func BenchmarkCacheHeartbeat(b *testing.B) {
	gfd := newNode(nil, with(gfdLabels(h100Label, 8), "nvidia.com/mig.strategy", "mixed"), strs{"nvidia.com/gpu": "8", "nvidia.com/gpu^": "8", "cpu": "192", "memory": "2Ti"})
	for i := range 60 {
		gfd.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-%d", i)] = "true"
	}
	nodes := map[string]*v1.Node{
		"annotation": annotated(b, n8s(), strs{"nvidia.com/gpu": "8"}),
		"hami":       newNode(strs{annotationHAMiRegister: hamiJSON(8, nil), annotationHAMiScore: scores(8, func(int, int) int { return 1810 })}, nil, strs{"nvidia.com/gpu": "80"}),
		"gfd":        gfd,
	}
	for name, node := range nodes {
		b.Run(name, func(b *testing.B) {
			c := NewCache(Options{})
			next := heartbeat(node)
			c.Resolve(node, nil, time.Time{})
			b.ReportAllocs()
			for b.Loop() {
				c.Resolve(next, nil, time.Time{})
				next, node = node, next
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	tests := map[string]struct {
		node   *v1.Node
		slices sliceList
	}{
		"annotation":  {node: annotated(b, n8s(), strs{"nvidia.com/gpu": "8"})},
		"dra":         {node: newNode(nil, nil, nil), slices: dra8()},
		"hami":        {node: newNode(strs{annotationHAMiRegister: hamiJSON(8, nil), annotationHAMiScore: scores(8, func(int, int) int { return 1810 })}, nil, strs{"nvidia.com/gpu": "80"})},
		"gfd":         {node: newNode(nil, gfdLabels(h100Label, 8), strs{"nvidia.com/gpu": "8"})},
		"mixed MIG":   {node: newNode(nil, with(gfdLabels(h100Label, 8), "nvidia.com/mig-1g.10gb.count", "55"), strs{"nvidia.com/gpu": "0"})},
		"allocatable": {node: newNode(nil, nil, strs{"nvidia.com/gpu": "8"})},
		"no GPU":      {node: newNode(nil, nil, strs{"cpu": "8"})},
	}
	for name, tt := range tests {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Resolve(tt.node, tt.slices, Options{})
			}
		})
	}
}

func TestDescribes(t *testing.T) {
	tests := map[string]struct {
		node *v1.Node
		want bool
	}{
		"nothing":          {newNode(strs{"example.com/a": "b"}, strs{"kubernetes.io/hostname": "n1"}, strs{"cpu": "8"}), false},
		"annotation":       {topo("{}"), true},
		"empty label":      {newNode(nil, strs{labelProduct: ""}, nil), true},
		"MIG label":        {newNode(nil, strs{"nvidia.com/mig-1g.5gb.count": "1"}, nil), true},
		"capacity":         {newNode(nil, nil, strs{"nvidia.com/gpu^": "0"}), true},
		"another resource": {newNode(nil, nil, strs{"amd.com/gpu": "8"}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Describes(tt.node); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !tt.want && Resolve(tt.node, nil, Options{}).Topology != nil {
				t.Error("the node has cards")
			}
			if !SameInputs(tt.node, heartbeat(tt.node)) {
				t.Error("a heartbeat changes the inputs")
			}
			changed := heartbeat(tt.node)
			changed.Status.Allocatable = v1.ResourceList{resourceGPU: *resourceOf(77)}
			if SameInputs(tt.node, changed) {
				t.Error("another number of cards does not change the inputs")
			}
		})
	}
}
