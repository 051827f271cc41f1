package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func kinds(a *NodeGPUAllocation) []ConflictKind {
	var ks []ConflictKind
	for _, c := range a.Conflicts() {
		ks = append(ks, c.Kind)
	}
	return ks
}

// TestCaseB092TopologyRecreated: while nothing is known of the cards the node takes no pod and keeps its charges;
// afterwards they sit on the same UUIDs.
func TestCaseB092TopologyRecreated(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	for i := range 7 {
		f.must(f.l.Adopt(holdWhole(PodUID(fmt.Sprint("p", i)), "n1", cards, i)))
	}
	before := f.l.On("n1")

	f.l.SetNode("n1", nil)
	f.check()
	q := holdWhole("q", "n1", cards, 7)
	if c := f.conflictOf(f.l.Assume(q)); !errors.Is(c, errNoFacts) {
		t.Errorf("during the gap: %v", c)
	}
	if a := f.l.Node("n1"); a.Topology != nil || a.Free != 0 || len(a.Missing()) != 7 || a.Pods != 7 {
		t.Errorf("during the gap: %+v", a)
	}
	if diff := cmp.Diff(before, f.l.On("n1")); diff != "" {
		t.Errorf("holdings changed:\n%s", diff)
	}

	reversed := slices.Clone(cards)
	slices.Reverse(reversed)
	f.node("n1", reversed)
	f.free("n1", topology.SetOf(0)) // A7
	f.conflict(f.l.Assume(holdWhole("r", "n1", reversed, 1)))
	f.must(f.l.Assume(q)) // chosen before the gap, by the old index and the UUID
	f.free("n1", 0)
	f.answer("Release", f.l.Release("p2"), true)
	f.free("n1", topology.SetOf(5)) // A2

	extended := slices.Clone(cards)
	for i := range extended {
		extended[i].PCIeSwitch = fmt.Sprint("sw", i/2)
	}
	f.node("n1", extended)
	f.free("n1", topology.SetOf(2))
}

// TestCaseB094SickCardInUse: the idle healthy card is offered, the sick one never, and its holder stays.
func TestCaseB094SickCardInUse(t *testing.T) {
	f, cards := newFixture(t), cardsOf("A", 2, 24576*mib)
	f.node("n1", cards)
	f.must(f.l.Adopt(holdWhole("p", "n1", cards, 0)))
	sick := slices.Clone(cards)
	sick[0].Healthy = false
	f.node("n1", sick)
	f.free("n1", topology.SetOf(1))
	f.used("n1", 24576*mib, 0)
	f.answer("Release", f.l.Release("p"), true)
	f.free("n1", topology.SetOf(1))
	f.conflict(f.l.Assume(holdWhole("q", "n1", cards, 0)))
	f.must(f.l.Assume(holdWhole("q", "n1", cards, 1)))
	f.node("n1", cards)
	f.free("n1", topology.SetOf(0))
}

// TestCaseB097CardGoneAndBack: an idle card that leaves is no capacity; one in use stays charged until it is back or
// its pod ends.
func TestCaseB097CardGoneAndBack(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.must(f.l.Adopt(holdWhole("p", "n1", cards, 5)))
	without := slices.Concat(cards[:3], cards[4:5], cards[6:]) // A3 and A5 are gone
	f.node("n1", without)
	f.free("n1", 0x1f) // A5 may stand there under another name: a card is set aside for it
	want := []MissingShare{{Pod: "ns/p", Share: whole(cards[5], 5)}}
	if diff := cmp.Diff(want, f.l.Node("n1").Missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	f.conflict(f.l.Assume(holdWhole("q", "n1", cards, 5)))
	f.must(f.l.Assume(holdWhole("q", "n1", cards, 6))) // now at index 4
	f.free("n1", 0x0f)

	f.node("n1", slices.Concat(cards[:3], cards[4:])) // A5 is back, at index 4
	f.free("n1", 0x4f)
	if m := f.l.Node("n1").Missing(); m != nil {
		t.Errorf("missing: %v", m)
	}
	f.node("n1", without)
	f.answer("Release", f.l.Release("p"), true)
	if m := f.l.Node("n1").Missing(); m != nil {
		t.Errorf("missing after the pod ended: %v", m)
	}
}

// TestCaseB104ModeSwitched: shares on a card that comes back in MIG mode block the card; nothing is dropped.
func TestCaseB104ModeSwitched(t *testing.T) {
	f, cards := newFixture(t), cardsOf("A", 2, 81920*mib)
	f.node("n1", cards)
	f.must(f.l.Adopt(Holding{UID: "p", Pod: "ns/p", Node: "n1", Cards: []allocate.CardShare{share(cards[0], 0, 0, 1000*mib)}}))

	f.l.SetNode("n1", nil) // the node is not managed any more
	f.conflict(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{share(cards[1], 1, 0, 1000*mib)}}))

	mig := []topology.Card{migCard("A0"), migCard("A1")}
	f.node("n1", mig)
	a := f.l.Node("n1")
	want := []Conflict{{Kind: ConflictModeOn, Card: 0, UUID: "A0", Pods: []string{"ns/p"}}}
	if diff := cmp.Diff(want, a.Conflicts()); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
	if a.Quarantined || a.Closed != topology.SetOf(0) || a.Use[0].VRAMBytes != 1000*mib {
		t.Errorf("quarantine %t, closed %s, use %+v", a.Quarantined, a.Closed, a.Use)
	}
	f.conflict(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{instance(mig[0], 0, 6)}}))
	f.must(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{instance(mig[1], 1, 6)}}))

	f.node("n1", cards) // MIG mode off again: now q's instance is what does not fit
	if got := kinds(f.l.Node("n1")); !slices.Equal(got, []ConflictKind{ConflictModeOff}) {
		t.Errorf("conflicts: %v", got)
	}
	f.answer("Release", f.l.Release("q"), true)
	f.free("n1", topology.SetOf(1))
}

// TestMIGLayoutChanged: an instance that does not exist any more blocks its card.
func TestMIGLayoutChanged(t *testing.T) {
	f, card := newFixture(t), migCard("A0")
	f.node("n1", []topology.Card{card})
	f.must(f.l.Assume(Holding{UID: "p", Node: "n1", Cards: []allocate.CardShare{instance(card, 0, 2), instance(card, 0, 3)}}))
	f.conflict(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{instance(card, 0, 3)}}))
	big := card
	big.MIG = []topology.MIGInstance{{Profile: "3g.40gb", Start: 0, Size: 4}, {Profile: "3g.40gb", Start: 4, Size: 4}}
	f.node("n1", []topology.Card{big})
	want := []Conflict{{Kind: ConflictInstance, Card: 0, UUID: "A0", Pods: []string{"p"}}}
	if diff := cmp.Diff(want, f.l.Node("n1").Conflicts()); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
	f.conflict(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{instance(big, 0, 1)}}))
	f.answer("Release", f.l.Release("p"), true)
	f.must(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{instance(big, 0, 1)}}))
}

// TestCaseB061NodeRecreated: charges follow the live pods and not the node object.
func TestCaseB061NodeRecreated(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.must(f.l.Adopt(holdWhole("p", "n1", cards, 0, 1, 2, 3)))
	first := f.l.Node("n1").Generation
	f.l.RemoveNode("n1")
	f.l.RemoveNode("n1")
	f.check()
	if f.l.Node("n1") != nil {
		t.Error("a removed node is visible")
	}
	q := holdWhole("q", "n1", cards, 0, 1, 2, 3, 4, 5, 6, 7)
	if c := f.conflictOf(f.l.Assume(q)); !errors.Is(c, errNoNode) {
		t.Errorf("on a removed node: %v", c)
	}
	f.node("n1", cards)
	if got := f.l.Node("n1").Generation; got <= first {
		t.Errorf("generation %d after %d", got, first)
	}
	f.free("n1", 0xf0)
	if c := f.conflictOf(f.l.Assume(q)); c.HeldBy != "p" {
		t.Errorf("held by %q", c.HeldBy)
	}
	f.answer("sweep", f.l.Release("p"), true)
	f.must(f.l.Assume(q))
}

// TestCaseB064ForeignCards: a pod that another scheduler placed takes one card of headroom.
func TestCaseB064ForeignCards(t *testing.T) {
	f, cards := newFixture(t), cardsOf("A", 2, 24576*mib)
	f.node("n1", cards)
	f.must(f.l.Adopt(Holding{UID: "f", Pod: "ns/f", Node: "n1", UnknownCards: 1}))
	f.free("n1", topology.SetOf(0))
	if a := f.l.Node("n1"); a.Foreign != topology.SetOf(1) || a.Quarantined {
		t.Errorf("foreign %s, quarantine %q", a.Foreign, a.Quarantine())
	}
	part := func(uid PodUID, card int) Holding {
		return Holding{UID: uid, Node: "n1", Cards: []allocate.CardShare{share(cards[card], card, 0, 20000*mib)}}
	}
	if c := f.conflictOf(f.l.Assume(part("p", 1))); c.HeldBy != "f" {
		t.Errorf("held by %q, want the foreign pod", c.HeldBy)
	}
	f.must(f.l.Assume(part("p", 0)))
	f.conflict(f.l.Assume(part("r", 0)))
	f.conflict(f.l.Assume(part("r", 1)))
	f.answer("Forget", f.l.Forget("p"), true)
	f.answer("Release", f.l.Release("f"), true)
	f.free("n1", 3)
}

// TestForeignCardTurnsOutKnown: the device agent's report names the card later.
func TestForeignCardTurnsOutKnown(t *testing.T) {
	f, cards := newFixture(t), cardsN8s("A")
	f.node("n1", cards)
	f.must(f.l.Adopt(Holding{UID: "f", Node: "n1", UnknownCards: 2}))
	f.free("n1", 0x3f)
	f.must(f.l.Adopt(holdWhole("p", "n1", cards, 7))) // bound by another of our schedulers
	f.free("n1", 0x1f)
	f.must(f.l.Adopt(holdWhole("f", "n1", cards, 0, 1)))
	f.free("n1", 0x7c)
}

// TestForeignCardsTooMany: more foreign cards than free ones close the node until the cause is gone.
func TestForeignCardsTooMany(t *testing.T) {
	f, cards := newFixture(t), cardsOf("A", 4, 24576*mib)
	f.node("n1", cards)
	f.must(f.l.Adopt(holdWhole("p", "n1", cards, 0, 1)))
	f.must(f.l.Adopt(Holding{UID: "f", Pod: "ns/f", Node: "n1", UnknownCards: 1}))
	f.must(f.l.Adopt(Holding{UID: "g", Pod: "ns/g", Node: "n1", UnknownCards: 2}))
	f.quarantine("n1", "pods whose cards are not known hold 3 cards, only 2 are free", "ns/f", "ns/g")
	f.answer("Release", f.l.Release("f"), true)
	if a := f.l.Node("n1"); a.Quarantined || a.Foreign != 0xc {
		t.Errorf("quarantine %q, foreign %s", a.Quarantine(), a.Foreign)
	}
	sick := slices.Clone(cards) // a foreign pod may sit on a card that fails: that is no contradiction
	sick[3].Healthy = false
	f.node("n1", sick)
	if a := f.l.Node("n1"); a.Quarantined || a.Foreign != 0xc {
		t.Errorf("quarantine %q, foreign %s", a.Quarantine(), a.Foreign)
	}
}

// TestCaseB065ForeignMIG: MIG pods of other schedulers take instances out, each once.
func TestCaseB065ForeignMIG(t *testing.T) {
	f, cards := newFixture(t), []topology.Card{migCard("A0"), migCard("A1")}
	f.node("n1", cards)
	for i := range 3 {
		f.must(f.l.Adopt(Holding{UID: PodUID(fmt.Sprint("f", i)), Node: "n1", UnknownMIG: []ProfileCount{{"1g.10gb", 1}}}))
	}
	if a := f.l.Node("n1"); a.Use[0].Holders != 0 || a.Use[1].SliceMask != 0x70 || len(a.ForeignMIG()) != 3 {
		t.Errorf("use %+v, foreign %v", a.Use, a.ForeignMIG())
	}
	for i := range 11 {
		card := i / 7
		f.must(f.l.Assume(Holding{UID: PodUID(fmt.Sprint("p", i)), Node: "n1", Cards: []allocate.CardShare{instance(cards[card], card, i%7)}}))
	}
	for i := range 7 {
		f.conflict(f.l.Assume(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{instance(cards[1], 1, i)}}))
	}
	f.must(f.l.Adopt(Holding{UID: "g", Pod: "ns/g", Node: "n1", UnknownMIG: []ProfileCount{{"1g.10gb", 1}}}))
	f.quarantine("n1", "pods whose cards are not known hold 4 instances of 1g.10gb, only 3 are free", "ns/g")
}

// TestOvercommitted: two records that claim one card are both kept; the node is closed until one of them goes.
func TestOvercommitted(t *testing.T) {
	cards := cardsOf("A", 3, 81920*mib)
	part := func(bytes int64, milli int32) allocate.CardShare {
		s := share(cards[1], 1, 0, bytes)
		s.ComputeMilli = milli
		return s
	}
	anonymous := slices.Clone(cards)
	anonymous[2].UUID = ""
	mig := []topology.Card{cards[0], migCard("A1"), cards[2]}
	one := func(uid PodUID, s allocate.CardShare) Holding {
		return Holding{UID: uid, Pod: "ns/" + string(uid), Node: "n1", Cards: []allocate.CardShare{s}}
	}
	tests := map[string]struct {
		cards []topology.Card
		a, b  Holding
		want  string
	}{
		"whole and whole": {cards, one("a", whole(cards[1], 1)), one("b", whole(cards[1], 1)), "card 1 (A1) is over-committed by pods ns/a and ns/b"},
		"whole and share": {cards, one("a", whole(cards[1], 1)), one("b", part(mib, 0)), "card 1 (A1) is over-committed by pods ns/a and ns/b"},
		"bytes":           {cards, one("a", part(40961*mib, 0)), one("b", part(40960*mib, 0)), "card 1 (A1) is over-committed"},
		"one byte":        {cards, one("a", part(40960*mib+1, 0)), one("b", part(40960*mib, 0)), "card 1 (A1) is over-committed"},
		"compute":         {cards, one("a", part(mib, 501)), one("b", part(mib, 500)), "card 1 (A1) is over-committed"},
		"instance twice":  {mig, one("a", instance(mig[1], 1, 3)), one("b", instance(mig[1], 1, 3)), "card 1 (A1) is over-committed by pods ns/a and ns/b"},
		"no such index":   {cards, one("a", allocate.CardShare{Index: 5, SliceMask: allocate.WholeCard}), one("b", whole(cards[1], 1)), "card 5, held by pod ns/a"},
		"any card without a UUID": {
			anonymous, one("a", allocate.CardShare{Index: 5, UUID: "GPU-x", SliceMask: allocate.WholeCard}), one("b", whole(cards[1], 1)), "card 5 (GPU-x), held by pod ns/a",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", tc.cards)
			f.must(f.l.Adopt(tc.b))
			f.must(f.l.Adopt(tc.a))
			f.quarantine("n1", tc.want)
			f.stage("a", StageBound)
			f.stage("b", StageBound)
			f.conflict(f.l.Assume(holdWhole("q", "n1", cards, 0)))
			f.answer("Release", f.l.Release("a"), true)
			if a := f.l.Node("n1"); a.Quarantined || a.Closed != 0 || len(a.Conflicts()) != 0 {
				t.Errorf("after the cause is gone: %q, closed %s", a.Quarantine(), a.Closed)
			}
			f.must(f.l.Assume(holdWhole("q", "n1", cards, 0)))
		})
	}
}

// TestMasksThatOverlap: two records whose pictures overlap while their bytes fit are no over-commitment.
func TestMasksThatOverlap(t *testing.T) {
	f, cards := newFixture(t), cardsOf("A", 1, 81920*mib)
	f.node("n1", cards)
	for _, uid := range []PodUID{"a", "b"} {
		f.must(f.l.Adopt(Holding{UID: uid, Node: "n1", Cards: []allocate.CardShare{share(cards[0], 0, 0, 20480*mib)}}))
	}
	a := f.l.Node("n1")
	if a.Quarantined || a.Use[0] != (allocate.CardUse{SliceMask: 0xffff, VRAMBytes: 40960 * mib, Holders: 2}) {
		t.Errorf("quarantine %q, use %+v", a.Quarantine(), a.Use)
	}
	f.answer("Release", f.l.Release("a"), true)
	if u := f.l.Node("n1").Use[0]; u != (allocate.CardUse{SliceMask: 0xffff, VRAMBytes: 20480 * mib, Holders: 1}) {
		t.Errorf("use %+v", u)
	}
}

// TestPlace: the UUID decides, the index only where there is no UUID to compare.
func TestPlace(t *testing.T) {
	cards := cardsOf("A", 4, mib)
	cards[1].UUID = ""
	n := build(t, cards)
	full := build(t, cardsOf("A", 4, mib))
	tests := map[string]struct {
		t         *topology.Node
		uuid      string
		index     int
		want      int
		wantWhere location
	}{
		"in its place":                         {n, "A2", 2, 2, here},
		"elsewhere":                            {n, "A2", 0, 2, here},
		"elsewhere, index beyond the cards":    {n, "A3", 9, 3, here},
		"no UUID in the share":                 {n, "", 2, 2, here},
		"no UUID in the share, no such index":  {n, "", 4, -1, lost},
		"no UUID at the index":                 {n, "B1", 1, 1, here},
		"another UUID at the index, one blank": {n, "B1", 2, -1, lost},
		"no such index, one blank":             {n, "B1", 9, -1, lost},
		"every card has another UUID":          {full, "B1", 1, -1, gone},
		"nothing known of the cards":           {nil, "", 0, -1, gone},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, where := place(tc.t, &allocate.CardShare{UUID: tc.uuid, Index: tc.index})
			if got != tc.want || where != tc.wantWhere {
				t.Errorf("got %d, %d, want %d, %d", got, where, tc.want, tc.wantWhere)
			}
		})
	}
}

// TestCaseB100NodesReused: nothing of a removed node is kept or inherited.
func TestCaseB100NodesReused(t *testing.T) {
	f := newFixture(t)
	last := uint64(0)
	for round := range 5000 {
		name := NodeName(fmt.Sprint("n", round%3+1))
		cards := cardsOf("A", round%9, int64(round%5+1)*24576*mib)
		f.l.SetNode(name, build(t, cards))
		if len(cards) > 0 {
			cards[0].Healthy = false
			f.l.SetNode(name, build(t, cards))
			if err := f.l.Adopt(holdWhole(PodUID(fmt.Sprint("p", round)), name, cards, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.l.Node(name).Generation; got <= last {
			t.Fatalf("round %d: generation %d after %d", round, got, last)
		}
		last = f.l.Node(name).Generation
		f.l.RemoveNode(name)
		f.l.Release(PodUID(fmt.Sprint("p", round)))
		if n := len(f.l.nodes.names()); n != 0 {
			t.Fatalf("round %d: %d entries, want 0", round, n)
		}
	}
	f.check()
	cards := cardsOf("A", 2, 24576*mib)
	f.node("n1", cards)
	f.free("n1", 3)
	f.used("n1", 0, 0)
	if got := f.l.nodes.names(); !slices.Equal(got, []NodeName{"n1"}) || f.l.Stats().Pods() != 0 {
		t.Errorf("entries %v, stats %+v", got, f.l.Stats())
	}
}
