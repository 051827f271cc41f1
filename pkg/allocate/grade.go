package allocate

// Weights of the parts of a grade, in percent. Bandwidth weighs more than the two others together, so that a node
// whose ring is far slower never wins by being fuller.
const (
	bandwidthWeight = 60
	packingWeight   = 25
	keepWeight      = 15
)

// Grade is how good a set of cards of one node is, and what it leaves to others, before the other nodes are seen. It is packed into one
// int64, as which it stands for the raw score of a node:
//
//	bits 21..  bottleneck of the best ring over the chosen cards, MB/s (0 for one card: there is no ring)
//	bit  20    1 if no card that nobody used is taken in part: a share joins shares
//	bits 10-19 packing, 0..1000: the part of the node's cards that would not be free any more, or where pods are to be spread
//	           over nodes, that would still be free; cards in MIG mode stand outside
//	bits 0-9   keep, 0..1000: of the cards still free, the part joined by the node's fastest links (1000 if at most one
//	           is left)
//
// The final score is
//
//	60 x bandwidth + 25 x packing/1000 + 15 x keep/1000
//
// where bandwidth is bottleneck / (largest bottleneck of all nodes); if no node has a ring, 1 for bit 20 and else 0.
// It is rounded down, so in [0, 100] and growing with bandwidth. Example: two cards asked, node a offers a ring of
// 300 GB/s and would have 4 of 8 cards taken, all others joined: 60 + 12.5 + 15 = 87; node b offers 30 GB/s and would be
// full: 6 + 25 + 15 = 46.
type Grade int64

// Unfit is the grade of a node that has no set of cards to give. Its final score is 0.
const Unfit Grade = -1

const (
	partBits  = 10
	partMax   = 1000
	unbroken  = 1 << (2 * partBits)
	ringShift = 2*partBits + 1
)

// Grade grades a set of the view's free cards, of which quality is what Assess says. spread says that pods are to be spread over nodes.
func (v *View) Grade(quality Quality, spread bool) Grade {
	return newGrade(quality, (v.Topology.All() &^ v.Topology.MIGCards()).Len(), spread)
}

// newGrade grades a set on a node with total cards that are not in MIG mode.
func newGrade(q Quality, total int, spread bool) Grade {
	free := min(q.FreeLeft, total)
	packed := int64(partMax)
	if total > 0 {
		packed = int64(partMax * (total - free) / total)
	}
	if spread {
		packed = partMax - packed
	}
	keep := int64(partMax)
	if free > 1 {
		keep = int64(partMax * min(q.Remaining, free) / free)
	}
	g := int64(q.Bottleneck)<<ringShift | packed<<partBits | keep
	if q.Broken == 0 {
		g |= unbroken
	}
	return Grade(g)
}

// Bottleneck is the bandwidth of the best ring over the cards in MB/s, 0 where there is none, -1 for Unfit.
func (g Grade) Bottleneck() int64 { return int64(g) >> ringShift }

func (g Grade) packing() int64 { return int64(g) >> partBits & (1<<partBits - 1) }
func (g Grade) keep() int64    { return int64(g) & (1<<partBits - 1) }

// Final returns the score in [0, 100]; widest is the largest Bottleneck of all nodes, 0 if none has a ring.
func (g Grade) Final(widest int64) int64 {
	var bandwidth int64
	switch {
	case g < 0:
		return 0
	case widest > 0:
		bandwidth = bandwidthWeight * partMax * g.Bottleneck() / widest
	case g&unbroken != 0:
		bandwidth = bandwidthWeight * partMax
	}
	return (bandwidth + packingWeight*g.packing() + keepWeight*g.keep()) / partMax
}
