package backlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const gib = int64(1) << 30

// machine has 8 cards of 80 GiB on two NUMA nodes.
func machine(t interface{ Fatal(args ...any) }) *topology.Node {
	cards := make([]topology.Card, 8)
	for i := range cards {
		cards[i] = topology.Card{UUID: fmt.Sprintf("GPU-%d", i), VRAMBytes: 80 * gib, NUMA: i / 4, Healthy: true}
	}
	n, err := topology.New(topology.Spec{Cards: cards, NVSwitch: true}, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// state is a node whose free cards are given; the others are held whole.
func state(name ledger.NodeName, n *topology.Node, free topology.GPUSet) *ledger.NodeGPUAllocation {
	use := make([]allocate.CardUse, n.Len())
	for i := range use {
		if !free.Has(i) {
			use[i] = allocate.CardUse{SliceMask: allocate.WholeCard, VRAMBytes: n.Card(i).VRAMBytes, ComputeMilli: allocate.MilliPerCard, Holders: 1}
		}
	}
	return &ledger.NodeGPUAllocation{Name: name, View: allocate.View{Topology: n, Free: free, Use: use}}
}

func wholeCards(n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindWhole, Count: n}}}
}

func shareOf(bytes int64) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindShare, Count: 1, VRAMBytes: bytes}}}
}

// anywhere is a pod that every node admits.
func anywhere(r *allocate.Request) *Want {
	return &Want{Request: r, Admits: func(ledger.NodeName) bool { return true }}
}

// only is a pod that one node admits.
func only(node ledger.NodeName, r *allocate.Request) *Want {
	return &Want{Request: r, Class: string(node), Admits: func(n ledger.NodeName) bool { return n == node }}
}

func fitsBy(c *allocate.Chooser) Fits {
	return func(v *allocate.View, r *allocate.Request) bool { return c.Fits(v, r) == nil }
}

func uidsOf(pods []Pod) []string {
	uids := []string{}
	for _, p := range pods {
		uids = append(uids, string(p.UID))
	}
	return uids
}

var start = time.Unix(1_700_000_000, 0)

func newBacklog() *Backlog { return New(fitsBy(allocate.NewChooser())) }

// parkAll parks pods that ask for r, the first created first.
func parkAll(t *testing.T, b *Backlog, n int, r *allocate.Request) {
	t.Helper()
	for i := range n {
		if !b.Park(Pod{UID: ledger.PodUID(fmt.Sprintf("p%05d", i)), Created: int64(i)}, anywhere(r), start) {
			t.Fatalf("pod %d is not parked", i)
		}
	}
}

func TestParkOnlyWhatNoNodeCanTake(t *testing.T) {
	m := machine(t)
	half := wholeCards(4)
	half.NUMA = allocate.NUMARequire
	tests := map[string]struct {
		free topology.GPUSet
		r    *allocate.Request
		want bool
	}{
		"enough cards":                      {0b1111, wholeCards(4), false},
		"one card short":                    {0b0111, wholeCards(4), true},
		"no card":                           {0, wholeCards(1), true},
		"enough, on two NUMA nodes":         {0b00110011, half, true},
		"enough, on one NUMA node":          {0b11110000, half, false},
		"a share of a free card":            {0b1, shareOf(gib), false},
		"a share that no card is large for": {0xff, shareOf(81 * gib), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBacklog()
			b.Set("n", state("n", m, tc.free))
			if got := b.Park(Pod{UID: "p"}, anywhere(tc.r), start); got != tc.want {
				t.Errorf("Park = %t, want %t", got, tc.want)
			}
			if got := b.Parked("p", anywhere(tc.r), start); got != tc.want {
				t.Errorf("Parked = %t, want %t", got, tc.want)
			}
		})
	}
}

// TestNodesThatTakeNobody: what cannot be given out is no reason to wake anybody.
func TestNodesThatTakeNobody(t *testing.T) {
	m := machine(t)
	quarantined := state("n", m, m.All())
	quarantined.Quarantined = true
	for name, a := range map[string]*ledger.NodeGPUAllocation{"unknown": nil, "without facts": {Name: "n"}, "in quarantine": quarantined} {
		t.Run(name, func(t *testing.T) {
			b := newBacklog()
			parkAll(t, b, 1, wholeCards(1))
			b.Set("n", state("n", m, m.All()))
			b.Set("n", a)
			if woken, more := b.Wake(start); len(woken) > 0 || more > 0 {
				t.Errorf("Wake = %v, %v, want nobody", woken, more)
			}
			b.Set("n", state("n", m, 1))
			if woken, _ := b.Wake(start); len(woken) != 1 {
				t.Errorf("Wake = %v once a card is free, want the pod", woken)
			}
		})
	}
}

func TestWakeInOrder(t *testing.T) {
	b := newBacklog()
	for _, p := range []Pod{
		{UID: "old", Created: 1}, {UID: "b", Created: 2}, {UID: "a", Created: 2}, {UID: "high", Priority: 5, Created: 9}, {UID: "low", Priority: -1, Created: 0},
	} {
		b.Park(p, anywhere(wholeCards(1)), start)
	}
	b.Park(Pod{UID: "pair", Priority: 1, Created: 3}, anywhere(wholeCards(2)), start)
	b.Set("n", state("n", machine(t), 0b11))
	woken, more := b.Wake(start)
	if diff := cmp.Diff([]string{"high", "pair", "old", "a", "b", "low"}, uidsOf(woken)); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	if more != 0 || b.Len() != 0 {
		t.Errorf("more %v, %d parked, want nothing left", more, b.Len())
	}
}

// TestWakeAsManyAsThereArePlaces: more follow from turn to turn, while places are left that those of the last turn did not take.
func TestWakeAsManyAsThereArePlaces(t *testing.T) {
	m := machine(t)
	b := newBacklog()
	parkAll(t, b, 1000, wholeCards(2))
	for i := range 5 {
		name := ledger.NodeName(fmt.Sprint("n", i))
		b.Set(name, state(name, m, m.All())) // four pods each
	}
	var counts []int
	now := start
	for {
		woken, more := b.Wake(now)
		counts = append(counts, len(woken))
		if more == 0 {
			break
		}
		if again, wait := b.Wake(now.Add(more - 1)); len(again) > 0 || wait != 1 {
			t.Fatalf("Wake before the turn = %d pods, wait %v, want none and 1ns", len(again), wait)
		}
		now = now.Add(more)
	}
	if diff := cmp.Diff([]int{20, 40, 80, 160, 320, 380}, counts); diff != "" {
		t.Errorf("woken by turn (-want +got):\n%s", diff)
	}
	if took := now.Sub(start); took != 5*turn {
		t.Errorf("it took %v, want 5 turns", took)
	}
}

// TestTurnsBeginAnew once there was no place for anybody.
func TestTurnsBeginAnew(t *testing.T) {
	m := machine(t)
	b := newBacklog()
	parkAll(t, b, 100, wholeCards(8))
	for range 3 {
		b.Set("n", state("n", m, m.All()))
		if woken, more := b.Wake(start); len(woken) != wokenLeast || more != turn {
			t.Fatalf("Wake = %d pods, more in %v, want %d and %v", len(woken), more, wokenLeast, turn)
		}
		b.Set("n", state("n", m, 0))
		if woken, more := b.Wake(start); len(woken) > 0 || more > 0 {
			t.Fatalf("Wake = %d pods, more in %v, want none in a full node", len(woken), more)
		}
	}
}

func TestParkedEnds(t *testing.T) {
	m := machine(t)
	tests := map[string]struct {
		after   time.Duration
		request *allocate.Request
		class   string
		free    topology.GPUSet
		want    bool
	}{
		"nothing happened":           {after: ParkedMost - 1, request: wholeCards(2), free: 1, want: true},
		"its time is up":             {after: ParkedMost, request: wholeCards(2), free: 1},
		"a node has its cards":       {request: wholeCards(2), free: 0b11},
		"it asks for less":           {request: wholeCards(1), free: 0},
		"it may go elsewhere":        {request: wholeCards(2), class: "other", free: 0},
		"it asks for no cards":       {request: nil, free: 0},
		"its container is renamed":   {request: &allocate.Request{Claims: []allocate.Claim{{Container: "x", Kind: allocate.KindWhole, Count: 2}}}, want: true},
		"it wants cards of one NUMA": {request: &allocate.Request{Claims: wholeCards(2).Claims, NUMA: allocate.NUMARequire}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBacklog()
			parkAll(t, b, 1, wholeCards(2))
			b.Set("n", state("n", m, tc.free))
			var want *Want
			if tc.request != nil {
				want = anywhere(tc.request)
				want.Class = tc.class
			}
			for range 2 {
				if got := b.Parked("p00000", want, start.Add(tc.after)); got != tc.want {
					t.Errorf("Parked = %t, want %t", got, tc.want)
				}
				if got := b.Has("p00000"); got != tc.want {
					t.Errorf("Has = %t, want %t", got, tc.want)
				}
			}
		})
	}
}

func TestParkAnew(t *testing.T) {
	b := newBacklog()
	b.Park(Pod{UID: "p"}, anywhere(wholeCards(2)), start)
	b.Park(Pod{UID: "p"}, anywhere(wholeCards(3)), start.Add(time.Minute))
	if b.Len() != 1 || len(b.kinds) != 1 {
		t.Fatalf("%d pods of %d kinds, want the one", b.Len(), len(b.kinds))
	}
	if !b.Parked("p", anywhere(wholeCards(3)), start.Add(ParkedMost)) {
		t.Error("its time is counted from when it was parked first")
	}
}

// TestKeptIsBounded: what is beyond it is not parked, and a kind that nobody asks for any more makes room.
func TestKeptIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		most int
		want func(int) *Want
	}{
		"requests": {MaxRequests, func(i int) *Want { return anywhere(shareOf(int64(i+1) * gib)) }},
		"kinds":    {MaxKinds, func(i int) *Want { return only(ledger.NodeName(fmt.Sprint("n", i)), shareOf(gib)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBacklog()
			for i := range tc.most {
				if !b.Park(Pod{UID: ledger.PodUID(fmt.Sprint(i))}, tc.want(i), start) {
					t.Fatalf("pod %d is not parked", i)
				}
			}
			more := tc.want(tc.most)
			if b.Park(Pod{UID: "more"}, more, start) || b.Parked("more", more, start) || b.Len() != tc.most {
				t.Errorf("one beyond %d is parked", tc.most)
			}
			if !b.Park(Pod{UID: "known"}, tc.want(0), start) {
				t.Error("another pod of a known kind is not parked")
			}
			b.Forget("1")
			if !b.Park(Pod{UID: "more"}, more, start) {
				t.Error("a pod is not parked though another one has ended")
			}
			if len(b.kinds) > tc.most || len(b.requests) > MaxRequests {
				t.Errorf("%d kinds of %d requests are kept", len(b.kinds), len(b.requests))
			}
		})
	}
}

// TestPoolsDoNotWaitForEachOther: pods that one pool admits stand first in the queue, and what comes free is of another pool.
func TestPoolsDoNotWaitForEachOther(t *testing.T) {
	m := machine(t)
	b := newBacklog()
	for i := range 80 {
		b.Park(Pod{UID: ledger.PodUID(fmt.Sprint("a", i)), Priority: 100}, only("a", wholeCards(1)), start)
	}
	b.Park(Pod{UID: "b"}, only("b", wholeCards(1)), start)
	b.Set("b", state("b", m, 1))
	woken, more := b.Wake(start)
	if diff := cmp.Diff([]string{"b"}, uidsOf(woken)); diff != "" || more != 0 {
		t.Errorf("woken, more in %v (-want +got):\n%s", more, diff)
	}
}

// TestAdmission: a node that has the cards and admits nobody, a cordoned one say, is no place; once it admits them, it is.
func TestAdmission(t *testing.T) {
	open := false
	want := &Want{Request: wholeCards(1), Class: "c", Admits: func(ledger.NodeName) bool { return open }}
	b := newBacklog()
	b.Set("n", state("n", machine(t), 0xff))
	if !b.Park(Pod{UID: "p"}, want, start) {
		t.Fatal("the pod is not parked")
	}
	b.Touch("n")
	b.Touch("unknown")
	if woken, _ := b.Wake(start); len(woken) > 0 {
		t.Fatalf("%v is woken for a node that does not admit it", woken)
	}
	open = true
	b.Touch("n")
	if woken, _ := b.Wake(start); len(woken) != 1 {
		t.Error("nobody is woken when the node admits the pod")
	}
}

// TestWhoMayPreempt is not parked, and not left parked.
func TestWhoMayPreempt(t *testing.T) {
	b := newBacklog()
	park := func(uid ledger.PodUID, priority int32, patient bool) bool {
		return b.Park(Pod{UID: uid, Priority: priority, Patient: patient}, anywhere(wholeCards(1)), start)
	}
	if !park("nobody holds any", 1000, false) {
		t.Error("a pod is not parked though there is nobody to preempt")
	}
	b.SetLowest(10)
	if park("above", 11, false) {
		t.Error("a pod that may preempt is parked")
	}
	if !park("patient", 11, true) || !park("level", 10, false) || !park("below", 9, false) {
		t.Error("a pod that preempts nobody is not parked")
	}
	if b.Parked("nobody holds any", anywhere(wholeCards(1)), start) {
		t.Error("a pod stays parked though it may preempt now")
	}
	b.SetLowest(9)
	woken, _ := b.Wake(start)
	if diff := cmp.Diff([]string{"level"}, uidsOf(woken)); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	b.SetLowest(20)
	if woken, _ := b.Wake(start); len(woken) > 0 || b.Len() != 2 {
		t.Errorf("woken %v, %d left, want none and 2", woken, b.Len())
	}
}

// TestPlacesThatWereTakenAreNoReasonForMore: all that comes free is taken before the next turn.
func TestPlacesThatWereTakenAreNoReasonForMore(t *testing.T) {
	m := machine(t)
	b := newBacklog()
	parkAll(t, b, 1000, wholeCards(8))
	now := start
	for i := range 20 {
		name := ledger.NodeName(fmt.Sprint("n", i))
		b.Set(name, state(name, m, m.All()))
		if woken, _ := b.Wake(now); len(woken) != wokenLeast {
			t.Fatalf("turn %d: %d pods are woken for one place, want %d", i, len(woken), wokenLeast)
		}
		now = now.Add(turn)
		next := ledger.NodeName(fmt.Sprint("n", i+1))
		b.Set(next, state(next, m, m.All())) // before the other is full: there is always a place
		b.Set(name, state(name, m, 0))
	}
}
