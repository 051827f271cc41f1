package allocate_test

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// forgedView draws what records of others may come to: slices that have nothing to do with the bytes.
func forgedView(t *rapid.T) *allocate.View {
	v := emptyView(sharingNode().Draw(t, "node"))
	for i := range v.Use {
		for range rapid.IntRange(0, 3).Draw(t, "holders") {
			mask := rapid.SampledFrom([]uint64{0, 1, allocate.WholeCard, allocate.WholeCard >> 1, allocate.WholeCard - 7}).Draw(t, "mask")
			if rapid.Bool().Draw(t, "any mask") {
				mask = rapid.Uint64().Draw(t, "mask")
			}
			allocate.Occupy(&v.Use[i], allocate.CardShare{
				Index: i, SliceMask: mask, VRAMBytes: rapid.Int64Range(1, 40).Draw(t, "bytes"), ComputeMilli: rapid.SampledFrom([]int32{0, 0, 200, 900}).Draw(t, "milli"),
			})
		}
	}
	refresh(v)
	return v
}

// TestForgedSlices: a choice never falls on a card without a free slice, shows as many slices as its bytes fill, none of them
// another's, and is one that CanHold accepts; where CanHold would accept a share on enough cards, Choose finds them.
func TestForgedSlices(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	c := allocate.NewChooser()
	// A hundred draws do not always meet both.
	for range 10 {
		if rapid.Check(t, func(t *rapid.T) { checkForged(t, c, met) }); t.Failed() || met["no slice"] && met["too few"] {
			return
		}
	}
	t.Errorf("%v: the test shows nothing", met)
}

func checkForged(t *rapid.T, c *allocate.Chooser, met map[string]bool) {
	v := forgedView(t)
	r := anyPod().Draw(t, "pod")
	if rapid.Bool().Draw(t, "one claim") {
		r = &allocate.Request{Claims: []allocate.Claim{anyShare("main").Draw(t, "claim")}}
	}
	choice, rej, err := c.Choose(v, r)
	if fits := c.Fits(v, r); err != nil || (fits == nil) != (rej == nil) {
		t.Fatalf("Choose rejects: %v, Fits rejects: %v, error %v", rej, fits, err)
	}
	if err := v.CanHold(choice.Cards); err != nil {
		t.Fatalf("%+v cannot be held on %+v: %v", choice.Cards, v.Use, err)
	}
	for _, s := range choice.Cards {
		use, vram := v.Use[s.Index], v.Topology.Card(s.Index).VRAMBytes
		if use.SliceMask == allocate.WholeCard || use.SliceMask&s.SliceMask != 0 || bits.OnesCount64(s.SliceMask) != int(s.VRAMBytes*64/vram) {
			t.Fatalf("%+v on a card of %d bytes that holds %+v", s, vram, use)
		}
	}
	if len(r.Claims) == 1 && r.Claims[0].Phase == allocate.PhaseMain {
		able := holdable(v, r.Claims[0])
		if (rej == nil) != (able.Len() >= r.Claims[0].Count) {
			t.Fatalf("%+v on %+v: rejection %v, and CanHold accepts it on cards %v", r.Claims[0], v.Use, rej, able)
		}
		for i := range (v.Topology.All() &^ able).All() {
			met["no slice"] = met["no slice"] || v.Use[i].SliceMask == allocate.WholeCard && roomFor(v, i, r.Claims[0])
			met["too few"] = met["too few"] || v.Use[i].SliceMask != allocate.WholeCard && roomFor(v, i, r.Claims[0])
		}
	}
}

// holdable are the cards of which CanHold would give a claim its share.
func holdable(v *allocate.View, c allocate.Claim) topology.GPUSet {
	var able topology.GPUSet
	for i := range v.Use {
		vram := v.Topology.Card(i).VRAMBytes
		if vram == 0 {
			continue
		}
		s := allocate.CardShare{Index: i, VRAMBytes: shareBytes(c, vram), ComputeMilli: c.ComputeMilli}
		free := ^v.Use[i].SliceMask
		for range s.VRAMBytes * 64 / vram {
			s.SliceMask |= free & -free
			free &= free - 1
		}
		if v.CanHold([]allocate.CardShare{s}) == nil {
			able = able.With(i)
		}
	}
	return able
}

// TestRoom: in the bytes' own terms, card by card.
func TestRoom(t *testing.T) {
	tests := map[string]struct {
		use  allocate.CardUse
		want int64
	}{
		"free":                                {allocate.CardUse{}, 6400},
		"as its bytes show":                   {allocate.CardUse{SliceMask: 1, VRAMBytes: 199, Holders: 1}, 6201},
		"less than a slice":                   {allocate.CardUse{VRAMBytes: 99, Holders: 1}, 6301},
		"no bytes left":                       {allocate.CardUse{SliceMask: allocate.WholeCard, VRAMBytes: 6400, Holders: 1}, 0},
		"more than it has":                    {allocate.CardUse{SliceMask: 1, VRAMBytes: 9999, Holders: 1}, 0},
		"all slices, hardly any bytes":        {allocate.CardUse{SliceMask: allocate.WholeCard, VRAMBytes: 1, Holders: 2}, 0},
		"all slices but one, no bytes":        {allocate.CardUse{SliceMask: allocate.WholeCard - 1, Holders: 1}, 199},
		"half the slices, a tenth the bytes":  {allocate.CardUse{SliceMask: 1<<32 - 1, VRAMBytes: 640, Holders: 1}, 3299},
		"a tenth the slices, half the memory": {allocate.CardUse{SliceMask: 63, VRAMBytes: 3200, Holders: 1}, 3200},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.use.Room(6400); got != tt.want {
				t.Errorf("room for %d bytes, want %d", got, tt.want)
			}
		})
	}
}
