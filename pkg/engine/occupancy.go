package engine

import (
	"sync"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// widestPacked is the widest level of which domains are kept free. A zone is no place to crowd: other plugins spread over
// zones.
const widestPacked = topology.LevelSpine

// occupancy follows the ledger, so that a cycle counts the nodes that changed and not those of the cluster.
type occupancy struct {
	// mu guards what follows. The ledger's lock is taken while it is held.
	mu     sync.Mutex
	fabric *topology.Fabric
	tally  *placement.Tally
	cursor *ledger.Cursor
}

// Occupancy returns how full the domains are that are kept whole for gangs: leaves, or spines or NVLink domains where no label
// names leaves. It is nil where no label names such a domain, and for f nil. f is what Fabric has returned. What the ledger
// published before the call is counted.
func (e *Engine) Occupancy(f *topology.Fabric) *placement.Occupancy {
	if f == nil {
		return nil
	}
	o := &e.occupancy
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fabric != f {
		o.fabric, o.cursor = f, e.ledger.Follow()
	}
	if o.cursor.Read() {
		o.tally = placement.NewTally(f, widestPacked)
	}
	if o.tally == nil {
		return nil
	}
	for name, a := range o.cursor.Changed() {
		o.tally.Set(name, a)
	}
	return o.tally.Occupancy()
}
