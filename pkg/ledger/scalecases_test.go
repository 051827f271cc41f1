package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestCaseB158EntriesAreThoseOfLiveObjects: pods and nodes come and go in any order. The ledger keeps an entry for each that is
// there, and of those that are gone no more than its limits allow.
func TestCaseB158EntriesAreThoseOfLiveObjects(t *testing.T) {
	f, random := newFixture(t), rand.New(rand.NewPCG(158, 1))
	f.l.tombstones.limit = 500
	cards := cardsN8s("A")
	shape := build(t, cards)
	live, nodes := map[PodUID]NodeName{}, map[NodeName]bool{}
	for step := range 20_000 {
		name := NodeName(fmt.Sprintf("n%d", random.IntN(step/100+10)))
		uid := PodUID(fmt.Sprintf("p%d", random.IntN(step+1)))
		switch random.IntN(5) {
		case 0:
			f.l.SetNode(name, shape)
			nodes[name] = true
		case 1:
			f.l.RemoveNode(name)
			delete(nodes, name)
		case 2, 3:
			f.l.Release(uid)
			delete(live, uid)
		default:
			uid = PodUID(fmt.Sprintf("p%d", step))
			if err := f.l.Adopt(holdWhole(uid, name, cards, random.IntN(8))); err != nil {
				t.Fatal(err)
			}
			live[uid] = name
		}
	}
	want := map[NodeName]bool{}
	for name := range nodes {
		want[name] = true
	}
	for _, name := range live {
		want[name] = true // cards stay held on a node that is gone, until their pod is
	}
	if got := len(f.l.nodes.names()); got != len(want) {
		t.Errorf("%d entries of nodes, want %d", got, len(want))
	}
	if got := len(f.l.pods); got != len(live) {
		t.Errorf("%d entries of pods, want %d", got, len(live))
	}
	for uid := range live {
		f.l.Release(uid)
	}
	for name := range nodes {
		f.l.RemoveNode(name)
	}
	if len(f.l.pods) != 0 || len(f.l.nodes.names()) != 0 || len(f.l.touched) != 0 {
		t.Errorf("%d pods, %d nodes, %d touched nodes are left of nothing", len(f.l.pods), len(f.l.nodes.names()), len(f.l.touched))
	}
	if got := f.l.tombstones.count; got > 500 || len(f.l.tombstones.ring) > 500 {
		t.Errorf("%d tombstones in a ring of %d, want at most 500", got, len(f.l.tombstones.ring))
	}
	f.check()
}
