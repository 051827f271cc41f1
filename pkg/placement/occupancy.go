package placement

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Occupancy is how many cards are free in each domain that is worth keeping whole for gangs: for each node its home, the narrowest
// domain above the host and up to the widest level that is packed that a label names, else the node itself. Where some nodes of a
// domain have a narrower home it counts these too. It is immutable and safe for concurrent use. Which cards count says
// ledger.NodeGPUAllocation.WholeCards.
type Occupancy struct {
	// homes has the number of each position's home, and free and total what is in it, by that number.
	homes       []int32
	free, total []int32
}

// At returns how many cards are free in the home of the node at a position of the fabric, and how many there are.
func (o *Occupancy) At(position int) (free, total int) {
	home := o.homes[position]
	return int(o.free[home]), int(o.total[home])
}

// Packing is in thousandths. A domain with room for all has at least PackedEven, one without has less.
const (
	PackedFull = 1000 // where there is nothing to keep free
	PackedEven = 500  // the fullest that still holds all is above it, the emptiest at it
)

// Packing says how well a domain suits those that want room in it, in thousandths, so that whole domains stay free:
//
//	free >= want   1000 - 500 x free/largest    the fuller the better
//	else           499 x free/largest           the most of them together, but never before one that holds all
//
// free is what is free in the domain, largest the number of cards of the largest domain in question, at least 1, want how many cards
// are needed in one domain. Example: racks of 32 cards with 24, 32 and 4 of them free: a single gets 625, 500 and 938; the first of
// three pods that want 8 cards each gets 625, 500 and 62.
func Packing(free, want, largest int) int {
	free = min(free, largest)
	if free >= want {
		return PackedFull - (PackedFull-PackedEven)*free/largest
	}
	return (PackedEven - 1) * free / largest
}

// Tally keeps an Occupancy in line with the states of the nodes: a change of one node costs the same whatever the size of the
// cluster. It is not safe for concurrent use.
type Tally struct {
	fabric *topology.Fabric
	now    *Occupancy
	// shared says that now was given out and must not be written to.
	shared bool
	// nodes is what was counted of each position, within the homes of any nodes that it is in, by level.
	nodes  []cardCount
	within [][packedLevels]int32
}

// packedLevels is the number of levels that may be homes: from the host to the spine.
const packedLevels = int(topology.LevelSpine) + 1

// nobody is the number of a domain that is nobody's home.
const nobody = -1

// cardCount is how many cards of one node are free, and how many there are.
type cardCount struct{ free, total int32 }

// NewTally returns a tally in which no node has cards. It is nil where no label names a domain above the host and up to the
// widest level, which is the spine at most: there is nothing to keep whole then.
func NewTally(f *topology.Fabric, widest topology.Level) *Tally {
	var levels []topology.Level
	for l := topology.LevelNVLink; l <= min(widest, topology.LevelSpine); l++ {
		if f.Known(l) {
			levels = append(levels, l)
		}
	}
	if len(levels) == 0 {
		return nil
	}
	t := &Tally{fabric: f, now: &Occupancy{homes: make([]int32, f.Len())}, nodes: make([]cardCount, f.Len()), within: make([][packedLevels]int32, f.Len())}
	var numbers [packedLevels][]int32 // by the index of the domain
	for l := range numbers {
		numbers[l] = slices.Repeat([]int32{nobody}, len(f.Domains(topology.Level(l))))
	}
	count := int32(0)
	for pos := range t.now.homes {
		l := homeLevel(f, levels, pos)
		number := &numbers[l][f.Index(l, pos)]
		if *number == nobody {
			*number = count
			count++
		}
		t.now.homes[pos] = *number
	}
	for pos := range t.within {
		for l := range numbers {
			t.within[pos][l] = numbers[l][f.Index(topology.Level(l), pos)]
		}
	}
	t.now.free, t.now.total = make([]int32, count), make([]int32, count)
	return t
}

// homeLevel is the narrowest of the levels at which a label names the domain of the node, else the host.
func homeLevel(f *topology.Fabric, levels []topology.Level, pos int) topology.Level {
	for _, l := range levels {
		if !f.Domain(l, pos).Unknown {
			return l
		}
	}
	return topology.LevelHost
}

// Set replaces what is counted of a node by its state, nil for one that is not known. A node that the fabric does not hold
// changes nothing.
func (t *Tally) Set(name ledger.NodeName, a *ledger.NodeGPUAllocation) {
	pos, ok := t.fabric.Position(string(name))
	if !ok {
		return
	}
	free, total := a.WholeCards()
	now, was := cardCount{int32(free), int32(total)}, t.nodes[pos]
	if now == was {
		return
	}
	if t.shared {
		t.now = &Occupancy{homes: t.now.homes, free: slices.Clone(t.now.free), total: slices.Clone(t.now.total)}
		t.shared = false
	}
	for _, home := range t.within[pos] {
		if home != nobody {
			t.now.free[home] += now.free - was.free
			t.now.total[home] += now.total - was.total
		}
	}
	t.nodes[pos] = now
}

// Occupancy returns the counts of this moment.
func (t *Tally) Occupancy() *Occupancy {
	t.shared = true
	return t.now
}
