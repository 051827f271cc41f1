package observe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB056TombstoneAsksForASweep: a delete that was missed shows that a watch was broken, whatever it says of the pod.
func TestCaseB056TombstoneAsksForASweep(t *testing.T) {
	pod := boundPod(t, "u", "n1", 0, 1)
	tests := map[string]struct {
		event any
		want  int
	}{
		"with its pod":           {cache.DeletedFinalStateUnknown{Key: "ns/pod-u", Obj: pod}, 1},
		"with nothing":           {cache.DeletedFinalStateUnknown{Key: "ns/pod-u"}, 1},
		"with a foreign object":  {cache.DeletedFinalStateUnknown{Key: "ns/pod-u", Obj: &v1.Service{}}, 1},
		"a delete that was seen": {pod, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			w.putPod(t, pod)
			asked := 0
			relistHandler{w.podHandler(), func() { asked++ }}.OnDelete(tt.event)
			if asked != tt.want {
				t.Errorf("%d sweeps were asked for, want %d", asked, tt.want)
			}
			relistHandler{w.podHandler(), nil}.OnDelete(tt.event) // nobody wants to know
		})
	}
}

// TestGPUPods: the living bound pods that may hold GPUs, each once, and no other.
func TestGPUPods(t *testing.T) {
	w := newWorld(t)
	claim := func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c"}} }
	var want []string
	for name, tt := range map[string]struct {
		options []kit.PodOption
		want    bool
	}{
		"recorded":        {[]kit.PodOption{kit.GPUs(1), recorded(t, "n1", 0)}, true},
		"foreign":         {[]kit.PodOption{kit.GPUs(1)}, true},
		"record alone":    {[]kit.PodOption{recorded(t, "n1", 0)}, true},
		"instance":        {[]kit.PodOption{kit.Resource("nvidia.com/mig-1g.10gb", 1)}, true},
		"share":           {[]kit.PodOption{kit.VRAM(1000, 1)}, true},
		"claim":           {[]kit.PodOption{claim}, true},
		"without GPUs":    {nil, false},
		"succeeded":       {[]kit.PodOption{kit.GPUs(1), phase(v1.PodSucceeded)}, false},
		"node-not-chosen": {[]kit.PodOption{kit.GPUs(1), kit.OnNode("")}, false},
	} {
		pod := kit.Pod("ns", name, append([]kit.PodOption{kit.UID(name), kit.OnNode("n1")}, tt.options...)...)
		if err := w.podStore.Add(pod); err != nil {
			t.Fatal(err)
		}
		if tt.want {
			want = append(want, name)
		}
	}
	for i := range 2 * buckets { // every bucket has some
		name := fmt.Sprintf("p%04d", i)
		want = append(want, name)
		if err := w.podStore.Add(kit.Pod("ns", name, kit.UID(name), kit.GPUs(1), kit.OnNode("n2"))); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for pod := range w.GPUPods() {
		got = append(got, pod.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for range w.GPUPods() {
		break // a reader may stop
	}
}

func TestLiving(t *testing.T) {
	w := newWorld(t)
	for _, pod := range []*v1.Pod{
		kit.Pod("ns", "p", kit.UID("u")), kit.Pod("ns", "ended", kit.UID("e"), phase(v1.PodFailed)),
	} {
		if err := w.podStore.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[[2]string]bool{
		{"ns/p", "u"}: true, {"ns/p", "u2"}: false, {"ns/q", "u"}: false, {"", "u"}: false, {"ns/ended", "e"}: false,
	} {
		if got := w.Living(id[0], ledger.PodUID(id[1])) != nil; got != want {
			t.Errorf("Living(%q, %q) is %t, want %t", id[0], id[1], got, want)
		}
	}
}

// TestPrint: another number for everything that Charge may depend on, and none where versions are not known.
func TestPrint(t *testing.T) {
	w := newWorld(t)
	claims := w.factory.Resource().V1().ResourceClaims().Informer().GetStore()
	name := "claim"
	pod := boundPod(t, "u", "n1", 0)
	if got, lasting := w.Print(pod); got != 0 || lasting {
		t.Errorf("%d, lasting %t, for a pod without a version", got, lasting)
	}
	last := uint64(0)
	check := func(what string, wantNew bool) {
		t.Helper()
		got, lasting := w.Print(pod)
		if again, _ := w.Print(pod.DeepCopy()); got == 0 || (got != last) != wantNew || again != got {
			t.Errorf("%s: %d after %d, want a new one: %t", what, got, last, wantNew)
		}
		if want := len(pod.Spec.ResourceClaims) == 0; lasting != want {
			t.Errorf("%s: lasting %t, want %t", what, lasting, want)
		}
		last = got
	}
	pod.ResourceVersion = "1"
	check("version", true)
	check("again", false)
	pod.ResourceVersion = "2"
	check("next version", true)
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	check("a claim that is not seen", true)
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "c", ResourceVersion: "1"}}
	if err := claims.Add(claim); err != nil {
		t.Fatal(err)
	}
	check("the claim", true)
	claim = claim.DeepCopy()
	claim.ResourceVersion = "2"
	if err := claims.Update(claim); err != nil {
		t.Fatal(err)
	}
	check("the claim changed", true)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	check("the node is known, and offers no claims", true)
}

// TestRereadSeen: a node that was told of at this version needs no look; one of which an event was lost, that has grown too old,
// or that slices describe, gets one.
func TestRereadSeen(t *testing.T) {
	w := newWorld(t)
	node := kit.Node("n1", kit.N8s("n1"))
	node.ResourceVersion = "1"
	w.putNode(t, node)
	see := func(what string, node *v1.Node, wantBefore, wantAfter int) {
		t.Helper()
		before, after := w.RereadSeen(node)
		got := [2]int{-1, -1}
		for i, a := range []*ledger.NodeGPUAllocation{before, after} {
			if a != nil {
				got[i] = a.Free.Len()
			}
		}
		if got != [2]int{wantBefore, wantAfter} {
			t.Errorf("%s: %v cards are free, want %d and %d", what, got, wantBefore, wantAfter)
		}
	}
	see("told of", node, 8, 8)
	smaller := kit.Node("n1", kit.N2("n1"))
	smaller.ResourceVersion = "2"
	w.must(t, w.nodeStore.Update(smaller))
	see("an older one, of which the ledger has heard", node, 8, 8)
	see("an event was lost", smaller, 8, 2)
	see("told of by then", smaller, 2, 2)
	w.must(t, w.nodeStore.Delete(smaller))
	see("it goes while a sweep has it", smaller, 2, 2)
	see("another version of one that is gone", node, 2, -1)
	see("gone, and not known", node, -1, -1)
}

// TestRestore: only where the ledger takes the pod for gone, and once.
func TestRestore(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	pod := boundPod(t, "u", "n1", 2)
	if w.Restore(pod) {
		t.Error("restored a pod that nobody took for gone")
	}
	w.putPod(t, pod)
	w.ledger.Release("u")
	w.PodSeen(pod)
	w.wantHolding(t, "u", "", 0)
	if !w.Restore(pod) || w.Restore(pod) {
		t.Error("want it restored the first time and not the second")
	}
	w.wantHolding(t, "u", "n1", 0, 2)
	if w.Restore(kit.Pod("ns", "cpu", kit.UID("cpu"), kit.OnNode("n1"))) {
		t.Error("restored a pod without GPUs")
	}
}

// TestGone: by a name that cannot be read too.
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.putNode(t, kit.Node("n1", kit.N8s("n1")))
	for _, name := range []string{"ns/pod", "no namespace", ""} {
		h := ledger.Holding{UID: "u-" + ledger.PodUID(name), Pod: name, Node: "n1", UnknownCards: 1}
		if err := w.ledger.Adopt(h); err != nil {
			t.Fatal(err)
		}
		w.Gone(name, h.UID, "n1")
		w.wantHolding(t, h.UID, "", 0)
	}
	w.wantFree(t, "n1", 8)
}
