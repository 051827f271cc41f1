package ledger

import (
	"errors"
	"strings"
	"testing"

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
	if ts.has("c") || !ts.has("b") || !ts.has("d") || ts.dropped != 1 {
		t.Errorf("after c was dropped: %+v", ts)
	}
	ts.add("c") // it is younger than d now, and its old place goes before its new one
	ts.add("e")
	if !ts.has("c") || !ts.has("e") || ts.dropped != 0 || len(ts.set) != 3 {
		t.Errorf("after c came back: %+v", ts)
	}
	for i := range 100 {
		ts.add(benchUID(i))
		if len(ts.set) != 3 || len(ts.ring) != 3 {
			t.Fatalf("%d in the set, %d in the ring", len(ts.set), len(ts.ring))
		}
	}
	if !ts.has(benchUID(97)) || ts.has(benchUID(96)) {
		t.Error("not the three youngest")
	}
}
