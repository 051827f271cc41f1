package gputopology

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestHints asks every hint for both of its answers.
func TestHints(t *testing.T) {
	f := newFixture(t)
	waiting := kit.Pod("ns", "waiting", kit.UID("w"), kit.GPUs(2))
	node := kit.Node("n1", kit.N8s("n1"))
	change := func(edit func(*v1.Node)) *v1.Node {
		n := node.DeepCopy()
		edit(n)
		return n
	}
	slice := func(driver string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver}}
	}
	repaired := kit.Pod("ns", "waiting", kit.UID("w"), kit.GPUs(2), kit.Annotate(v1alpha1.NUMAPolicyAnnotation, v1alpha1.PolicyNone))
	tests := map[string]struct {
		hint     fwk.QueueingHintFn
		old, new any
		want     fwk.QueueingHint
	}{
		"a pod with GPUs ended":           {f.afterPodDeleted, kit.Pod("ns", "x", kit.GPUs(1)), nil, fwk.Queue},
		"a pod with a share ended":        {f.afterPodDeleted, kit.Pod("ns", "x", kit.VRAM(1000, 1)), nil, fwk.Queue},
		"a pod without GPUs ended":        {f.afterPodDeleted, kit.Pod("ns", "x"), nil, fwk.QueueSkip},
		"its own request changed":         {f.afterPodUpdated, waiting, repaired, fwk.Queue},
		"something else of it changed":    {f.afterPodUpdated, waiting, kit.Pod("ns", "waiting", kit.UID("w"), kit.GPUs(2), kit.Annotate("a", "b")), fwk.QueueSkip},
		"another pod changed":             {f.afterPodUpdated, kit.Pod("ns", "y", kit.UID("y")), kit.Pod("ns", "y", kit.UID("y"), kit.GPUs(1)), fwk.QueueSkip},
		"a GPU node came":                 {f.afterNodeChange, nil, node, fwk.Queue},
		"a node without GPUs came":        {f.afterNodeChange, nil, &v1.Node{}, fwk.QueueSkip},
		"a node offers fewer cards":       {f.afterNodeChange, node, change(func(n *v1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("7") }), fwk.Queue},
		"a node is described anew":        {f.afterNodeChange, node, change(func(n *v1.Node) { n.Annotations[v1alpha1.TopologyAnnotation] = `{"v":1,"cards":[]}` }), fwk.Queue},
		"a node has more CPU":             {f.afterNodeChange, node, change(func(n *v1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("9") }), fwk.QueueSkip},
		"the GPU driver published":        {f.afterSliceChange, nil, slice("gpu.nvidia.com"), fwk.Queue},
		"another driver published":        {f.afterSliceChange, nil, slice("nic.example.com"), fwk.QueueSkip},
		"the GPU driver withdrew a slice": {f.afterSliceChange, slice("gpu.nvidia.com"), nil, fwk.Queue},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.hint(klog.Background(), waiting, tt.old, tt.new)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("hint is %v, want %v", got, tt.want)
			}
		})
	}
}

// TestEveryEventHasAHint: an event without one would wake every waiting pod.
func TestEveryEventHasAHint(t *testing.T) {
	f := newFixture(t)
	events, err := f.EventsToRegister(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.QueueingHintFn == nil {
			t.Errorf("event %s has no hint", e.Event.Label())
		}
	}
}

// TestPodEndedHintLooksAtTheNode: of the pods that wait, those are woken that may use what came free.
func TestPodEndedHintLooksAtTheNode(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	holder := kit.Pod("ns", "holder", kit.UID("h"), kit.GPUs(4))
	state, _ := f.cycle(t, holder)
	if status := f.Reserve(f.ctx, state, holder, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	ended := kit.Pod("ns", "ended", kit.UID("e"), kit.GPUs(4), kit.OnNode("n1"))
	claimant := kit.Pod("ns", "ended", kit.UID("c"), kit.OnNode("n1"))
	claimant.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	member := kit.Pod("ns", "m", kit.UID("m"), kit.GPUs(8))
	member.Labels = map[string]string{v1alpha1.PodGroupLabel: "gang"}
	tests := map[string]struct {
		waiting, ended *v1.Pod
		want           fwk.QueueingHint
	}{
		"what came free is enough":       {kit.Pod("ns", "w", kit.GPUs(4)), ended, fwk.Queue},
		"a share fits":                   {kit.Pod("ns", "w", kit.VRAM(1000, 1)), ended, fwk.Queue},
		"more is asked for":              {kit.Pod("ns", "w", kit.GPUs(5)), ended, fwk.QueueSkip},
		"more than any node has":         {kit.Pod("ns", "w", kit.GPUs(16)), ended, fwk.QueueSkip},
		"a share larger than a card":     {kit.Pod("ns", "w", kit.VRAM(1_000_000, 1)), ended, fwk.QueueSkip},
		"a gang is planned over nodes":   {member, ended, fwk.Queue},
		"the node is not known":          {kit.Pod("ns", "w", kit.GPUs(5)), kit.Pod("ns", "ended", kit.GPUs(4), kit.OnNode("n2")), fwk.Queue},
		"the pod had no node":            {kit.Pod("ns", "w", kit.GPUs(5)), kit.Pod("ns", "ended", kit.GPUs(4)), fwk.Queue},
		"a request that cannot be read":  {kit.Pod("ns", "w", kit.GPUs(1), kit.Annotate(v1alpha1.NUMAPolicyAnnotation, "?")), ended, fwk.Queue},
		"a pod with claims came to end":  {kit.Pod("ns", "w", kit.GPUs(4)), claimant, fwk.Queue},
		"a pod without GPUs came to end": {kit.Pod("ns", "w", kit.GPUs(4)), kit.Pod("ns", "ended", kit.OnNode("n1")), fwk.QueueSkip},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := f.afterPodDeleted(klog.Background(), tt.waiting, tt.ended, nil)
			if err != nil || got != tt.want {
				t.Errorf("hint is %v (%v), want %v", got, err, tt.want)
			}
		})
	}
}

// TestPodEndedHintForEachWaiting: the queue asks about one pod for all that wait, with its lock held. Each gets its own answer, and what
// is the same for all is found out once.
func TestPodEndedHintForEachWaiting(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")), kit.Pod("ns", "runs", kit.UID("r"), kit.GPUs(5), kit.OnNode("n1")))
	f.eventually(t, "the pod that runs is known", func() bool { return f.engine.Ledger().Node("n1").Free.Len() == 3 })
	ask := func(ended *v1.Pod, cards int64) fwk.QueueingHint {
		got, err := f.afterPodDeleted(klog.Background(), kit.Pod("ns", "w", kit.GPUs(cards)), ended, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	other := kit.Pod("ns", "other", kit.UID("o"), kit.OnNode("n1"))
	for i := range 3 {
		ended := kit.Pod("ns", "ended", kit.UID("e"), kit.GPUs(1), kit.OnNode("n1"))
		for range 2 {
			if small, large := ask(ended, 3), ask(ended, 4); small != fwk.Queue || large != fwk.QueueSkip {
				t.Errorf("round %d: 3 cards: %v, 4 cards: %v, want Queue and QueueSkip", i, small, large)
			}
			if got := ask(other, 1); got != fwk.QueueSkip {
				t.Errorf("round %d: a pod without GPUs ended: %v, want QueueSkip", i, got)
			}
		}
	}
	waiting, ended := kit.Pod("ns", "w", kit.GPUs(8)), kit.Pod("ns", "ended", kit.UID("e"), kit.GPUs(1), kit.OnNode("n1"))
	again := testing.AllocsPerRun(100, func() {
		if _, err := f.afterPodDeleted(klog.Background(), waiting, ended, nil); err != nil {
			t.Error(err)
		}
	})
	first := testing.AllocsPerRun(100, func() {
		f.gone.Store(nil)
		if _, err := f.afterPodDeleted(klog.Background(), waiting, ended, nil); err != nil {
			t.Error(err)
		}
	})
	if t.Logf("%v allocations for the first that waits, %v for each other", first, again); again > first/2 {
		t.Errorf("%v allocations for the first that waits, %v for each other", first, again)
	}
}

// TestPodEndedHintBeforeTheEnd: preemption forgets the reservation of a victim before the pod is deleted, and the queue hears
// of that alone.
func TestPodEndedHintBeforeTheEnd(t *testing.T) {
	victim := kit.Pod("ns", "victim", kit.UID("v"), kit.GPUs(8))
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")), victim)
	state, _ := f.cycle(t, victim)
	if status := f.Reserve(f.ctx, state, victim, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	assumed := victim.DeepCopy()
	assumed.Spec.NodeName = "n1"
	got, err := f.afterPodDeleted(klog.Background(), kit.Pod("ns", "preemptor", kit.UID("p"), kit.GPUs(8)), assumed, nil)
	if err != nil || got != fwk.Queue {
		t.Errorf("hint is %v (%v) while the victim still holds its cards, want Queue", got, err)
	}
}
