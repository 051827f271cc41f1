package topology

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawKindSpec draws a description from few values, so that two draws are often alike or differ in one thing.
func drawKindSpec(t *rapid.T) Spec {
	word := rapid.SampledFrom([]string{"", "a", "b", "ab"})
	n := rapid.IntRange(0, 2).Draw(t, "cards")
	s := Spec{Cards: make([]Card, n), Source: word.Draw(t, "source")}
	for i := range s.Cards {
		c := &s.Cards[i]
		c.UUID = rapid.SampledFrom([]string{"", "GPU-1", "GPU-2", "GPU-3"}).Draw(t, "uuid")
		c.Healthy = rapid.Bool().Draw(t, "healthy")
		switch rapid.IntRange(0, 9).Draw(t, "field") {
		case 0:
			c.Product = word.Draw(t, "product")
		case 1:
			c.BusID = word.Draw(t, "bus")
		case 2:
			c.PCIeSwitch = word.Draw(t, "switch")
		case 3:
			c.PCIeRoot = word.Draw(t, "root")
		case 4:
			c.VRAMBytes = rapid.SampledFrom([]int64{-1, 0, 1 << 30, 1 << 31}).Draw(t, "vram")
		case 5:
			c.NUMA = rapid.IntRange(-1, 1).Draw(t, "numa")
		case 6:
			c.Fault = word.Draw(t, "fault")
		case 7:
			c.MIGEnabled = true
			c.MIG = []MIGInstance{{Profile: word.Draw(t, "profile"), UUID: word.Draw(t, "mig"), Start: rapid.IntRange(0, 1).Draw(t, "start"), Size: rapid.IntRange(1, 2).Draw(t, "size")}}
		}
	}
	s.NVSwitch = rapid.IntRange(0, 3).Draw(t, "switched") == 0
	if n == 2 {
		l := rapid.SampledFrom([]Link{{}, {Type: LinkSYS}, {Type: LinkNODE}, {Type: LinkPIX}, {Type: LinkNVLink, NVLinks: 1}, {Type: LinkNVLink, NVLinks: 2}}).Draw(t, "link")
		s.Links = [][]Link{{{Type: LinkSelf}, l}, {l, {Type: LinkSelf}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "nic") == 0 {
		nic := NIC{Name: word.Draw(t, "nic name"), Links: make([]LinkType, n)}
		for i := range nic.Links {
			nic.Links[i] = rapid.SampledFrom([]LinkType{LinkUnknown, LinkPIX}).Draw(t, "nic link")
		}
		s.NICs = []NIC{nic}
	}
	return s
}

// TestKindIsAllButUUIDs: two nodes are of one kind if and only if they are described alike but for UUIDs, and a node that is made
// like another reads as before.
func TestKindIsAllButUUIDs(t *testing.T) {
	alike, different := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		first := drawKindSpec(t)
		second := first
		if rapid.Bool().Draw(t, "another") {
			second = drawKindSpec(t)
		} else {
			second.Cards = slices.Clone(first.Cards)
			for i := range second.Cards {
				second.Cards[i].UUID = fmt.Sprint("GPU-of-b-", i)
			}
		}
		a, b := mustBuild(t, first), mustBuild(t, second)
		same := cmp.Equal(withoutUUIDs(a), withoutUUIDs(b))
		if got := a.Kind() == b.Kind(); got != same {
			t.Fatalf("one kind: %v, want %v, of\n%+v\n%+v", got, same, a.Spec(), b.Spec())
		}
		joined := b.Like(a)
		if diff := cmp.Diff(b.Spec(), joined.Spec()); diff != "" {
			t.Fatalf("like another, the node is another (-before +after):\n%s", diff)
		}
		if got := joined.Shape() == a.Shape(); got != same {
			t.Fatalf("memory is shared: %v, want %v", got, same)
		}
		for i := range joined.Len() {
			if uuid := b.Card(i).UUID; joined.Card(i).UUID != uuid || joined.IndexOf(uuid) != b.IndexOf(uuid) {
				t.Fatalf("card %d: UUID %q at %d, want %q at %d", i, joined.Card(i).UUID, joined.IndexOf(uuid), uuid, b.IndexOf(uuid))
			}
		}
		if same {
			alike++
		} else {
			different++
		}
	})
	if alike == 0 || different == 0 {
		t.Errorf("%d pairs alike, %d different: want both", alike, different)
	}
}

func mustBuild(t *rapid.T, s Spec) *Node {
	n, err := New(s, DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func withoutUUIDs(n *Node) Spec {
	s := n.Spec()
	for i := range s.Cards {
		s.Cards[i].UUID = ""
	}
	return s
}

// TestKindTellsLinksApart: links of equal rate make equal shapes and different kinds.
func TestKindTellsLinksApart(t *testing.T) {
	build := func(l Link) *Node {
		return newNode(t, Spec{Cards: cardsOf(2), Links: [][]Link{{{Type: LinkSelf}, l}, {l, {Type: LinkSelf}}}})
	}
	for _, a := range []Link{{}, {Type: LinkSYS}, {Type: LinkNODE}, {Type: LinkPHB}, {Type: LinkPXB}, {Type: LinkPIX}} {
		for _, b := range []Link{{}, {Type: LinkSYS}, {Type: LinkNODE}, {Type: LinkPHB}, {Type: LinkPXB}, {Type: LinkPIX}} {
			if same := build(a).Kind() == build(b).Kind(); same != (a == b) {
				t.Errorf("links %v and %v: one kind %v", a, b, same)
			}
		}
	}
}

// TestKindIgnoresEmptySlices: no adapters and no instances are the same thing, however they are written.
func TestKindIgnoresEmptySlices(t *testing.T) {
	written := Spec{Cards: cardsOf(1), NICs: []NIC{}}
	written.Cards[0].MIG = []MIGInstance{}
	a, b := newNode(t, Spec{Cards: cardsOf(1)}), newNode(t, written)
	if a.Kind() != b.Kind() || !reflect.DeepEqual(a, b) {
		t.Errorf("one kind: %v, deeply equal: %v", a.Kind() == b.Kind(), reflect.DeepEqual(a, b))
	}
}
