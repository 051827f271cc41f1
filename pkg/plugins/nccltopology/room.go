package nccltopology

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Packing is in thousandths. A domain with room for all has at least packedEven, one without has less.
const (
	packedFull = 1000
	packedEven = 500
)

// widestPacked is the widest level of which domains are kept free. A zone is no place to crowd: other plugins spread over
// zones.
const widestPacked = topology.LevelSpine

// room is how many cards are free in the domains that one cycle looks at: for each node the narrowest domain above the host
// and up to widestPacked that a label names, else the node itself. It is immutable.
type room struct {
	fabric *topology.Fabric
	// want is how many cards the pod and those that wait beside it need in one domain.
	want int
	// free is indexed by level and Fabric.Index, one more than the number of free cards; 0 and nil mean not looked at.
	free    [widestPacked + 1][]int32
	largest int
}

// newRoom counts the free cards of the nodes' domains, also those on nodes that are not among the given ones. It is nil
// where no label of the cluster names such a domain: there is nothing to keep free then.
func newRoom(f *topology.Fabric, cards *ledger.Ledger, nodes []fwk.NodeInfo, want int) *room {
	if !described(f) {
		return nil
	}
	r := &room{fabric: f, want: want, largest: 1}
	for _, info := range nodes {
		if info.Node() == nil {
			continue
		}
		pos, ok := f.Position(info.Node().Name)
		if !ok {
			continue
		}
		level, index := r.home(pos)
		if r.free[level] == nil {
			r.free[level] = make([]int32, len(f.Domains(level)))
		}
		if r.free[level][index] != 0 {
			continue
		}
		free, total := 0, 0
		for i, d := 0, f.Domain(level, pos); i < d.Len(); i++ {
			n, of := cardsOf(cards, f.Name(d.First+i))
			free, total = free+n, total+of
		}
		r.free[level][index] = int32(free) + 1
		r.largest = max(r.largest, total)
	}
	return r
}

func described(f *topology.Fabric) bool {
	for l := topology.LevelNVLink; l <= widestPacked; l++ {
		if f.Known(l) {
			return true
		}
	}
	return false
}

// cardsOf returns how many cards of a node are free, and how many there are, those in MIG mode and unusable ones left out.
func cardsOf(cards *ledger.Ledger, node string) (free, total int) {
	a := cards.Node(ledger.NodeName(node))
	if a == nil || a.Topology == nil || a.Quarantined {
		return 0, 0
	}
	return a.Free.Len(), (a.Topology.Usable() &^ a.Topology.MIGCards()).Len()
}

// home is the domain that is to be packed.
func (r *room) home(pos int) (level topology.Level, index int) {
	for l := topology.LevelNVLink; l <= widestPacked; l++ {
		if r.fabric.Known(l) && !r.fabric.Domain(l, pos).Unknown {
			return l, r.fabric.Index(l, pos)
		}
	}
	return topology.LevelHost, r.fabric.Index(topology.LevelHost, pos)
}

// packing says how well the node's domain suits those that want room, in thousandths, so that whole domains stay free:
//
//	free >= want   1000 - 500 x free/largest    the fuller the better
//	else           499 x free/largest           the most of them together, but never before one that holds all
//
// free is what is free in the domain, largest the number of cards of the largest domain looked at. Where nothing describes
// the network it is 1000 for every node. Example: racks of 32 cards with 24, 32 and 4 of them free: a single gets 625, 500
// and 938; the first of three pods that want 8 cards each gets 625, 500 and 62.
func (r *room) packing(node string) int {
	if r == nil {
		return packedFull
	}
	pos, ok := r.fabric.Position(node)
	if !ok {
		return 0
	}
	level, index := r.home(pos)
	if r.free[level] == nil || r.free[level][index] == 0 {
		return 0 // not a node that newRoom was given
	}
	free := min(int(r.free[level][index])-1, r.largest)
	if free >= r.want {
		return packedFull - (packedFull-packedEven)*free/r.largest
	}
	return (packedEven - 1) * free / r.largest
}
