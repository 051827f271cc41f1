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

// TestWritesYieldToBindings: while Bindings queue up nothing is written for 2 s, and then what is true by then.
func TestWritesYieldToBindings(t *testing.T) {
	b := newBench(t)
	b.create("g", "uid-g")
	b.create("h", "uid-h")
	b.busy = true
	b.Set(desired("g", "uid-g", "Scheduling", 0))
	b.flush(t.Context())
	b.clock.Step(yieldLimit - time.Millisecond)
	b.Set(desired("g", "uid-g", "Running", 4))
	b.flush(t.Context())
	if n := b.statuses(); n != 0 {
		t.Fatalf("%d statuses are written ahead of Bindings", n)
	}
	b.clock.Step(time.Millisecond)
	b.Set(desired("h", "uid-h", "Scheduling", 0))
	b.flush(t.Context())
	if got := b.groups["g"].status["phase"]; got != "Running" || b.statuses() != 1 {
		t.Errorf("after 2 s the group shows %v, and %d statuses are written, want Running and 1", got, b.statuses())
	}
	b.busy = false
	b.flush(t.Context())
	if got := b.groups["h"].status["phase"]; got != "Scheduling" || b.statuses() != 2 {
		t.Errorf("with no Binding left the other shows %v, and %d statuses are written, want Scheduling and 2", got, b.statuses())
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
