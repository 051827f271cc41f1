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

// TestWritesYieldToBindings: while Bindings queue up nothing is written for a while, and then what is true by then.
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
		t.Errorf("after the limit the group shows %v, and %d statuses are written, want Running and 1", got, b.statuses())
	}
	b.busy = false
	b.flush(t.Context())
	if got := b.groups["h"].status["phase"]; got != "Scheduling" || b.statuses() != 2 {
		t.Errorf("with no Binding left the other shows %v, and %d statuses are written, want Scheduling and 2", got, b.statuses())
	}
}

// TestEventFollowsTheWriteThatYields: a reason that is not written yet is not reported yet, and once only.
func TestEventFollowsTheWriteThatYields(t *testing.T) {
	b := newBench(t)
	b.create("g", "uid-g")
	b.busy = true
	b.Set(waiting("g", "uid-g", "needs 8 cards"))
	b.pass(yieldLimit - batchPeriod)
	if len(b.events) != 0 {
		t.Errorf("reported ahead of the write: %q", b.events)
	}
	seen := func() {
		b.Seen(Group{Namespace: namespace, Name: "g", UID: "uid-g", Object: b.groups["g"].object("g")}) // somebody labelled it
	}
	seen()
	b.pass(yieldLimit)
	seen()
	b.pass(yieldLimit)
	if len(b.events) != 1 || b.versions[0] == "" {
		t.Errorf("events %q about versions %q, want one about the version that shows the reason", b.events, b.versions)
	}
}

// TestEndsDoNotYield: how many members have ended is written ahead of Bindings, since nothing else tells of those deleted.
func TestEndsDoNotYield(t *testing.T) {
	b := newBench(t)
	b.create("g", "uid-g")
	b.busy = true
	d := desired("g", "uid-g", "Running", 3)
	d.Succeeded = 1
	b.Set(d)
	b.flush(t.Context())
	if n := b.statuses(); n != 1 {
		t.Errorf("%d statuses are written, want 1", n)
	}
}

// TestNoGroupKeepsAnotherFromBeingWritten: groups that change all the time take turns with those that changed once, and yield to
// Bindings each time anew. Groups of which pods wait to show the reason come first.
func TestNoGroupKeepsAnotherFromBeingWritten(t *testing.T) {
	for _, busy := range []bool{false, true} {
		b := newBench(t)
		b.busy = busy
		for i := range 2 * batchGroups {
			b.create(fmt.Sprintf("hot%d", i), fmt.Sprintf("uid-hot%d", i))
		}
		b.create("cold", "uid-cold")
		b.create("parked", "uid-parked")
		for i := range 100 { // 20 s
			for j := range 2 * batchGroups {
				name := fmt.Sprintf("hot%d", j)
				b.Set(desired(name, "uid-"+name, "Scheduled", int32(i)))
			}
			if i == 1 {
				b.Set(desired("cold", "uid-cold", "Scheduling", 0))
				b.Set(waiting("parked", "uid-parked", "needs 8", ParkedPod{UID: "p", Name: "p"}))
			}
			b.pass(batchPeriod)
		}
		for _, name := range []string{"cold", "parked"} {
			if b.groups[name].status == nil {
				t.Errorf("busy %t: %s was not written within 20 s", busy, name)
			}
		}
		if n := b.statuses(); busy && n > 4*(2*batchGroups+2) {
			t.Errorf("%d writes in 20 s while Bindings queue up, want at most one of each group in 5 s", n)
		}
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
