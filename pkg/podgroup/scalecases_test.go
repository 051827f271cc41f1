package podgroup

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// TestCaseB159WritesOfAGangThatWaits: a gang that cannot fit is tried again every ten seconds, and each minute the reason is another
// one. Every pod shows each reason once, and the PodGroup has one event for each: of a gang of 1000 that is less than 20 writes a
// second.
func TestCaseB159WritesOfAGangThatWaits(t *testing.T) {
	const members, minutes, attempts = 250, 3, 6
	pods := make([]runtime.Object, members)
	parked := make([]ParkedPod, members)
	for i := range pods {
		name := fmt.Sprintf("a-%d", i)
		pods[i], parked[i] = pod(name, nil), park(name)
	}
	b := newBench(t, pods...)
	b.create("a", "u1")
	for minute := range minutes {
		before := len(b.calls)
		for range attempts {
			b.Set(waiting("a", "u1", fmt.Sprintf("reason %d", minute), parked...))
			b.pass(time.Minute / attempts)
		}
		writes := map[string]int{}
		for _, name := range b.podWrites() {
			if writes[name]++; writes[name] > 1 {
				t.Fatalf("minute %d: %s is written %d times for one reason", minute, name, writes[name])
			}
		}
		if len(writes) != members {
			t.Fatalf("minute %d: %d of %d pods show the reason", minute, len(writes), members)
		}
		if n := len(b.calls) - before; n > 2 {
			t.Errorf("minute %d: %d writes to the PodGroup, want its status and its reason at most: %q", minute, n, b.calls[before:])
		}
		if len(b.events) != minute+1 {
			t.Errorf("%d events after %d reasons: %q", len(b.events), minute+1, b.events)
		}
	}
}
