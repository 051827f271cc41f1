package backlog

import (
	"fmt"
	"slices"
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
		if !b.Park(Pod{UID: ledger.PodUID(fmt.Sprintf("p%05d", i)), Created: int64(i)}, r, start) {
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
			if got := b.Park(Pod{UID: "p"}, tc.r, start); got != tc.want {
				t.Errorf("Park = %t, want %t", got, tc.want)
			}
			if got := b.Parked("p", tc.r, start); got != tc.want {
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
		b.Park(p, wholeCards(1), start)
	}
	b.Park(Pod{UID: "pair", Priority: 1, Created: 3}, wholeCards(2), start)
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
		free    topology.GPUSet
		want    bool
	}{
		"nothing happened":           {after: ParkedMost - 1, request: wholeCards(2), free: 1, want: true},
		"its time is up":             {after: ParkedMost, request: wholeCards(2), free: 1},
		"a node has its cards":       {request: wholeCards(2), free: 0b11},
		"it asks for less":           {request: wholeCards(1), free: 0},
		"it asks for no cards":       {request: nil, free: 0},
		"its container is renamed":   {request: &allocate.Request{Claims: []allocate.Claim{{Container: "x", Kind: allocate.KindWhole, Count: 2}}}, want: true},
		"it wants cards of one NUMA": {request: &allocate.Request{Claims: wholeCards(2).Claims, NUMA: allocate.NUMARequire}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBacklog()
			parkAll(t, b, 1, wholeCards(2))
			b.Set("n", state("n", m, tc.free))
			for range 2 {
				if got := b.Parked("p00000", tc.request, start.Add(tc.after)); got != tc.want {
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
	b.Park(Pod{UID: "p"}, wholeCards(2), start)
	b.Park(Pod{UID: "p"}, wholeCards(3), start.Add(time.Minute))
	if b.Len() != 1 || len(b.kinds) != 1 {
		t.Fatalf("%d pods of %d kinds, want the one", b.Len(), len(b.kinds))
	}
	if !b.Parked("p", wholeCards(3), start.Add(ParkedMost)) {
		t.Error("its time is counted from when it was parked first")
	}
}

// TestKindsAreBounded: what is beyond them is not parked, and a kind that nobody asks for any more makes room.
func TestKindsAreBounded(t *testing.T) {
	b := newBacklog()
	for i := range MaxKinds {
		if !b.Park(Pod{UID: ledger.PodUID(fmt.Sprint(i))}, shareOf(int64(i+1)*gib), start) {
			t.Fatalf("kind %d is not parked", i)
		}
	}
	if b.Park(Pod{UID: "more"}, wholeCards(1), start) || b.Parked("more", wholeCards(1), start) || b.Len() != MaxKinds {
		t.Errorf("a kind beyond %d is parked", MaxKinds)
	}
	if !b.Park(Pod{UID: "known"}, shareOf(gib), start) {
		t.Error("another pod of a known kind is not parked")
	}
	b.Forget("1")
	if !b.Park(Pod{UID: "more"}, wholeCards(1), start) {
		t.Error("a kind is not parked though another one has ended")
	}
}

func TestKeep(t *testing.T) {
	b := newBacklog()
	parkAll(t, b, 4, wholeCards(1))
	b.Keep(func(p *Pod) bool { return slices.Contains([]ledger.PodUID{"p00001", "p00003"}, p.UID) })
	b.Set("n", state("n", machine(t), 1))
	woken, _ := b.Wake(start)
	if diff := cmp.Diff([]string{"p00001", "p00003"}, uidsOf(woken)); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
