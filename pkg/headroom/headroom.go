package headroom

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// Default is the room of the scheduler, in bytes: what it may have of garbage in a small cluster. Where 4/3 of that is alive, as in
	// the cluster of `make bench-scale`, 10 000 nodes, the room is without effect.
	Default = 128 << 20
	// Variable is the environment variable by which an operator sets the runtime's target.
	Variable = "GOGC"

	// least is the target of a large heap, in percent of what is alive. The runtime's own is 100. Beside 10 000 nodes a third more is
	// alive than in kube-scheduler, cards and fabric, and for gangs a quarter of the CPU time is used. With 75 the process in sync has
	// 1.15 to 1.21 times kube-scheduler's memory (docs/benchmarks.md).
	least = 75
	// most bounds the target, in percent: it stands for a while after a collection that leaves much more than the one before.
	most = 400
)

// Keep has the heap grow by at least room bytes between collections, until stop is called, which leaves the runtime's target
// as it is then. It sets a property of the whole process: call it once, from main. It may be called at any time.
func Keep(room uint64) (stop func()) {
	k := &keeper{room: room, set: func(percent int) { debug.SetGCPercent(percent) }}
	k.adjust()
	return func() { k.stopped.Store(true) }
}

// KeepUnless does what Keep does, unless lookup, which has the form of os.LookupEnv, knows that the operator has set GOGC.
func KeepUnless(lookup func(string) (string, bool), room uint64) (stop func()) {
	if value, _ := lookup(Variable); value != "" {
		return func() {}
	}
	return Keep(room)
}

// keeper sets the target anew after each collection.
type keeper struct {
	room uint64
	set  func(percent int)
	// last is what was set, and belongs to adjust, which is never called twice at once.
	last    int
	stopped atomic.Bool
}

// adjust sets the target for what the last collection left, and has itself called after the next one.
func (k *keeper) adjust() {
	if k.stopped.Load() {
		return
	}
	if p := percent(marked(), k.room); p != k.last {
		k.last = p
		k.set(p)
	}
	// The next collection that begins finds this dead. What holds pointers never shares a block with others, which might live.
	runtime.AddCleanup(new(*byte), (*keeper).adjust, k)
}

// marked returns the bytes that the runtime's target is a percentage of: those that the last collection found alive, 0 before the
// first, and the stacks and globals that it looked through.
func marked() (bytes uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		bytes += s.Value.Uint64()
	}
	return bytes
}

// percent returns the target by which the heap grows by room, or by least where that is more, as far as most allows.
func percent(marked, room uint64) int {
	if marked == 0 {
		return most
	}
	return int(min(max(float64(room)/float64(marked)*100, least), most))
}
