package topology

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// linksOf reads a matrix from rows of cells.
func linksOf(t testing.TB, rows ...string) [][]Link {
	t.Helper()
	out := make([][]Link, len(rows))
	for i, row := range rows {
		for _, cell := range strings.Fields(row) {
			l, err := ParseLink(cell)
			if err != nil {
				t.Fatal(err)
			}
			out[i] = append(out[i], l)
		}
	}
	return out
}

// cardsOf returns n healthy cards with UUIDs.
func cardsOf(n int) []Card {
	out := make([]Card, n)
	for i := range out {
		out[i] = Card{UUID: fmt.Sprintf("GPU-%d", i), Product: h100, VRAMBytes: 80 << 30, NUMA: i * 2 / max(n, 1), Healthy: true}
	}
	return out
}

func newNode(t testing.TB, s Spec) *Node {
	t.Helper()
	n, err := New(s, DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNewRefuses(t *testing.T) {
	good := func(change func(*Spec)) Spec {
		s := Spec{Cards: cardsOf(2), Links: linksOf(t, "X PIX", "PIX X"), NICs: []NIC{{Name: "a", Links: make([]LinkType, 2)}}}
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		spec Spec
		want SpecError
	}{
		"too many cards": {spec: Spec{Cards: cardsOf(200)}, want: SpecError{Field: "cards", Value: "200", Reason: "a node has at most 64 cards"}},
		"a row too few":  {spec: good(func(s *Spec) { s.Links = s.Links[:1] }), want: SpecError{Field: "links", Value: "1", Reason: "2 cards need 2 rows"}},
		"no rows":        {spec: good(func(s *Spec) { s.Links = [][]Link{} }), want: SpecError{Field: "links", Value: "0", Reason: "2 cards need 2 rows"}},
		"rows without cards": {spec: good(func(s *Spec) { s.Cards = nil }),
			want: SpecError{Field: "links", Value: "2", Reason: "0 cards need 0 rows"}},
		"a cell too few":  {spec: good(func(s *Spec) { s.Links[1] = s.Links[1][:1] }), want: SpecError{Field: "links[1]", Value: "1", Reason: "2 cards need 2 columns"}},
		"a cell too many": {spec: good(func(s *Spec) { s.Links[0] = append(s.Links[0], Link{}) }), want: SpecError{Field: "links[0]", Value: "3", Reason: "2 cards need 2 columns"}},
		"no link type":    {spec: good(func(s *Spec) { s.Links[0][1].Type = 9 }), want: SpecError{Field: "links[0][1]", Value: "?", Reason: "type 9 is no link type"}},
		"NVLink without links": {spec: good(func(s *Spec) { s.Links[0][1] = Link{Type: LinkNVLink} }),
			want: SpecError{Field: "links[0][1]", Value: "NV0", Reason: "type 6 with 0 NVLinks"}},
		"links without NVLink": {spec: good(func(s *Spec) { s.Links[0][1].NVLinks = 4 }), want: SpecError{Field: "links[0][1]", Value: "PIX", Reason: "type 5 with 4 NVLinks"}},
		"diagonal":             {spec: good(func(s *Spec) { s.Links[1][1] = Link{Type: LinkPIX} }), want: SpecError{Field: "links[1][1]", Value: "PIX", Reason: "a card and itself are joined by X"}},
		"off the diagonal":     {spec: good(func(s *Spec) { s.Links[1][0] = Link{Type: LinkSelf} }), want: SpecError{Field: "links[1][0]", Value: "X", Reason: "X joins a card with itself only"}},
		"NUMA":                 {spec: good(func(s *Spec) { s.Cards[1].NUMA = -2 }), want: SpecError{Field: "cards[1].numa", Value: "-2", Reason: "a NUMA id is 0 or more, -1 if unknown"}},
		"adapter of few links": {spec: good(func(s *Spec) { s.NICs[0].Links = s.NICs[0].Links[:1] }), want: SpecError{Field: "nics[0].links", Value: "1", Reason: "2 cards need 2 links"}},
		"adapter by NVLink": {spec: good(func(s *Spec) { s.NICs[0].Links[1] = LinkNVLink }),
			want: SpecError{Field: "nics[0].links[1]", Value: "6", Reason: "an adapter is joined to a card by PIX, PXB, PHB, NODE, SYS or an unknown link"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := New(tc.spec, DefaultRates())
			var got *SpecError
			if !errors.As(err, &got) {
				t.Fatalf("got %v, %v, want a *SpecError", n, err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	err := &SpecError{Field: "cards[3].uuid", Value: strings.Repeat("u", 100), Reason: "bad"}
	if want := `cards[3].uuid: "` + strings.Repeat("u", 64) + `": bad`; err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
}

func TestNewClosesFaultyCards(t *testing.T) {
	mig := func(instances ...MIGInstance) func([]Card) {
		return func(c []Card) { c[1].MIGEnabled, c[1].MIG = true, instances }
	}
	for name, tc := range map[string]struct {
		change func([]Card)
		want   map[int]string // fault by card
	}{
		"none":            {change: func([]Card) {}},
		"memory unknown":  {change: func(c []Card) { c[1].VRAMBytes = 0 }},
		"UUIDs unknown":   {change: func(c []Card) { c[0].UUID, c[1].UUID = "", "" }},
		"memory negative": {change: func(c []Card) { c[1].VRAMBytes = -1 }, want: map[int]string{1: "vramBytes is -1"}},
		"memory absurd":   {change: func(c []Card) { c[1].VRAMBytes = 1 << 62 }, want: map[int]string{1: "vramBytes is 4611686018427387904, above 17592186044416"}},
		"UUID twice":      {change: func(c []Card) { c[3].UUID = "GPU-1" }, want: map[int]string{1: "UUID GPU-1 stands twice", 3: "UUID GPU-1 stands twice"}},
		"UUID thrice": {change: func(c []Card) { c[0].UUID, c[3].UUID = "GPU-1", "GPU-1" },
			want: map[int]string{0: "UUID GPU-1 stands twice", 1: "UUID GPU-1 stands twice", 3: "UUID GPU-1 stands twice"}},
		"UUID twice, one with another fault": {change: func(c []Card) { c[3].UUID, c[3].VRAMBytes = "GPU-1", -5 },
			want: map[int]string{1: "UUID GPU-1 stands twice", 3: "vramBytes is -5"}},
		"fault of the source": {change: func(c []Card) { c[2].Fault = "0 MiB" }, want: map[int]string{2: "0 MiB"}},
		"MIG":                 {change: mig(MIGInstance{Profile: "3g.40gb", Start: 0, Size: 4}, MIGInstance{Profile: "3g.40gb", Start: 4, Size: 4})},
		"MIG overlap": {change: mig(MIGInstance{Profile: "3g.40gb", Start: 0, Size: 4}, MIGInstance{Profile: "1g.10gb", Start: 3, Size: 1}),
			want: map[int]string{1: "MIG instance 1 overlaps another"}},
		"MIG beyond the card": {change: mig(MIGInstance{Profile: "3g.40gb", Start: 5, Size: 4}), want: map[int]string{1: "MIG instance 0 starts at slice 5 with 4 slices"}},
		"MIG before the card": {change: mig(MIGInstance{Profile: "3g.40gb", Start: -1, Size: 4}), want: map[int]string{1: "MIG instance 0 starts at slice -1 with 4 slices"}},
		"MIG overflow": {change: mig(MIGInstance{Profile: "3g.40gb", Start: 1<<63 - 1, Size: 1<<63 - 1}),
			want: map[int]string{1: "MIG instance 0 starts at slice 9223372036854775807 with 9223372036854775807 slices"}},
		"MIG of no size":     {change: mig(MIGInstance{Profile: "1g.10gb"}), want: map[int]string{1: "MIG instance 0 starts at slice 0 with 0 slices"}},
		"MIG of no profile":  {change: mig(MIGInstance{Size: 1}), want: map[int]string{1: "MIG instance 0 has no profile"}},
		"MIG memory":         {change: mig(MIGInstance{Profile: "1g.10gb", Size: 1, VRAMBytes: -7}), want: map[int]string{1: "MIG instance 0 has vramBytes -7"}},
		"MIG on a plain one": {change: func(c []Card) { c[1].MIG = []MIGInstance{{Profile: "1g.10gb", Size: 1}} }, want: map[int]string{1: "MIG instances are listed, but MIG mode is off"}},
	} {
		t.Run(name, func(t *testing.T) {
			plain := newNode(t, Spec{Cards: cardsOf(4)})
			cards := cardsOf(4)
			tc.change(cards)
			n := newNode(t, Spec{Cards: cards})
			for i := range n.Len() {
				c, want := n.Card(i), tc.want[i]
				if c.Fault != want || c.Healthy != (want == "") || n.Usable().Has(i) != (want == "") || c.VRAMBytes < 0 {
					t.Errorf("card %d: %+v, usable %v, want fault %q", i, c, n.Usable(), want)
				}
				if n.MIGCards().Has(i) != cards[i].MIGEnabled {
					t.Errorf("card %d: MIG cards %v", i, n.MIGCards())
				}
			}
			if n.Shape().Fingerprint() != plain.Shape().Fingerprint() {
				t.Error("a fault changes the shape")
			}
		})
	}
}

func TestNewLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		spec Spec
		want []string
	}{
		"no matrix":           {spec: Spec{Cards: cardsOf(2)}, want: []string{"X ?", "? X"}},
		"lopsided":            {spec: Spec{Cards: cardsOf(2), Links: linksOf(t, "X NV18", "NV4 X")}, want: []string{"X NV4", "NV4 X"}},
		"lopsided, the other": {spec: Spec{Cards: cardsOf(2), Links: linksOf(t, "X NODE", "PIX X")}, want: []string{"X NODE", "NODE X"}},
		"one direction only":  {spec: Spec{Cards: cardsOf(2), Links: linksOf(t, "X NV18", "? X")}, want: []string{"X ?", "? X"}},
		"diagonal not told":   {spec: Spec{Cards: cardsOf(2), Links: linksOf(t, "? SYS", "SYS ?")}, want: []string{"X SYS", "SYS X"}},
		"NVSwitch, no matrix": {spec: Spec{Cards: cardsOf(3), NVSwitch: true}, want: []string{"X NV18 NV18", "NV18 X NV18", "NV18 NV18 X"}},
		"NVSwitch, matrix of links to the switch only": {spec: Spec{Cards: cardsOf(2), NVSwitch: true, Links: linksOf(t, "X SYS", "SYS X")},
			want: []string{"X NV18", "NV18 X"}},
		"NVSwitch, the matrix knows the number": {spec: Spec{Cards: cardsOf(2), NVSwitch: true, Links: linksOf(t, "X NV8", "NV8 X")},
			want: []string{"X NV8", "NV8 X"}},
		"NVSwitch, unknown product": {spec: Spec{Cards: make([]Card, 2), NVSwitch: true}, want: []string{"X NV1", "NV1 X"}},
		"one card":                  {spec: Spec{Cards: cardsOf(1)}, want: []string{"X"}},
		"no card":                   {spec: Spec{Source: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, tc.spec)
			var got []string
			for i := range n.Len() {
				var row []string
				for j := range n.Len() {
					row = append(row, n.Link(i, j).String())
					want := DefaultRates().Pair(n.Card(i), n.Card(j), n.Link(i, j))
					if b := n.Shape().Pair(i, j); b != want {
						t.Errorf("pair %d, %d has %v, want %v", i, j, b, want)
					}
				}
				got = append(got, strings.Join(row, " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if n.Source() != tc.spec.Source || n.Shape().Len() != n.Len() || n.All().Len() != n.Len() {
				t.Errorf("source %q, shape of %d, set %v", n.Source(), n.Shape().Len(), n.All())
			}
		})
	}
}

// rich is a description with something in every field.
func rich(t testing.TB) Spec {
	s := Spec{
		Cards: cardsOf(4), Links: linksOf(t, "X NV4 SYS ?", "NV4 X PHB PIX", "SYS PHB X NODE", "? PXB NODE X"),
		NICs:   []NIC{{Name: "mlx5_0", Links: []LinkType{LinkPIX, LinkSYS, LinkNODE, LinkUnknown}}, {Name: "mlx5_1", Links: []LinkType{LinkSYS, LinkPXB, LinkUnknown, LinkUnknown}}},
		Source: "test",
	}
	s.Cards[0].BusID, s.Cards[0].PCIeSwitch, s.Cards[0].PCIeRoot = "00000000:1B:00.0", "s0", "r0"
	s.Cards[1].Healthy = false
	s.Cards[2].MIGEnabled, s.Cards[2].MIG = true, []MIGInstance{{Profile: "1g.10gb", UUID: "MIG-1", Start: 2, Size: 1, VRAMBytes: 10 << 30}}
	s.Cards[3].VRAMBytes = -1
	return s
}

// TestSpecRoundTrip checks that New undoes Spec, and that nobody's changes reach a Node.
func TestSpecRoundTrip(t *testing.T) {
	in := rich(t)
	n := newNode(t, in)
	first := n.Spec()
	in.Cards[2].MIG[0].Start = 5
	in.Cards[0].UUID, in.Links[0][1], in.NICs[0].Links[0] = "GPU-x", Link{}, LinkUnknown
	second := n.Spec()
	if diff := cmp.Diff(first, second); diff != "" {
		t.Fatalf("a change of the description reached the node (-before +after)\n%s", diff)
	}
	second.Cards[2].MIG[0].Start = 5
	second.Cards[0].UUID, second.Links[0][1], second.NICs[0].Links[0] = "GPU-x", Link{}, LinkUnknown
	if diff := cmp.Diff(first, n.Spec()); diff != "" {
		t.Fatalf("a change of the copy reached the node (-before +after)\n%s", diff)
	}
	again := newNode(t, first)
	if diff := cmp.Diff(first, again.Spec()); diff != "" {
		t.Errorf("built again (-want +got)\n%s", diff)
	}
	if again.Shape().Fingerprint() != n.Shape().Fingerprint() || again.Usable() != n.Usable() || again.MIGCards() != n.MIGCards() {
		t.Error("built again, the node differs")
	}
	if want := SetOf(0, 2); n.Usable() != want {
		t.Errorf("usable %v, want %v", n.Usable(), want)
	}
}

func TestIndexOf(t *testing.T) {
	n := newNode(t, Spec{Cards: append(cardsOf(2), Card{})})
	for uuid, want := range map[string]int{"GPU-0": 0, "GPU-1": 1, "GPU-2": -1, "": -1} {
		if got := n.IndexOf(uuid); got != want {
			t.Errorf("%q: got %d, want %d", uuid, got, want)
		}
	}
}

func TestMIGSliceMask(t *testing.T) {
	for name, tc := range map[string]struct {
		m    MIGInstance
		want uint64
	}{
		"first":    {m: MIGInstance{Start: 0, Size: 1}, want: 1},
		"last two": {m: MIGInstance{Start: 6, Size: 2}, want: 0xc0},
		"whole":    {m: MIGInstance{Size: 8}, want: 0xff},
		"none":     {m: MIGInstance{}, want: 0},
		"negative": {m: MIGInstance{Start: -1, Size: 2}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.m.SliceMask(); got != tc.want {
				t.Errorf("got %#x, want %#x", got, tc.want)
			}
		})
	}
}

// BenchmarkNew builds a node as inventory does for each of a cluster's nodes.
func BenchmarkNew(b *testing.B) {
	spec, ok := Lookup(h100, 8)
	if !ok {
		b.Fatal("no such machine")
	}
	rates := DefaultRates()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(spec, rates); err != nil {
			b.Fatal(err)
		}
	}
}
