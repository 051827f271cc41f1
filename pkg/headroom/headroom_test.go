package headroom

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	tests := map[string]struct {
		marked, room uint64
		want         int
	}{
		"before the first collection":    {0, 128 * mib, 400},
		"next to nothing":                {1, 128 * mib, 400},
		"a quarter of the room":          {32 * mib, 128 * mib, 400},
		"half the room":                  {64 * mib, 128 * mib, 200},
		"the room":                       {128 * mib, 128 * mib, 100},
		"a large heap":                   {400 * mib, 128 * mib, 75},
		"no room":                        {32 * mib, 0, 75},
		"more room than any machine has": {1, math.MaxUint64, 400},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := percent(tt.marked, tt.room); got != tt.want {
				t.Errorf("percent(%d, %d) = %d, want %d", tt.marked, tt.room, got, tt.want)
			}
		})
	}
}

// TestHeapGrowsByTheRoom: the goal that the runtime makes of the target is as far above the live heap as was asked for.
func TestHeapGrowsByTheRoom(t *testing.T) {
	before := read("/gc/gogc:percent")
	defer debug.SetGCPercent(int(before)) //nolint:gosec // a percentage
	ballast := make([]byte, 64<<20)
	runtime.GC()
	room := 2 * marked()
	debug.SetGCPercent(percent(marked(), room))
	grows := read("/gc/heap/goal:bytes") - read("/gc/heap/live:bytes")
	runtime.KeepAlive(ballast)
	if grows < room/10*9 || grows > room/10*11 {
		t.Errorf("the heap may grow by %d bytes, want about %d", grows, room)
	}
}

func TestTargetFollowsTheLiveHeap(t *testing.T) {
	runtime.GC()
	small := marked()
	set := make(chan int, 1)
	k := &keeper{room: 4 * small, set: func(percent int) { set <- percent }}
	t.Cleanup(func() {
		k.stopped.Store(true)
		for len(set) > 0 {
			<-set
		}
	})
	k.adjust()
	awaitTarget(t, set, func(p int) bool { return p > 250 })
	ballast := make([]byte, 4*small)
	awaitTarget(t, set, func(p int) bool { return p < 150 })
	runtime.KeepAlive(ballast)
	awaitTarget(t, set, func(p int) bool { return p > 250 })
}

// awaitTarget runs the collector until the keeper sets a target that is as wanted.
func awaitTarget(t *testing.T, set <-chan int, wanted func(percent int) bool) {
	t.Helper()
	const collections = 10000
	for range collections {
		select {
		case p := <-set:
			if wanted(p) {
				return
			}
		default:
			runtime.GC()
		}
	}
	t.Fatalf("no such target was set in %d collections", collections)
}

func TestOperatorDecides(t *testing.T) {
	for value, left := range map[string]bool{"": false, "100": true, "off": true, "50": true} {
		asked, before := "", read("/gc/gogc:percent")
		stop := KeepUnless(func(name string) (string, bool) { asked = name; return value, value != "" }, math.MaxUint64)
		after := read("/gc/gogc:percent")
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

// read returns one of the runtime's metrics.
func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
