package allocate

import (
	"math/bits"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// choice writes the plan down.
func (p *plan) choice() Choice {
	masks := p.podMasks()
	return Choice{Cards: p.podShares(masks), Containers: p.containerShares(masks), Quality: p.quality()}
}

// podMasks returns the slices of each card that the pod's shares fill: the lowest ones that nobody uses.
func (p *plan) podMasks() []uint64 {
	masks := make([]uint64, len(p.peak))
	for i := range p.peak {
		if p.peak[i].claims > 0 {
			masks[i] = lowSlices(^p.v.Use[i].SliceMask, p.peak[i].bytes, p.v.Topology.Card(i).VRAMBytes)
		}
	}
	return masks
}

// lowSlices returns the lowest of the free slices, as many as the bytes fill alone on a card of the given memory:
// bytes / (vram / SlicesPerCard), rounded down. Shares whose bytes fit a card find slices enough, since the sum of
// rounded parts is at most the rounded sum.
func lowSlices(free uint64, bytes, vram int64) uint64 {
	if bytes <= 0 || vram <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(bytes, vram)), SlicesPerCard)
	n, _ := bits.Div64(hi, lo, uint64(vram))
	var mask uint64
	for ; n > 0 && free != 0; n-- {
		mask |= free & -free
		free &= free - 1
	}
	return mask
}

// podShares returns what the pod holds for all its life.
func (p *plan) podShares(masks []uint64) []CardShare {
	n := p.cards().Len()
	shares := make([]CardShare, 0, n)
	for i := range p.cards().All() {
		switch {
		case p.whole.Has(i):
			shares = append(shares, wholeShares(p.v, topology.SetOf(i))...)
		case p.peak[i].claims > 0:
			shares = append(shares, p.share(i, masks[i], p.peak[i].bytes, p.peak[i].milli))
		default:
			shares = append(shares, p.heldInstances(i)...)
		}
	}
	return shares
}

func (p *plan) share(i int, mask uint64, bytes int64, milli int32) CardShare {
	return CardShare{Index: i, UUID: p.v.Topology.Card(i).UUID, SliceMask: mask, VRAMBytes: bytes, ComputeMilli: milli}
}

// heldInstances returns the pod's instances of card i, by ascending slices.
func (p *plan) heldInstances(i int) []CardShare {
	var shares []CardShare
	var seen uint64
	for k := range p.instances {
		for _, in := range p.instances[k] {
			if in.card == i && seen&in.mask == 0 {
				seen |= in.mask
				shares = append(shares, p.instanceShare(in, p.r.Claims[k].Profile))
			}
		}
	}
	sortShares(shares)
	return shares
}

func (p *plan) instanceShare(in instance, profile string) CardShare {
	s := p.share(in.card, in.mask, in.bytes, 0)
	s.MIGProfile = profile
	return s
}

// containerShares deals the pod's slices out to the containers: sidecars and app containers get disjoint ones, a plain
// init container gets some that no sidecar before it has.
func (p *plan) containerShares(masks []uint64) []ContainerShare {
	out := make([]ContainerShare, 0, p.r.containers())
	steady := make([]uint64, len(masks)) // slices dealt to sidecars and app containers so far
	phase := make([]uint64, len(masks))  // the same and those of the init container at hand
	for i := range p.r.Claims {
		c := &p.r.Claims[i]
		if i == 0 || !p.r.sameContainer(i-1, i) {
			out = append(out, ContainerShare{Name: c.Container})
			copy(phase, steady)
		}
		last := &out[len(out)-1]
		switch c.Kind {
		case KindWhole:
			last.Cards = append(last.Cards, wholeShares(p.v, p.sets[i])...)
		case KindShare:
			for k := range p.sets[i].All() {
				vram := p.v.Topology.Card(k).VRAMBytes
				bytes := c.bytesOn(vram)
				mask := lowSlices(masks[k]&^phase[k], bytes, vram)
				phase[k] |= mask
				if c.Phase != PhaseInit {
					steady[k] |= mask
				}
				last.Cards = append(last.Cards, p.share(k, mask, bytes, c.ComputeMilli))
			}
		case KindMIG:
			for _, in := range p.instances[i] {
				last.Cards = append(last.Cards, p.instanceShare(in, c.Profile))
			}
		}
		sortShares(last.Cards)
	}
	return out
}
