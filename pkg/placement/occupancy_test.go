package placement_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestOccupancyIsTheSum: after any changes the counts are those of a walk over all nodes, and counts that were given out
// before stay as they were.
func TestOccupancyIsTheSum(t *testing.T) {
	usual, mig := machine(t, "c", n8s()), machine(t, "m", migs())
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 12
		// Names before and after those of domains: nodes without labels stand on either side of others in the fabric's order.
		prefixes := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "n"}), nodes, nodes).Draw(t, "prefixes")
		name := func(i int) string { return fmt.Sprintf("%s%02d", prefixes[i], i) }
		b := topology.NewFabricBuilder(topology.DefaultLevels())
		for i, labels := range drawLabels(t, nodes) {
			if rapid.IntRange(0, 9).Draw(t, "in the fabric") > 0 {
				b.SetNode(name(i), labels)
			}
		}
		f := b.Fabric()
		widest := rapid.SampledFrom([]topology.Level{topology.LevelNVLink, topology.LevelLeaf, topology.LevelSpine}).Draw(t, "widest")
		tally := placement.NewTally(f, widest)
		if described := knownUpTo(f, widest); (tally != nil) != described {
			t.Fatalf("tally %v, though labels name domains: %v", tally, described)
		}
		if tally == nil {
			return
		}
		states := map[string]*ledger.NodeGPUAllocation{}
		var old *placement.Occupancy
		var was map[string][2]int
		for range 20 {
			n := name(rapid.IntRange(0, nodes-1).Draw(t, "node"))
			states[n] = drawState(t, usual, mig)
			tally.Set(ledger.NodeName(n), states[n])
			if old != nil {
				matches(t, f, old, was)
			}
			if rapid.Bool().Draw(t, "read") {
				old, was = tally.Occupancy(), sums(f, widest, states)
				matches(t, f, old, was)
			}
		}
	})
}

func knownUpTo(f *topology.Fabric, widest topology.Level) bool {
	for l := topology.LevelNVLink; l <= widest; l++ {
		if f.Known(l) {
			return true
		}
	}
	return false
}

// drawState draws a state of a node: not known, without facts, in quarantine, or with some cards free.
func drawState(t *rapid.T, usual, mig *topology.Node) *ledger.NodeGPUAllocation {
	switch rapid.IntRange(0, 6).Draw(t, "state") {
	case 0:
		return nil
	case 1:
		return &ledger.NodeGPUAllocation{}
	case 2:
		return &ledger.NodeGPUAllocation{View: *viewOf(usual, usual.All()), Quarantined: true}
	case 3:
		return &ledger.NodeGPUAllocation{View: *viewOf(mig, mig.All()&^mig.MIGCards())}
	default:
		return &ledger.NodeGPUAllocation{View: *viewOf(usual, topology.GPUSet(rapid.Uint8().Draw(t, "free")))}
	}
}

// sums counts free and all cards of each node's domain by a walk over all of them.
func sums(f *topology.Fabric, widest topology.Level, states map[string]*ledger.NodeGPUAllocation) map[string][2]int {
	home := func(pos int) topology.Domain {
		for l := topology.LevelNVLink; l <= widest; l++ {
			if d := f.Domain(l, pos); f.Known(l) && !d.Unknown {
				return d
			}
		}
		return f.Domain(topology.LevelHost, pos)
	}
	out := map[string][2]int{}
	for pos := range f.Len() {
		var sum [2]int
		for in := range f.Len() {
			a := states[f.Name(in)]
			if !home(pos).Contains(in) || a == nil || a.Topology == nil || a.Quarantined {
				continue
			}
			for i := range a.Topology.Len() {
				if c := a.Topology.Card(i); c.Healthy && !c.MIGEnabled {
					sum[1]++
				}
			}
			sum[0] += a.Free.Len()
		}
		out[f.Name(pos)] = sum
	}
	return out
}

func matches(t fataler, f *topology.Fabric, o *placement.Occupancy, want map[string][2]int) {
	for pos := range f.Len() {
		if free, total := o.At(pos); want[f.Name(pos)] != [2]int{free, total} {
			t.Fatalf("node %s: %d of %d cards free, want %v", f.Name(pos), free, total, want[f.Name(pos)])
		}
	}
}

// TestOccupancyOfMixedLabels: a spine of two leaves and a node whose leaf no label names. The leaves are counted for themselves, and
// the node's home is the spine with all that is in it, whichever side of the leaves it stands on.
func TestOccupancyOfMixedLabels(t *testing.T) {
	facts := machine(t, "c", n8s())
	for _, stray := range []string{"a-new", "z-new"} {
		b := topology.NewFabricBuilder(topology.DefaultLevels())
		labels := func(leaf string) map[string]string {
			m := map[string]string{levelLabels[2]: "spine-0"}
			if leaf != "" {
				m[levelLabels[1]] = leaf
			}
			return m
		}
		b.SetNode(stray, labels(""))
		for i, leaf := range []string{"leaf-0", "leaf-0", "leaf-1"} {
			b.SetNode(fmt.Sprint("n", i), labels(leaf))
		}
		f := b.Fabric()
		tally := placement.NewTally(f, topology.LevelSpine)
		for pos := range f.Len() {
			tally.Set(ledger.NodeName(f.Name(pos)), &ledger.NodeGPUAllocation{View: *viewOf(facts, 0x0f)})
		}
		matches(t, f, tally.Occupancy(), map[string][2]int{"n0": {8, 16}, "n1": {8, 16}, "n2": {4, 8}, stray: {16, 32}})
	}
}
