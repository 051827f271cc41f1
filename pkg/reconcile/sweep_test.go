package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestQuietSweepsFindNothing: what events have told is not told again.
func TestQuietSweepsFindNothing(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	h := holding("p", "n1", 0, 1)
	w.put(w.podStore, boundPod(t, h, 1))
	w.put(w.podStore, pod("foreign", 2, 2, kit.OnNode("n1")))
	w.put(w.podStore, pod("waits", 2, 3))
	w.put(w.podStore, kit.Pod("ns", "cpu", kit.UID("cpu"), kit.OnNode("n1")))
	same(t, "first", w.sweep(), "node-missing  n1", "missing foreign n1", "missing p n1")
	if got := w.free("n1"); got != 4 {
		t.Errorf("%d cards are free, want 4", got)
	}
	for range 3 {
		same(t, "later", w.later())
	}
	s := w.Last()
	if s.Pods != 2 || s.Nodes != 1 || s.Suspected != 0 || s.Repairs[Missing] != 2 || s.Repairs[NodeMissing] != 1 {
		t.Errorf("%+v", s)
	}
	same(t, "reports", w.notes, "n1 GPULedgerRepaired", "foreign GPULedgerRepaired", "p GPULedgerRepaired")
}

// TestOrphans: in every way in which a pod can be gone, in two sweeps, and never before.
func TestOrphans(t *testing.T) {
	h := holding("p", "n1", 0, 1)
	tests := map[string]struct {
		// now is what the store has instead of the pod.
		now  *v1.Pod
		want []string
		free int
	}{
		"absent":    {nil, []string{"orphan p n1"}, 8},
		"succeeded": {pod("p", 2, 2, recorded(t, h), ended), []string{"orphan p n1"}, 8},
		// The pod that took the name is missing until then, and charged at once.
		"name taken by a bound pod":    {named(boundPod(t, holding("q", "n1", 4), 2), "p"), []string{"orphan p n1"}, 7},
		"name taken by one that waits": {named(pod("q", 1, 2), "p"), []string{"orphan p n1"}, 8},
	}
	for stage, enter := range map[string]func(w *world) error{
		"bound":   func(w *world) error { return w.Ledger.Adopt(h) },
		"assumed": func(w *world) error { return w.Ledger.Assume(h) },
	} {
		for name, tt := range tests {
			t.Run(stage+"/"+name, func(t *testing.T) {
				w := newWorld(t, observe.Options{})
				w.node("n1")
				w.sweep()
				w.must(enter(w))
				if tt.now != nil {
					w.put(w.podStore, tt.now)
				}
				first := w.later()
				if slices.Contains(first, "orphan p n1") || w.Last().Suspected != 1 {
					t.Errorf("first sweep: %q, %d suspected", first, w.Last().Suspected)
				}
				woken := w.woken
				same(t, "second sweep", w.later(), tt.want...)
				if got := w.free("n1"); got != tt.free || w.woken != woken+1 {
					t.Errorf("%d cards are free, want %d; woken %d times", got, tt.free, w.woken-woken)
				}
				if !w.Ledger.Released("p") {
					t.Error("a pod that is gone may hold cards again")
				}
				same(t, "third sweep", w.later())
			})
		}
	}
}

func ended(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }

func named(p *v1.Pod, name string) *v1.Pod { p.Name = name; return p }

// TestOrphanComesBack: seen once, and well at the next sweep. The store of an informer may lag.
func TestOrphanComesBack(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.sweep()
	h := holding("p", "n1", 0)
	w.must(w.Ledger.Adopt(h))
	w.later()
	w.put(w.podStore, boundPod(t, h, 1))
	same(t, "back", w.later())
	w.remove(w.podStore, boundPod(t, h, 1))
	same(t, "gone again, for the first time", w.later())
	same(t, "for the second time", w.later(), "orphan p n1")
}

// TestInFlightIsNeverTouched: whatever the store shows, and also if the pod takes off between plan and repair.
func TestInFlightIsNeverTouched(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.sweep()
	for i, uid := range []string{"waits", "sends", "unknown", "cooling/c"} {
		w.must(w.Ledger.Assume(holding(uid, "n1", i)))
	}
	w.flying["waits"], w.busy["sends"] = true, true
	w.Ledger.Suspect("unknown")
	for range 3 {
		same(t, "sweep", w.later())
	}
	if got := w.free("n1"); got != 4 {
		t.Errorf("%d cards are free, want 4", got)
	}
	w.flying["waits"], w.busy["sends"] = false, false
	same(t, "landed", slices.Concat(w.later(), w.later()), "orphan sends n1", "orphan waits n1")
}

// TestExpired: a reservation outlives every cycle, and its pod waits on.
func TestExpired(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.put(w.podStore, pod("p", 1, 1))
	w.sweep()
	h := holding("p", "n1", 0)
	w.must(w.Ledger.Assume(h))
	w.later()
	w.clock.Step(assumedLimit - period - 1)
	same(t, "just within the limit", w.later())
	if w.Last().Suspected != 0 {
		t.Error("a pod in its cycle counts as suspected: sweeps would follow each other closely")
	}
	same(t, "beyond it", w.later(), "expired p n1")
	if err := w.Ledger.Assume(h); err != nil {
		t.Errorf("the pod cannot be placed again: %v", err)
	}
}

// TestDiffering: the ledger follows what is bound, and not a record that was edited.
func TestDiffering(t *testing.T) {
	n1 := holding("p", "n1", 0)
	anyCard := ledger.Holding{UID: "p", Pod: "ns/p", Node: "n1", UnknownCards: 1}
	tests := map[string]struct {
		held  ledger.Holding
		stage ledger.Stage
		pod   *v1.Pod
		want  string
		after ledger.Holding
	}{
		"bound elsewhere":            {n1, ledger.StageBound, boundPod(t, holding("p", "n2", 5), 1), "differing p n2", holding("p", "n2", 5)},
		"record readable now":        {anyCard, ledger.StageBound, boundPod(t, n1, 1), "differing p n1", n1},
		"reserved here, bound there": {n1, ledger.StageAssumed, boundPod(t, holding("p", "n2", 5), 1), "differing p n2", holding("p", "n2", 5)},
		"record edited":              {n1, ledger.StageBound, boundPod(t, holding("p", "n1", 5), 1), "record-edited p n1", n1},
		"record removed":             {n1, ledger.StageBound, pod("p", 1, 1, kit.OnNode("n1")), "record-edited p n1", n1},
		"record of another node":     {n1, ledger.StageBound, pod("p", 1, 1, recorded(t, holding("p", "n2", 5)), kit.OnNode("n1")), "record-edited p n1", n1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, observe.Options{})
			w.node("n1")
			w.node("n2")
			w.sweep()
			if tt.stage == ledger.StageAssumed {
				w.must(w.Ledger.Assume(tt.held))
			} else {
				w.must(w.Ledger.Adopt(tt.held))
			}
			w.put(w.podStore, tt.pod)
			same(t, "sweep", w.later(), tt.want)
			if got, stage, _ := w.Ledger.Holding("p"); cmp.Diff(tt.after, got) != "" || stage != ledger.StageBound {
				t.Errorf("%s %+v, want %+v", stage, got, tt.after)
			}
			same(t, "told once", w.later())
			tt.pod.ResourceVersion = "2" // the kubelet wrote its status
			same(t, "told once, though the pod changed", w.later())
		})
	}
}

// TestTombstone: a living pod was taken for gone. The ledger's word is overruled by two sweeps, not by one.
func TestTombstone(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	h := holding("p", "n1", 3)
	w.put(w.podStore, boundPod(t, h, 1))
	w.sweep()
	w.Ledger.Release("p")
	same(t, "first", w.later())
	if w.Last().Suspected != 1 {
		t.Errorf("%d suspected, want 1", w.Last().Suspected)
	}
	same(t, "second", w.later(), "tombstone p n1")
	if got, stage, _ := w.Ledger.Holding("p"); cmp.Diff(h, got) != "" || stage != ledger.StageBound {
		t.Errorf("%s %+v, want %+v", stage, got, h)
	}
	same(t, "third", w.later())
}

// TestUnconfirmed: bound as reserved, and no event came.
func TestUnconfirmed(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.sweep()
	h := holding("p", "n1", 3)
	w.must(w.Ledger.Assume(h))
	w.put(w.podStore, boundPod(t, h, 1))
	same(t, "first", w.later())
	same(t, "second", w.later(), "unconfirmed p n1")
	if _, stage, _ := w.Ledger.Holding("p"); stage != ledger.StageBound {
		t.Errorf("%s", stage)
	}
}

// TestClaimIsCounted: a claim that was allocated unseen is charged beside the cards of the record, whose pod did not change.
func TestClaimIsCounted(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	h := holding("p", "n1", 3)
	p := boundPod(t, h, 1)
	name := "claim"
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	w.put(w.podStore, p)
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "c", ResourceVersion: "1"}}
	w.put(w.claims, claim)
	w.sweep()
	same(t, "before", w.later())
	claim = claim.DeepCopy()
	claim.ResourceVersion = "2"
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gpu.nvidia.com"}, {Driver: "gpu.nvidia.com"}},
	}}
	w.put(w.claims, claim)
	same(t, "after", w.later(), "differing p n1")
	if got, _, _ := w.Ledger.Holding("p"); got.UnknownCards != 2 || cmp.Diff(h.Cards, got.Cards) != "" {
		t.Errorf("%+v", got)
	}
	same(t, "once", w.later())
}

// TestNodes: one the ledger missed, one that it still has, and one that contradicts itself until it does not.
func TestNodes(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.node("n2")
	same(t, "both missed", w.sweep(), "node-missing  n1", "node-missing  n2")
	w.remove(w.nodeStore, kit.Node("n2", kit.N8s("n2")))
	same(t, "one gone", w.later(), "node-gone  n2")
	for _, uid := range []string{"a", "b"} {
		h := holding(uid, "n1", 0)
		w.must(w.Ledger.Adopt(h))
		w.put(w.podStore, boundPod(t, h, 1))
	}
	same(t, "two pods on one card", w.later(), "quarantine  n1")
	if got := w.free("n1"); got != 0 {
		t.Errorf("%d cards of a node in quarantine are free", got)
	}
	same(t, "it lasts", w.later())
	w.remove(w.podStore, boundPod(t, holding("a", "n1", 0), 1))
	w.later()
	same(t, "one of them is gone", w.later(), "orphan a n1")
	if got := w.free("n1"); got != 7 {
		t.Errorf("%d cards are free, want 7: what agrees is no longer in quarantine", got)
	}
	same(t, "quiet", w.later())
	w.must(w.Ledger.Adopt(holding("a2", "n1", 0)))
	w.put(w.podStore, boundPod(t, holding("a2", "n1", 0), 1))
	same(t, "again", w.later(), "quarantine  n1")
}

// TestSummaryIsBounded: the newest repairs are kept.
func TestSummaryIsBounded(t *testing.T) {
	w := newWorld(t, observe.Options{})
	const n = MaxRepairs + 30
	for i := range n {
		w.node(fmt.Sprintf("n%03d", i))
	}
	w.sweep()
	s := w.Last()
	if len(s.Last) != MaxRepairs || s.Repairs[NodeMissing] != n || string(s.Last[0].Node) != fmt.Sprintf("n%03d", n-1) {
		t.Errorf("%d repairs kept, %d counted, the newest %+v", len(s.Last), s.Repairs[NodeMissing], s.Last[0])
	}
	if len(s.Repairs) != len(Kinds()) {
		t.Errorf("%d kinds are counted, want all %d from the start", len(s.Repairs), len(Kinds()))
	}
	s.Repairs[NodeMissing], s.Last[0].Node = 0, ""
	if again := w.Last(); again.Repairs[NodeMissing] != n || again.Last[0].Node == "" {
		t.Error("a caller changed the summary")
	}
}

// TestMemoryFollowsThePods: nothing is kept of pods that are gone.
func TestMemoryFollowsThePods(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	for i := range 200 {
		h := holding(fmt.Sprintf("p%d", i), "n1", i%8)
		w.put(w.podStore, boundPod(t, h, i+1))
		w.sweep()
		w.remove(w.podStore, boundPod(t, h, i+1))
		w.Ledger.Release(h.UID)
	}
	w.sweep()
	if len(w.memory.at)+len(w.memory.entries)+len(w.before) != 0 {
		t.Errorf("%d, %d and %d entries without a pod", len(w.memory.at), len(w.memory.entries), len(w.before))
	}
}

// TestComparisonsAreBounded: records are read a few at a time and every one in its turn; what needs no record waits for none.
func TestComparisonsAreBounded(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.comparisons = 2
	w.node("n1")
	for i := range 6 { // the ledger knows no card of any
		uid := fmt.Sprintf("p%d", i)
		w.must(w.Ledger.Adopt(ledger.Holding{UID: ledger.PodUID(uid), Pod: "ns/" + uid, Node: "n1", UnknownCards: 1}))
		w.put(w.podStore, boundPod(t, holding(uid, "n1", i), 1))
	}
	w.must(w.Ledger.Adopt(holding("gone", "n1", 7)))
	first := w.sweep()
	if len(first) != 3 || w.Last().Suspected != 1 { // the node and two pods
		t.Errorf("first sweep: %q, %d suspected", first, w.Last().Suspected)
	}
	busy := 0
	for n := range 2 {
		// A pod that changes all the time does not push the others back.
		w.put(w.podStore, boundPod(t, holding("p0", "n1", 0), 10+n))
		busy += len(w.later())
	}
	if busy != 4+1 { // the orphan
		t.Errorf("%d repairs in the next two sweeps, want the other 4 records and the orphan", busy)
	}
	w.later()
	if a := w.Ledger.Node("n1"); a.Foreign != 0 || a.Free.Len() != 2 {
		t.Errorf("cards %s are not known, %d are free", a.Foreign, a.Free.Len())
	}
}

// TestRepairIsVoidOnceThingsChanged: an event comes between the plan and its repair.
func TestRepairIsVoidOnceThingsChanged(t *testing.T) {
	h := holding("p", "n1", 0)
	tests := map[string]struct {
		kind   Kind
		before func(w *world)
		event  func(w *world)
	}{
		"orphan is back":            {Orphan, func(w *world) { w.must(w.Ledger.Adopt(h)) }, func(w *world) { w.put(w.podStore, boundPod(t, h, 1)) }},
		"orphan was released":       {Orphan, func(w *world) { w.must(w.Ledger.Adopt(h)) }, func(w *world) { w.Ledger.Release("p") }},
		"orphan holds other cards":  {Orphan, func(w *world) { w.must(w.Ledger.Assume(h)) }, func(w *world) { w.Ledger.Forget("p"); w.must(w.Ledger.Assume(holding("p", "n1", 1))) }},
		"orphan takes off":          {Orphan, func(w *world) { w.must(w.Ledger.Assume(h)) }, func(w *world) { w.flying["p"] = true }},
		"expired is bound":          {Expired, func(w *world) { w.must(w.Ledger.Assume(h)) }, func(w *world) { w.put(w.podStore, boundPod(t, h, 1)) }},
		"expired is gone":           {Expired, func(w *world) { w.must(w.Ledger.Assume(h)) }, func(*world) {}},
		"missing was charged":       {Missing, func(w *world) { w.put(w.podStore, boundPod(t, h, 1)) }, func(w *world) { w.must(w.Ledger.Adopt(h)) }},
		"missing is gone":           {Missing, func(*world) {}, func(*world) {}},
		"missing was released":      {Missing, func(w *world) { w.put(w.podStore, boundPod(t, h, 1)) }, func(w *world) { w.Ledger.Release("p") }},
		"tombstone was forgotten":   {Tombstone, func(w *world) { w.put(w.podStore, boundPod(t, h, 1)) }, func(*world) {}},
		"unconfirmed was confirmed": {Unconfirmed, func(w *world) { w.must(w.Ledger.Assume(h)); w.put(w.podStore, boundPod(t, h, 1)) }, func(w *world) { w.Ledger.Confirm("p") }},
		"edited is gone":            {Edited, func(w *world) { w.must(w.Ledger.Adopt(h)) }, func(*world) {}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, observe.Options{})
			w.node("n1")
			w.sweep()
			tt.before(w)
			planned, _ := w.Ledger.Entry("p")
			tt.event(w)
			before := entriesOf(w.Ledger)
			s := newSweep(w.Loop)
			if s.mend(&Repair{Kind: tt.kind, UID: "p", Pod: "ns/p", Node: "n1", Revision: planned.Revision}) {
				t.Error("it was made all the same")
			}
			if d := cmp.Diff(before, entriesOf(w.Ledger)); d != "" || s.freed {
				t.Errorf("freed: %t; the ledger changed (-before +after):\n%s", s.freed, d)
			}
		})
	}
}
