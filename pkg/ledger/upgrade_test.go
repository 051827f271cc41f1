package ledger

import (
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestRecordOfCardsThatDoNotExist: a pod is bound with a card that its node does not list. Whatever that card is now, no other
// pod gets it, the pod's other cards stay charged, and all is well again once the pod ends or the card is listed.
func TestRecordOfCardsThatDoNotExist(t *testing.T) {
	cards := cardsN8s("A")
	tests := map[string]struct {
		share allocate.CardShare
		// wantFree are the cards that others can have beside card 0, which the pod holds too.
		wantFree        topology.GPUSet
		wantQuarantined bool
		wantMissing     int
	}{
		// The card may be one of those listed under another name: the highest free one is set aside for it.
		"UUID not listed, index listed": {allocate.CardShare{Index: 5, UUID: "B5", SliceMask: allocate.WholeCard, ComputeMilli: 1000}, 0x7e, false, 1},
		"UUID and index not listed":     {allocate.CardShare{Index: 9, UUID: "B9", SliceMask: allocate.WholeCard, ComputeMilli: 1000}, 0xfe, false, 1},
		"index not listed, no UUID":     {allocate.CardShare{Index: 9, SliceMask: allocate.WholeCard, ComputeMilli: 1000}, 0, true, 1},
		"UUID listed at another index":  {allocate.CardShare{Index: 9, UUID: "A3", SliceMask: allocate.WholeCard, ComputeMilli: 1000}, 0xf6, false, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", cards)
			h := holdWhole("p", "n1", cards, 0)
			h.Cards = append(h.Cards, tt.share)
			f.must(f.l.Adopt(h))
			f.free("n1", tt.wantFree)
			a := f.l.Node("n1")
			if a.Quarantined != tt.wantQuarantined || len(a.Missing()) != tt.wantMissing {
				t.Errorf("quarantined %t, %d missing, want %t and %d", a.Quarantined, len(a.Missing()), tt.wantQuarantined, tt.wantMissing)
			}
			if err := f.l.Assume(holdWhole("q", "n1", cards, 0)); err == nil {
				t.Error("another pod took the card that the pod holds for sure")
			}
			f.answer("Release", f.l.Release("p"), true)
			f.free("n1", 0xff)
		})
	}
}
