package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestCaseB120DryRunGivesBackExactly: removing victims from a state frees exactly their cards, assumed ones too, and
// leaves the ledger as it is.
func TestCaseB120DryRunGivesBackExactly(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	old, late := holdWhole("old", "n1", cards, 0, 1, 2, 3), holdWhole("late", "n1", cards, 4, 5, 6, 7)
	f.must(f.l.Adopt(old))
	f.must(f.l.Assume(late))
	full := f.l.Node("n1")
	held, _, _ := f.l.Holding("late")
	less, err := full.Without(held)
	f.must(err)
	if less.Free != 0xf0 || less.Pods != 1 || less.Generation != full.Generation {
		t.Errorf("without late: free %s, %d pods", less.Free, less.Pods)
	}
	again, err := less.With(held)
	f.must(err)
	if diff := diffNodes(full, again); diff != "" {
		t.Errorf("put back (-want +got):\n%s", diff)
	}
	h, err := less.With(Holding{UID: "h", Node: "n1", UnknownCards: 3}) // a nominated pod, its cards not chosen yet
	f.must(err)
	if h.Free != topology.SetOf(4) || h.Foreign != 0xe0 {
		t.Errorf("with a nominated pod: free %s, foreign %s", h.Free, h.Foreign)
	}
	if f.l.Node("n1") != full || full.Free != 0 {
		t.Error("the dry run changed the ledger")
	}
	f.check()
}

// TestWithoutEndsQuarantine: the dry run sees what the ledger would do.
func TestWithoutEndsQuarantine(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	a, b := holdWhole("a", "n1", cards, 0), holdWhole("b", "n1", cards, 0, 1)
	f.must(f.l.Adopt(a))
	f.must(f.l.Adopt(b))
	f.quarantine("n1", "pods ns/a and ns/b")
	less, err := f.l.Node("n1").Without(b)
	f.must(err)
	if less.Quarantined || less.Free != 0xfe {
		t.Errorf("quarantine %q, free %s", less.Quarantine(), less.Free)
	}
	back, err := less.With(b)
	f.must(err)
	if diff := diffNodes(f.l.Node("n1"), back); diff != "" {
		t.Errorf("put back (-want +got):\n%s", diff)
	}
}

// TestDryRunRefuses: a dry run that makes no sense is an error and not a guess.
func TestDryRunRefuses(t *testing.T) {
	cards := cardsN8s("A")
	part := func(slice int, bytes int64, milli int32) Holding {
		s := share(cards[1], 1, slice, bytes)
		s.ComputeMilli = milli
		return Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{s}}
	}
	otherNode := holdWhole("p", "n1", cards, 0)
	otherNode.Node = "n2"
	foreign := Holding{UID: "f", Node: "n1", UnknownCards: 1}
	without := func(h Holding) func(*NodeGPUAllocation) error {
		return func(a *NodeGPUAllocation) error { _, err := a.Without(h); return err }
	}
	with := func(h ...Holding) func(*NodeGPUAllocation) error {
		return func(a *NodeGPUAllocation) error { _, err := a.With(h...); return err }
	}
	tests := map[string]struct {
		op      func(*NodeGPUAllocation) error
		wantErr bool
	}{
		"what is there":            {without(holdWhole("p", "n1", cards, 0)), false},
		"a part that is there":     {without(part(0, 1280*mib, 100)), false},
		"of another node":          {without(otherNode), true},
		"a free card":              {without(holdWhole("p", "n1", cards, 5)), true},
		"whole, held in part":      {without(holdWhole("p", "n1", cards, 1)), true},
		"slices of nobody":         {without(part(30, 1280*mib, 100)), true},
		"more bytes than held":     {without(part(0, 2559*mib, 0)), true},
		"more compute than held":   {without(part(0, 1280*mib, 101)), true},
		"a card that is not there": {without(holdWhole("p", "n1", []topology.Card{{UUID: "B"}}, 0)), true},
		"an unknown card":          {without(foreign), true},
		"add":                      {with(foreign), false},
		"add a pod twice":          {with(foreign, foreign), true},
		"add of another node":      {with(otherNode), true},
		"add nothing":              {with(Holding{UID: "q", Node: "n1"}), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", cards)
			f.must(f.l.Adopt(holdWhole("p", "n1", cards, 0)))
			f.must(f.l.Adopt(part(0, 1280*mib, 100)))
			err := tc.op(f.l.Node("n1"))
			var invalid *InvalidError
			if (err != nil) != tc.wantErr || err != nil && !errors.Is(err, ErrNotHeld) && !errors.As(err, &invalid) {
				t.Errorf("got error %v, want one: %t", err, tc.wantErr)
			}
		})
	}
}

// TestWithoutChangedHolding: on a node where pods are known by name, a holding that has changed since is not there.
func TestWithoutChangedHolding(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.must(f.l.Adopt(Holding{UID: "f", Node: "n1", UnknownCards: 2}))
	if _, err := f.l.Node("n1").Without(Holding{UID: "f", Node: "n1", UnknownCards: 1}); !errors.Is(err, ErrNotHeld) {
		t.Errorf("got %v, want ErrNotHeld", err)
	}
}

func TestConflictString(t *testing.T) {
	many := strings.Split("a b c d e f g h i j", " ")
	tests := map[string]struct {
		c    Conflict
		want string
	}{
		"over-committed": {Conflict{Kind: ConflictOvercommit, Card: 3, UUID: "GPU-3", Pods: []string{"ns/a", "ns/b"}}, "card 3 (GPU-3) is over-committed by pods ns/a and ns/b"},
		"by itself":      {Conflict{Kind: ConflictOvercommit, Card: 3, Pods: []string{"ns/a"}}, "card 3 is over-committed by pod ns/a"},
		"by many":        {Conflict{Kind: ConflictOvercommit, Card: 3, Pods: many}, "card 3 is over-committed by pods a, b, c, d, e, f, g, h and 2 more"},
		"nobody known":   {Conflict{Kind: ConflictOvercommit, Card: 3}, "card 3 is over-committed by other pods"},
		"foreign":        {Conflict{Kind: ConflictForeign, Card: -1, Held: 3, Free: 2, Pods: []string{"ns/f"}}, "pods whose cards are not known hold 3 cards, only 2 are free (pod ns/f)"},
		"foreign MIG":    {Conflict{Kind: ConflictForeignMIG, Card: -1, Profile: "1g.10gb", Held: 8, Free: 7, Pods: []string{"ns/f"}}, "pods whose cards are not known hold 8 instances of 1g.10gb, only 7 are free (pod ns/f)"},
		"lost":           {Conflict{Kind: ConflictLost, Card: 9, Pods: []string{"ns/a"}}, "card 9, held by pod ns/a, is not listed and may be any card of the node"},
		"mode on":        {Conflict{Kind: ConflictModeOn, Card: 0, Pods: []string{"ns/a"}}, "card 0 is in MIG mode, but shares of it are held by pod ns/a"},
		"mode off":       {Conflict{Kind: ConflictModeOff, Card: 0, Pods: []string{"ns/a"}}, "card 0 is not in MIG mode, but instances of it are held by pod ns/a"},
		"instance":       {Conflict{Kind: ConflictInstance, Card: 0, Pods: []string{"ns/a"}}, "card 0 lacks MIG instances held by pod ns/a"},
		"none":           {Conflict{}, "conflict of unknown kind 0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.c.String(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestMoreCards: nodes of more cards than the usual sizes work the same.
func TestMoreCards(t *testing.T) {
	for _, n := range []int{0, 1, 8, 9, 16, 17, 64} {
		f, cards := newFixture(t), cardsOf("A", n, 24576*mib)
		f.node("n1", cards)
		f.free("n1", topology.FirstN(n))
		if n == 0 {
			continue
		}
		f.must(f.l.Assume(holdWhole("p", "n1", cards, n-1)))
		f.free("n1", topology.FirstN(n-1))
		f.answer("Forget", f.l.Forget("p"), true)
		f.free("n1", topology.FirstN(n))
	}
}

// TestCopies: what callers passed in and got out is theirs.
func TestCopies(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	h := holdWhole("p", "n1", cards, 0, 1)
	h.UnknownMIG = []ProfileCount{{"1g.10gb", 1}}
	want := h.clone()
	f.must(f.l.Adopt(h))
	h.Cards[0].Index, h.UnknownMIG[0].Count = 7, 5
	got, _, _ := f.l.Holding("p")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed from outside (-want +got):\n%s", diff)
	}
	got.Cards[1].VRAMBytes, got.UnknownMIG[0].Profile = 1, "7g.80gb"
	f.l.On("n1")[0].Cards[0].Index = 5
	if again, _, _ := f.l.Holding("p"); cmp.Diff(want, again) != "" {
		t.Errorf("changed from outside: %s", cmp.Diff(want, again))
	}
	f.check()
}
