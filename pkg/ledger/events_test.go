package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestCaseB073ChargeTwice: what Reserve charged is not charged again when the bound pod comes through the informer.
func TestCaseB073ChargeTwice(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	p := Holding{UID: "p", Pod: "ns/p", Node: "n1", Cards: []allocate.CardShare{share(cards[0], 0, 0, 32768*mib)}}
	f.must(f.l.Assume(p))
	f.used("n1", 32768*mib, 0, 0, 0, 0, 0, 0, 0)
	before := f.l.Node("n1").Generation
	f.answer("Confirm", f.l.Confirm("p"), true)
	for range 4 {
		f.must(f.l.Adopt(p))
		f.used("n1", 32768*mib, 0, 0, 0, 0, 0, 0, 0)
	}
	if got := f.l.Node("n1").Generation; got != before {
		t.Errorf("resyncs published generation %d after %d", got, before)
	}
	f.answer("Release", f.l.Release("p"), true)
	f.used("n1", 0, 0, 0, 0, 0, 0, 0, 0)
}

// TestCaseB041BindOutcomeUnknown: cards whose bind may have been committed are not given away.
func TestCaseB041BindOutcomeUnknown(t *testing.T) {
	cards := cardsN8s("A")
	p, q := holdWhole("p", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7), holdWhole("q", "n1", cards, 3)
	tests := map[string]func(*fixture){
		"committed, by Confirm": func(f *fixture) { f.answer("Confirm", f.l.Confirm("p"), true) },
		"committed, by Adopt":   func(f *fixture) { f.must(f.l.Adopt(p)) },
		"not committed": func(f *fixture) {
			f.answer("Refute", f.l.Refute("p"), true)
			f.free("n1", 0xff)
			f.must(f.l.Assume(p))
			f.answer("Confirm", f.l.Confirm("p"), true)
		},
	}
	for name, readBack := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", cards)
			f.must(f.l.Assume(p))
			f.answer("Suspect", f.l.Suspect("p"), true)
			f.answer("Unreserve", f.l.Forget("p"), false)
			if c := f.conflictOf(f.l.Assume(q)); c.HeldBy != "p" {
				t.Errorf("held by %q, want p", c.HeldBy)
			}
			readBack(f)
			f.stage("p", StageBound)
			f.conflict(f.l.Assume(q))
			f.used("n1", 81920*mib, 81920*mib, 81920*mib, 81920*mib, 81920*mib, 81920*mib, 81920*mib, 81920*mib)
		})
	}
}

// TestCaseB046DeletedWhileBinding: a pod deleted in flight loses its cards at once, and a late bind does not bring
// them back.
func TestCaseB046DeletedWhileBinding(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	p := holdWhole("p", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7)
	h := holdWhole("h", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7)
	f.must(f.l.Assume(p))
	f.conflict(f.l.Assume(h))
	f.answer("Release", f.l.Release("p"), true)
	f.must(f.l.Assume(h))
	f.answer("late Confirm", f.l.Confirm("p"), false)
	if err := f.l.Adopt(p); !errors.Is(err, ErrReleased) {
		t.Errorf("late Adopt: got %v, want ErrReleased", err)
	}
	f.answer("late Unreserve", f.l.Forget("p"), false)
	f.stage("h", StageAssumed)
	f.check()
}

// TestCaseB049BindFailsThenOtherNode: after a failed bind and a retry elsewhere only the second node is charged.
func TestCaseB049BindFailsThenOtherNode(t *testing.T) {
	f, cards1, cards2 := newFixture(t), cardsN8s("A"), cardsN8s("B")
	f.node("n1", cards1)
	f.node("n2", cards2)
	f.must(f.l.Assume(holdWhole("p", "n1", cards1, 0, 1, 2, 3)))
	f.answer("Unreserve", f.l.Forget("p"), true)
	f.must(f.l.Assume(holdWhole("p", "n2", cards2, 4, 5, 6, 7)))
	f.answer("Confirm", f.l.Confirm("p"), true)
	f.free("n1", 0xff)
	f.free("n2", 0x0f)
}

// TestCaseB056DeleteWithoutObject: the ledger gives back by UID alone, and says once that there was something.
func TestCaseB056DeleteWithoutObject(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.must(f.l.Adopt(holdWhole("p", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7)))
	f.answer("Release", f.l.Release("p"), true)
	f.answer("sweep", f.l.Release("p"), false)
	f.must(f.l.Assume(holdWhole("q", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7)))
}

// TestCaseB057LateDeleteOfOldUID: a repeated delete of the old pod does not touch the new one of the same name.
func TestCaseB057LateDeleteOfOldUID(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	one, two := holdWhole("uid-1", "n1", cards, 0, 1, 2, 3), holdWhole("uid-2", "n1", cards, 0, 1, 2, 3)
	one.Pod, two.Pod = "t/p", "t/p"
	f.must(f.l.Adopt(one))
	f.answer("Release", f.l.Release("uid-1"), true)
	f.must(f.l.Adopt(two))
	for range 3 {
		f.answer("repeated delete", f.l.Release("uid-1"), false)
	}
	f.stage("uid-2", StageBound)
	f.free("n1", 0xf0)
}

// TestCaseB059SameNameSwap: the old pod's end and the new pod's cards are one change.
func TestCaseB059SameNameSwap(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.must(f.l.Adopt(holdWhole("uid-0", "n1", cards, 0, 1, 2, 3)))
	uids := []PodUID{"uid-0"}
	for i := range 200 {
		uids = append(uids, PodUID("uid-"+strings.Repeat("x", i+1)))
	}
	stop, seen := make(chan struct{}), make(chan int)
	go func() { // q in Filter, all the time
		most := 0
		for {
			most = max(most, f.l.Node("n1").Free.Len())
			select {
			case <-stop:
				seen <- most
				return
			default:
			}
		}
	}()
	for i := range 200 {
		before := f.l.Node("n1").Generation
		if err := f.l.Replace(uids[i], holdWhole(uids[i+1], "n1", cards, 0, 1, 2, 3)); err != nil {
			t.Fatal(err)
		}
		if got := f.l.Node("n1").Generation; got != before+1 {
			t.Fatalf("swap %d published %d states, want 1", i, got-before)
		}
	}
	close(stop)
	if most := <-seen; most != 4 {
		t.Errorf("a reader saw %d free cards, want 4", most)
	}
	f.check()
	f.conflict(f.l.Assume(holdWhole("q", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7)))
	if n := f.l.Stats().Pods(); n != 1 {
		t.Errorf("%d holdings, want 1", n)
	}
}

// TestReplaceAcrossNodes: the pod of the same name runs on another node.
func TestReplaceAcrossNodes(t *testing.T) {
	f, cards1, cards2 := newFixture(t), cardsN8s("A"), cardsN8s("B")
	f.node("n1", cards1)
	f.node("n2", cards2)
	f.must(f.l.Adopt(holdWhole("old", "n1", cards1, 0, 1)))
	f.must(f.l.Replace("old", holdWhole("new", "n2", cards2, 5)))
	f.free("n1", 0xff)
	f.free("n2", 0xdf)
	f.publishedFirst("n2", "n1")
	var invalid *InvalidError
	if err := f.l.Replace("new", Holding{UID: "third", Node: "n2"}); !errors.As(err, &invalid) {
		t.Errorf("empty holding: got %v", err)
	}
	f.stage("new", StageBound)
	f.l.Release("fourth")
	if err := f.l.Replace("new", holdWhole("fourth", "n2", cards2, 5)); !errors.Is(err, ErrReleased) {
		t.Errorf("both pods gone: got %v", err)
	}
	f.stage("new", 0)
	f.free("n2", 0xff)
}

// TestDeleteBeforeAdd: a pod whose end is heard of first never holds anything.
func TestDeleteBeforeAdd(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.answer("Release", f.l.Release("p"), false)
	if err := f.l.Adopt(holdWhole("p", "n1", cards, 0)); !errors.Is(err, ErrReleased) {
		t.Errorf("Adopt: got %v, want ErrReleased", err)
	}
	if err := f.l.Assume(holdWhole("p", "n1", cards, 0)); !errors.Is(err, ErrReleased) {
		t.Errorf("Assume: got %v, want ErrReleased", err)
	}
	f.free("n1", 0xff)
	want := Stats{Tombstones: 1}
	if diff := cmp.Diff(want, f.l.Stats()); diff != "" {
		t.Error(diff)
	}
}

// TestConfirmAfterForget: the bind was committed although the cycle failed. The ledger cannot know the cards any more.
func TestConfirmAfterForget(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	p := holdWhole("p", "n1", cards, 0, 1)
	f.must(f.l.Assume(p))
	f.answer("Forget", f.l.Forget("p"), true)
	f.answer("Confirm", f.l.Confirm("p"), false)
	f.must(f.l.Adopt(p))
	f.free("n1", 0xfc)
}

// TestAdoptMovesAssumed: a pod assumed on one node turns out to be bound to another.
func TestAdoptMovesAssumed(t *testing.T) {
	f, cards1, cards2 := newFixture(t), cardsN8s("A"), cardsN8s("B")
	f.node("n1", cards1)
	f.node("n2", cards2)
	f.must(f.l.Assume(holdWhole("p", "n1", cards1, 0, 1)))
	f.must(f.l.Adopt(holdWhole("p", "n2", cards2, 6)))
	f.answer("Unreserve", f.l.Forget("p"), false)
	f.free("n1", 0xff)
	f.free("n2", 0xbf)
	f.publishedFirst("n2", "n1")
	h, stage, ok := f.l.Holding("p")
	if want := holdWhole("p", "n2", cards2, 6); !ok || stage != StageBound || cmp.Diff(want, h) != "" {
		t.Errorf("holding: %t, %s, %s", ok, stage, cmp.Diff(want, h))
	}
}

// TestAssumeAll: a transaction takes everything or nothing.
func TestAssumeAll(t *testing.T) {
	cards1, cards2 := cardsN8s("A"), cardsN8s("B")
	part := func(uid PodUID, first int, size int64) Holding {
		return Holding{UID: uid, Node: "n1", Cards: []allocate.CardShare{share(cards1[7], 7, first, size*mib)}}
	}
	tests := map[string]struct {
		hs           []Holding
		wantErr      string
		free1, free2 topology.GPUSet
	}{
		"nothing":           {nil, "", 0x7f, 0xff},
		"two nodes":         {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("b", "n2", cards2, 1)}, "", 0x7e, 0xfd},
		"one node twice":    {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("b", "n1", cards1, 1, 2)}, "", 0x78, 0xff},
		"one card twice":    {[]Holding{part("a", 48, 10240), part("b", 56, 10240)}, "", 0x7f, 0xff},
		"one card too full": {[]Holding{part("a", 48, 20480), part("b", 63, 1280)}, "pod b", 0x7f, 0xff},
		"conflict in front": {[]Holding{holdWhole("a", "n1", cards1, 7), holdWhole("b", "n2", cards2, 1)}, "card 7", 0x7f, 0xff},
		"conflict in the middle": {
			[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("b", "n1", cards1, 7), holdWhole("c", "n2", cards2, 1)}, "card 7", 0x7f, 0xff,
		},
		"conflict with itself": {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("b", "n1", cards1, 0)}, "card 0", 0x7f, 0xff},
		"node not known":       {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("b", "n3", cards2, 1)}, "n3: the node is not known", 0x7f, 0xff},
		"pod twice":            {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("a", "n1", cards1, 0)}, "twice", 0x7f, 0xff},
		"pod gone":             {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("gone", "n1", cards1, 1)}, "released", 0x7f, 0xff},
		"pod holds other":      {[]Holding{holdWhole("a", "n1", cards1, 0), holdWhole("x", "n1", cards1, 1)}, "already holds", 0x7f, 0xff},
		"pod holds the same":   {[]Holding{holdWhole("a", "n1", cards1, 0), part("x", 0, 40960)}, "", 0x7e, 0xff},
		"not valid":            {[]Holding{holdWhole("a", "n1", cards1, 0), {UID: "b", Node: "n2"}}, "holding 2 of 2: cards", 0x7f, 0xff},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", cards1)
			f.node("n2", cards2)
			f.must(f.l.Assume(part("x", 0, 40960)))
			f.must(f.l.Assume(part("y", 32, 20480)))
			f.l.Release("gone")
			before := f.l.Node("n1")
			err := f.l.AssumeAll(tc.hs)
			f.check()
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if err != nil && f.l.Node("n1") != before {
				t.Error("a failed transaction published a state")
			}
			f.free("n1", tc.free1)
			f.free("n2", tc.free2)
		})
	}
}
