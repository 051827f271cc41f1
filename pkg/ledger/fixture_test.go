package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const mib = int64(1) << 20

// cardsN8s are the cards of the fixture N8s: 8 cards of 81920 MiB on an NVSwitch, named by a prefix.
func cardsN8s(prefix string) []topology.Card { return cardsOf(prefix, 8, 81920*mib) }

func cardsOf(prefix string, n int, vram int64) []topology.Card {
	cards := make([]topology.Card, n)
	for i := range cards {
		cards[i] = topology.Card{UUID: fmt.Sprintf("%s%d", prefix, i), VRAMBytes: vram, NUMA: i * 2 / n, Healthy: true}
	}
	return cards
}

// migCard has seven instances 1g.10gb of one memory slice each.
func migCard(uuid string) topology.Card {
	c := topology.Card{UUID: uuid, VRAMBytes: 81920 * mib, Healthy: true, MIGEnabled: true}
	for i := range 7 {
		c.MIG = append(c.MIG, topology.MIGInstance{Profile: "1g.10gb", Start: i, Size: 1, VRAMBytes: 9728 * mib})
	}
	return c
}

func build(t testing.TB, cards []topology.Card) *topology.Node {
	t.Helper()
	n, err := topology.New(topology.Spec{Cards: cards, NVSwitch: true}, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func whole(card topology.Card, index int) allocate.CardShare {
	return allocate.CardShare{
		Index: index, UUID: card.UUID, SliceMask: allocate.WholeCard, VRAMBytes: card.VRAMBytes,
		ComputeMilli: allocate.MilliPerCard,
	}
}

// share is a part of a card; its slices start at the given one.
func share(card topology.Card, index, firstSlice int, bytes int64) allocate.CardShare {
	slices := uint(bytes / (card.VRAMBytes / allocate.SlicesPerCard))
	return allocate.CardShare{
		Index: index, UUID: card.UUID, SliceMask: (uint64(1)<<slices - 1) << uint(firstSlice), VRAMBytes: bytes,
	}
}

func instance(card topology.Card, index, at int) allocate.CardShare {
	m := card.MIG[at]
	return allocate.CardShare{Index: index, UUID: card.UUID, SliceMask: m.SliceMask(), VRAMBytes: m.VRAMBytes, MIGProfile: m.Profile}
}

// holdWhole is a pod that holds whole cards.
func holdWhole(uid PodUID, node NodeName, cards []topology.Card, indices ...int) Holding {
	h := Holding{UID: uid, Pod: "ns/" + string(uid), Node: node}
	for _, i := range indices {
		h.Cards = append(h.Cards, whole(cards[i], i))
	}
	return h
}

// fixture is a ledger under test. After every step it checks all invariants.
type fixture struct {
	*testing.T
	l *Ledger
}

func newFixture(t *testing.T) *fixture { return &fixture{T: t, l: New()} }

func (f *fixture) node(name NodeName, cards []topology.Card) {
	f.Helper()
	f.l.SetNode(name, build(f, cards))
	f.check()
}

func (f *fixture) check() {
	f.Helper()
	if err := f.l.Check(); err != nil {
		f.Fatal(err)
	}
}

// must runs a step that succeeds.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
	f.check()
}

// conflict runs a step that fails because cards are not free, and returns why.
func (f *fixture) conflictOf(err error) *ConflictError {
	f.Helper()
	var c *ConflictError
	if !errors.As(err, &c) {
		f.Fatalf("got error %v, want a conflict", err)
	}
	f.check()
	return c
}

// conflict checks that a step was refused for a conflict.
func (f *fixture) conflict(err error) {
	f.Helper()
	if c := f.conflictOf(err); c.Err == nil {
		f.Fatalf("conflict %v has no cause", err)
	}
}

// answer checks what a step said.
func (f *fixture) answer(step string, got, want bool) {
	f.Helper()
	if got != want {
		f.Fatalf("%s: got %t, want %t", step, got, want)
	}
	f.check()
}

// free checks the free cards of a node.
func (f *fixture) free(name NodeName, want topology.GPUSet) {
	f.Helper()
	a := f.l.Node(name)
	if a == nil {
		f.Fatalf("node %s is not known", name)
	}
	if a.Free != want {
		f.Fatalf("node %s: free %s, want %s (use %+v, closed %s, %q)", name, a.Free, want, a.Use, a.Closed, a.Quarantine())
	}
}

// used checks the bytes in use on every card of a node.
func (f *fixture) used(name NodeName, want ...int64) {
	f.Helper()
	var got []int64
	for _, u := range f.l.Node(name).Use {
		got = append(got, u.VRAMBytes)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Fatalf("node %s: bytes in use (-want +got):\n%s", name, diff)
	}
}

// publishedFirst checks the order of the last changes of two nodes.
func (f *fixture) publishedFirst(first, second NodeName) {
	f.Helper()
	if a, b := f.l.Node(first).Generation, f.l.Node(second).Generation; a >= b {
		f.Fatalf("%s was published as %d, %s as %d", first, a, second, b)
	}
}

// stage checks a pod's stage, 0 for none.
func (f *fixture) stage(uid PodUID, want Stage) {
	f.Helper()
	if _, got, _ := f.l.Holding(uid); got != want {
		f.Fatalf("pod %s: stage %s, want %s", uid, got, want)
	}
}

// quarantine checks that the node is closed for a reason that contains all words.
func (f *fixture) quarantine(name NodeName, words ...string) {
	f.Helper()
	a := f.l.Node(name)
	if !a.Quarantined || a.Free != 0 || a.Closed != a.Topology.All() {
		f.Fatalf("node %s: quarantine %t, free %s, closed %s", name, a.Quarantined, a.Free, a.Closed)
	}
	for _, w := range words {
		if !strings.Contains(a.Quarantine(), w) {
			f.Fatalf("node %s: reason %q does not contain %q", name, a.Quarantine(), w)
		}
	}
}

// public compares states by what their readers see, without the generation.
var public = cmp.Options{
	cmpopts.IgnoreFields(NodeGPUAllocation{}, "Generation", "special"),
	cmp.Comparer(func(a, b *topology.Node) bool { return a == b }),
}

// diffNodes compares two states.
func diffNodes(want, got *NodeGPUAllocation) string {
	if (want == nil) != (got == nil) {
		return fmt.Sprintf("known: want %t, got %t", want != nil, got != nil)
	}
	if want == nil {
		return ""
	}
	return cmp.Diff(want, got, public) + cmp.Diff(want.Conflicts(), got.Conflicts()) +
		cmp.Diff(want.Missing(), got.Missing()) + cmp.Diff(want.ForeignMIG(), got.ForeignMIG())
}

// diffLedgers compares two ledgers by all that can be read from them, without generations, revisions and tombstones.
func diffLedgers(want, got *Ledger) string {
	var b strings.Builder
	names := append(want.nodes.names(), got.nodes.names()...)
	for _, name := range names {
		b.WriteString(diffNodes(want.Node(name), got.Node(name)))
		b.WriteString(cmp.Diff(want.On(name), got.On(name), cmpopts.IgnoreFields(Entry{}, "Revision")))
	}
	b.WriteString(cmp.Diff(want.Pods(), got.Pods()))
	return b.String()
}
