package allocate

import (
	"math/bits"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// charge is what a pod takes of one card in one phase, or at most in any.
type charge struct {
	bytes int64
	milli int32
	// claims counts the shares that make it up; 0 means that the pod takes nothing of the card.
	claims int32
	// alone is set by a claim that promises all compute.
	alone bool
}

func (c charge) plus(bytes int64, claim *Claim) charge {
	c.bytes += bytes
	c.milli += claim.ComputeMilli
	c.claims++
	c.alone = c.alone || claim.ComputeMilli == MilliPerCard
	return c
}

// most returns the larger of two phases' charges, amount by amount.
func (c charge) most(o charge) charge {
	return charge{bytes: max(c.bytes, o.bytes), milli: max(c.milli, o.milli), claims: max(c.claims, o.claims), alone: c.alone || o.alone}
}

// bytesOn returns a share's bytes on a card of the given memory: as claimed, or the fraction rounded up. The product
// has 128 bits, so nothing overflows; with FractionPPB <= 1e9 the result is at most vram.
func (c *Claim) bytesOn(vram int64) int64 {
	if c.FractionPPB == 0 {
		return c.VRAMBytes
	}
	hi, lo := bits.Mul64(uint64(vram), uint64(c.FractionPPB))
	lo, carry := bits.Add64(lo, WholePPB-1, 0)
	quotient, _ := bits.Div64(hi+carry, lo, WholePPB)
	return int64(quotient)
}

// shareVerdict says whether card i can take the share beside what the pod takes of it at the same time.
func (v *View) shareVerdict(i int, c *Claim, beside charge) Cause {
	if cause := v.closedVerdict(i); cause != CauseNone {
		return cause
	}
	if v.Topology.MIGCards().Has(i) {
		return CauseMIGMode
	}
	vram, use := v.Topology.Card(i).VRAMBytes, &v.Use[i]
	if vram <= 0 {
		return CauseUnknownMemory
	}
	bytes := c.bytesOn(vram)
	left := use.Room(vram)
	milli := beside.milli + c.ComputeMilli
	switch {
	case bytes > vram:
		return CauseTooSmall
	case bytes > left:
		return CauseUsed
	case c.ComputeMilli > MilliPerCard-use.ComputeMilli,
		milli == 0 && use.ComputeMilli >= MilliPerCard,
		c.ComputeMilli == MilliPerCard && use.Holders != 0:
		return CauseNoCompute
	case bytes > left-beside.bytes,
		milli > MilliPerCard-use.ComputeMilli,
		milli == MilliPerCard && use.Holders != 0,
		beside.alone,
		c.ComputeMilli == MilliPerCard && beside.claims > 0:
		return CauseOwn
	}
	return CauseNone
}

// closedVerdict says whether card i takes any pod.
func (v *View) closedVerdict(i int) Cause {
	switch {
	case !v.Topology.Usable().Has(i):
		return CauseUnhealthy
	case v.Closed.Has(i):
		return CauseClosed
	}
	return CauseNone
}

// wholeVerdict says whether card i can be given out whole.
func (v *View) wholeVerdict(i int) Cause {
	cause := v.closedVerdict(i)
	switch {
	case cause != CauseNone:
		return cause
	case v.Topology.MIGCards().Has(i):
		return CauseMIGMode
	case !v.Free.Has(i):
		return CauseUsed
	}
	return CauseNone
}

// migVerdict says whether card i has a free instance of the profile. held are slices that the pod itself takes.
func (v *View) migVerdict(i int, profile string, held uint64) Cause {
	if cause := v.closedVerdict(i); cause != CauseNone {
		return cause
	}
	if !v.Topology.MIGCards().Has(i) {
		return CauseNotMIG
	}
	total, free, afterPod := v.instances(i, profile, held)
	switch {
	case total == 0:
		return CauseNoProfile
	case free == 0:
		return CauseUsed
	case afterPod == 0:
		return CauseOwn
	}
	return CauseNone
}

// instances counts card i's instances of a profile: all, those that no other pod holds, and those of them that the
// pod itself does not hold either.
func (v *View) instances(i int, profile string, held uint64) (total, free, afterPod int) {
	card := v.Topology.Card(i)
	for k := range card.MIG {
		m := &card.MIG[k]
		mask := m.SliceMask()
		if m.Profile != profile || mask == 0 || mask&^migSlices != 0 {
			continue
		}
		total++
		if mask&v.Use[i].SliceMask != 0 {
			continue
		}
		free++
		if mask&held == 0 {
			afterPod++
		}
	}
	return total, free, afterPod
}

// largestFree returns the most memory free on one card that is open for shares.
func (v *View) largestFree(skip topology.GPUSet, beside []charge) int64 {
	var largest int64
	for i := range v.Topology.Len() {
		if skip.Has(i) || v.closedVerdict(i) != CauseNone || v.Topology.MIGCards().Has(i) {
			continue
		}
		left := v.Use[i].Room(v.Topology.Card(i).VRAMBytes)
		if beside != nil {
			left -= beside[i].bytes
		}
		largest = max(largest, left)
	}
	return largest
}
