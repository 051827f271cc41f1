package headroom

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"pgregory.net/rapid"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	tests := map[string]struct {
		live, room uint64
		want       int
	}{
		"before the first collection": {0, 128 * mib, 12800},
		"less than anything has":      {1, 128 * mib, 12800},
		"a small heap":                {32 * mib, 128 * mib, 400},
		"half the room":               {64 * mib, 128 * mib, 200},
		"the room":                    {128 * mib, 128 * mib, 100},
		"a large heap doubles":        {400 * mib, 128 * mib, 100},
		"no room":                     {32 * mib, 0, 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := percent(tt.live, tt.room); got != tt.want {
				t.Errorf("percent(%d, %d) = %d, want %d", tt.live, tt.room, got, tt.want)
			}
		})
	}
}

// The heap grows to what the package promises: within one percent of the live heap.
func TestPercentKeepsThePromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := rapid.Uint64Range(least, 1<<40).Draw(t, "live")
		room := rapid.Uint64Range(0, 1<<36).Draw(t, "room")
		grows, want := float64(live)*float64(percent(live, room))/100, float64(max(live, room))
		if math.Abs(grows-want) > float64(live)/100+1 {
			t.Fatalf("a heap of %d grows by %.0f, want %.0f", live, grows, want)
		}
	})
}

func TestTargetFollowsTheLiveHeap(t *testing.T) {
	set := make(chan int, 1)
	k := &keeper{room: 64 << 20, set: func(percent int) { set <- percent }}
	t.Cleanup(func() {
		k.stopped.Store(true)
		for len(set) > 0 {
			<-set
		}
	})
	k.adjust()
	before := awaitTarget(t, set, func(p int) bool { return p > 250 })
	ballast := make([]byte, 32<<20)
	awaitTarget(t, set, func(p int) bool { return p >= 100 && p <= 200 })
	runtime.KeepAlive(ballast)
	if after := awaitTarget(t, set, func(p int) bool { return p > 250 }); before < after/2 || after < before/2 {
		t.Errorf("target %d before there was more alive, %d after: it must be about the same", before, after)
	}
}

// awaitTarget runs the collector until the keeper sets a target that is as wanted.
func awaitTarget(t *testing.T, set <-chan int, wanted func(percent int) bool) int {
	t.Helper()
	for {
		select {
		case p := <-set:
			if wanted(p) {
				return p
			}
		case <-t.Context().Done():
			t.Fatal("no such target was set")
		default:
			runtime.GC()
		}
	}
}

func TestOperatorDecides(t *testing.T) {
	for value, left := range map[string]bool{"": false, "100": true, "off": true, "50": true} {
		asked, before := "", target()
		stop := KeepUnless(func(name string) (string, bool) { asked = name; return value, value != "" }, 1<<40)
		after := target()
		stop()
		debug.SetGCPercent(int(before)) //nolint:gosec // a percentage
		if asked != Variable {
			t.Errorf("asked for %q, want %q", asked, Variable)
		}
		if (before == after) != left {
			t.Errorf("%s=%q: the target went from %d to %d", Variable, value, before, after)
		}
	}
}

// target returns what the runtime says of itself, in percent.
func target() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
