package podgroup

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestManyGroupsAreWrittenABatchAtATime: the oldest change first, and what changes again meanwhile is written once.
func TestManyGroupsAreWrittenABatchAtATime(t *testing.T) {
	b := newBench(t)
	const groups = 2*batchGroups + 3
	for i := range groups {
		name := fmt.Sprintf("g%02d", groups-1-i) // not the order of names
		b.create(name, "uid-"+name)
		b.Set(desired(name, "uid-"+name, "Scheduling", 0))
		b.clock.Step(time.Millisecond)
	}
	last := "g00"
	b.flush(t.Context())
	if n := b.statuses(); n != batchGroups {
		t.Fatalf("%d groups are written in the first batch, want %d", n, batchGroups)
	}
	b.Set(desired(last, "uid-"+last, "Running", 4))
	b.flush(t.Context())
	b.flush(t.Context())
	b.flush(t.Context())
	if n := b.statuses(); n != groups {
		t.Errorf("%d statuses are written, want one of each of %d groups", n, groups)
	}
	if got := b.groups[last].status["phase"]; got != "Running" {
		t.Errorf("the group that changed while it waited shows %v", got)
	}
}

// statuses counts the writes of statuses.
func (b *bench) statuses() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, call := range b.calls {
		if strings.Contains(call, "status") {
			n++
		}
	}
	return n
}
