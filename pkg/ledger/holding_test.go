package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestInvalidHolding: what cannot be true is refused with the field and the value, and changes nothing.
func TestInvalidHolding(t *testing.T) {
	cards := cardsN8s("A")
	tests := map[string]struct {
		change    func(*Holding)
		wantField string
		wantValue string
	}{
		"no UID":                {func(h *Holding) { h.UID = "" }, "uid", ""},
		"no node":               {func(h *Holding) { h.Node = "" }, "node", ""},
		"nothing":               {func(h *Holding) { h.Cards = nil }, "cards", ""},
		"too many shares":       {func(h *Holding) { h.Cards = make([]allocate.CardShare, maxShares+1) }, "cards", "513 shares"},
		"negative index":        {func(h *Holding) { h.Cards[1].Index = -1 }, "cards[1].index", "-1"},
		"index above":           {func(h *Holding) { h.Cards[0].Index = topology.MaxCards }, "cards[0].index", "64"},
		"negative bytes":        {func(h *Holding) { h.Cards[0].VRAMBytes = -1 }, "cards[0].vramBytes", "-1"},
		"absurd bytes":          {func(h *Holding) { h.Cards[0].VRAMBytes = 1 << 62 }, "cards[0].vramBytes", "4611686018427387904"},
		"negative compute":      {func(h *Holding) { h.Cards[0].ComputeMilli = -1 }, "cards[0].computeMilli", "-1"},
		"compute above":         {func(h *Holding) { h.Cards[0].ComputeMilli = 1001 }, "cards[0].computeMilli", "1001"},
		"share of nothing":      {func(h *Holding) { h.Cards[0] = allocate.CardShare{ComputeMilli: 100} }, "cards[0].vramBytes", "0"},
		"instance of nothing":   {func(h *Holding) { h.Cards[0] = allocate.CardShare{MIGProfile: "1g"} }, "cards[0].sliceMask", "0x0"},
		"instance of 9 slices":  {func(h *Holding) { h.Cards[0] = allocate.CardShare{MIGProfile: "9g", SliceMask: 0x1ff} }, "cards[0].sliceMask", "0x1ff"},
		"negative unknown":      {func(h *Holding) { h.UnknownCards = -1 }, "unknownCards", "-1"},
		"absurd unknown":        {func(h *Holding) { h.UnknownCards = 1 << 40 }, "unknownCards", "1099511627776"},
		"unknown profile":       {func(h *Holding) { h.UnknownMIG = []ProfileCount{{"", 1}} }, "unknownMIG[0].profile", ""},
		"no unknown instances":  {func(h *Holding) { h.UnknownMIG = []ProfileCount{{"1g", 1}, {"2g", 0}} }, "unknownMIG[1].count", "0"},
		"negative instances":    {func(h *Holding) { h.UnknownMIG = []ProfileCount{{"1g", -3}} }, "unknownMIG[0].count", "-3"},
		"overflow of instances": {func(h *Holding) { h.UnknownMIG = []ProfileCount{{"1g", 1 << 62}} }, "unknownMIG[0].count", "4611686018427387904"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", cards)
			f.must(f.l.Adopt(holdWhole("p", "n1", cards, 7)))
			before := f.l.Node("n1")
			h := holdWhole("p", "n1", cards, 0, 1)
			tc.change(&h)
			for op, err := range map[string]error{"Adopt": f.l.Adopt(h), "Replace": f.l.Replace("p", h)} {
				var invalid *InvalidError
				if !errors.As(err, &invalid) || invalid.Field != tc.wantField || invalid.Value != tc.wantValue {
					t.Errorf("%s: got %v, want field %q with %q", op, err, tc.wantField, tc.wantValue)
				}
			}
			for op, err := range map[string]error{"Assume": f.l.Assume(h), "AssumeAll": f.l.AssumeAll([]Holding{h})} {
				var invalid *InvalidError
				if !errors.As(err, &invalid) {
					t.Errorf("%s: got %v", op, err)
				}
			}
			if f.l.Node("n1") != before {
				t.Error("an invalid holding changed the node")
			}
			f.check()
		})
	}
}

// TestAssumeUnknown: this scheduler knows what it takes.
func TestAssumeUnknown(t *testing.T) {
	f := newFixture(t)
	f.node("n1", []topology.Card{migCard("A0")})
	for _, h := range []Holding{{UID: "p", Node: "n1", UnknownCards: 1}, {UID: "p", Node: "n1", UnknownMIG: []ProfileCount{{"1g.10gb", 1}}}} {
		var invalid *InvalidError
		if err := f.l.Assume(h); !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Field, "unknown") {
			t.Errorf("got %v", err)
		}
	}
}

func TestInvalidErrorCutsValue(t *testing.T) {
	err := &InvalidError{Field: "uid", Value: strings.Repeat("x", 300_000), Reason: "too long"}
	if got := err.Error(); len(got) > 100 || !strings.Contains(got, strings.Repeat("x", 64)) {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

func TestStageString(t *testing.T) {
	for stage, want := range map[Stage]string{StageAssumed: "assumed", StageUnknown: "unknown", StageBound: "bound", 0: "stage 0", 9: "stage 9"} {
		if got := stage.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestTombstonesAreBounded: the oldest released UID is forgotten first, and never more are kept than the limit.
func TestTombstonesAreBounded(t *testing.T) {
	ts := tombstones{limit: 3}
	for _, uid := range []PodUID{"a", "b", "a", "c", "d"} {
		ts.add(uid)
	}
	for uid, want := range map[PodUID]bool{"a": false, "b": true, "c": true, "d": true} {
		if got := ts.has(uid); got != want {
			t.Errorf("%s: got %t, want %t", uid, got, want)
		}
	}
	ts.drop("c")
	ts.drop("c")
	ts.drop("stranger")
	if ts.has("c") || !ts.has("b") || !ts.has("d") || ts.count != 2 {
		t.Errorf("after c was dropped: %+v", ts)
	}
	ts.add("c") // it is younger than d now, and its old place goes before its new one
	ts.add("e")
	if !ts.has("c") || !ts.has("e") || ts.has("b") || ts.count != 3 || ts.listed() != 3 {
		t.Errorf("after c came back: %+v", ts)
	}
	for i := range 100 {
		ts.add(benchUID(i))
		if ts.count != 3 || ts.listed() != 3 || len(ts.ring) != 3 {
			t.Fatalf("%d counted, %d in the lists, %d in the ring", ts.count, ts.listed(), len(ts.ring))
		}
	}
	if !ts.has(benchUID(97)) || ts.has(benchUID(96)) {
		t.Error("not the three youngest")
	}
}

// TestTombstonesTakeNoMore: their memory is there from the first on, and stays the same however many come.
func TestTombstonesTakeNoMore(t *testing.T) {
	ts := tombstones{limit: 500}
	uids := make([]PodUID, 10*ts.limit)
	for i := range uids {
		uids[i] = benchUID(i)
	}
	ts.add("first")
	all := func() {
		for i, uid := range uids {
			ts.add(uid)
			ts.drop(uids[i/3])
		}
	}
	if n := testing.AllocsPerRun(10, all); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTombstonesAgainstMap compares them with a list and a map.
func TestTombstonesAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := tombstones{limit: rapid.IntRange(1, 9).Draw(t, "limit")}
		var ring []PodUID // the model: the oldest first, "" for one that was dropped
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			uid := PodUID(rapid.StringMatching("[a-m]?").Draw(t, "uid"))
			at := slices.Index(ring, uid)
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if ts.drop(uid); uid != "" && at >= 0 {
					ring[at] = ""
				}
			default:
				if ts.add(uid); uid != "" && at < 0 {
					ring = append(ring, uid)
					ring = ring[max(0, len(ring)-ts.limit):]
				}
			}
			count := 0
			for _, uid := range "abcdefghijklm" {
				want := slices.Contains(ring, PodUID(uid))
				if got := ts.has(PodUID(uid)); got != want {
					t.Fatalf("%c: got %t, want %t, ring %q", uid, got, want, ring)
				}
				if want {
					count++
				}
			}
			if ts.count != count || ts.listed() != count || ts.has("") {
				t.Fatalf("%d counted, %d in the lists, want %d", ts.count, ts.listed(), count)
			}
		}
	})
}

// TestStringsOfRecordsAreNotKept: what names a card in a record that was read is dropped for the node's own name of it.
func TestStringsOfRecordsAreNotKept(t *testing.T) {
	f := newFixture(t)
	cards := cardsN8s("GPU-")
	f.node("n1", cards)
	h := holdWhole("p", "n1", cards, 0, 3)
	other := holdWhole("q", "n1", cards, 5)
	for _, s := range []*string{&h.Cards[0].UUID, &h.Cards[1].UUID} {
		*s = strings.Clone(*s)
	}
	other.Cards[0].UUID = "GPU-unknown"
	f.must(f.l.Adopt(h))
	f.must(f.l.Adopt(other))
	own := f.l.Node("n1").Topology
	got, _, _ := f.l.Holding("p")
	for i, c := range got.Cards {
		if c.UUID != h.Cards[i].UUID || unsafe.StringData(c.UUID) != unsafe.StringData(own.UUID(c.Index)) {
			t.Errorf("card %d is named %q by a string of its own", c.Index, c.UUID)
		}
	}
	if got, _, _ := f.l.Holding("q"); got.Cards[0].UUID != "GPU-unknown" {
		t.Errorf("a card that the node does not have was renamed %q", got.Cards[0].UUID)
	}
}
