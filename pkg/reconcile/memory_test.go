package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

// TestDue: a part of all, in order, and the same part as of all that are sorted.
func TestDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sweep{Loop: &Loop{comparisons: rapid.IntRange(1, 8).Draw(t, "comparisons")}}
		waits := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 60).Draw(t, "waits")
		for i, n := range rapid.Permutation(waits).Draw(t, "order") {
			s.memory.entries = append(s.memory.entries, known{uid: ledger.PodUID(fmt.Sprintf("%02d", i*37%60)), waits: n})
			s.open = append(s.open, int32(i)) //nolint:gosec // few
		}
		want := slices.SortedFunc(slices.Values(s.open), func(a, b int32) int {
			return cmp.Or(cmp.Compare(s.memory.entries[b].waits, s.memory.entries[a].waits), cmp.Compare(s.memory.entries[a].uid, s.memory.entries[b].uid))
		})
		got := s.due()
		if len(want) <= s.comparisons {
			slices.Sort(want)
			slices.Sort(got)
		}
		want = want[:min(len(want), s.comparisons)]
		if d := gocmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// TestWhatIsComparedAgain: a record is read once for each version of its pod and each holding, and not because the informer
// listed the same pod again.
func TestWhatIsComparedAgain(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	h := holding("p", "n1", 0)
	compared := func() int {
		s := newSweep(w.Loop)
		s.read()
		return len(s.open)
	}
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"new", func() { w.put(w.podStore, boundPod(t, h, 1)); w.must(w.Ledger.Adopt(h)) }, 1},
		{"unchanged", func() {}, 0},
		{"listed again", func() { w.put(w.podStore, boundPod(t, h, 1)) }, 0},
		{"unchanged once more", func() {}, 0},
		{"changed", func() { w.put(w.podStore, boundPod(t, h, 2)) }, 1},
		{"charged anew", func() { w.Ledger.Release("p"); w.must(w.Ledger.Restore(h)) }, 1},
		{"both", func() { w.put(w.podStore, boundPod(t, h, 3)); w.Ledger.Release("p"); w.must(w.Ledger.Restore(h)) }, 1},
		{"quiet", func() {}, 0},
	}
	for _, step := range steps {
		step.do()
		if got := compared(); got != step.want {
			t.Errorf("%s: %d records read, want %d", step.name, got, step.want)
		}
	}
}

// TestAheadIsNoOrphan: of a pod that was read from the API server the informer's store knows nothing yet, for as long as its
// watch hangs. What the store does not have once it is as new is gone.
func TestAheadIsNoOrphan(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	w.sweep()
	w.podStore.Bookmark("10")
	w.Observer.PodSeen(boundPod(t, holding("p", "n1", 0), 12))
	for range 3 {
		same(t, "behind", w.later())
	}
	if got := w.free("n1"); got != 7 || w.Last().Suspected != 0 {
		t.Errorf("%d cards are free, %d suspected", got, w.Last().Suspected)
	}
	w.podStore.Bookmark("12")
	same(t, "caught up", w.later())
	same(t, "twice without it", w.later(), "orphan p n1")
	if got := w.free("n1"); got != 8 {
		t.Errorf("%d cards are free, want 8", got)
	}
}

// TestStoreBehindAnEnd: a pod that the informer's store shows as living is known to have ended since. It is not charged again,
// however long the store's watch hangs, unless its phase is set back.
func TestStoreBehindAnEnd(t *testing.T) {
	w := newWorld(t, observe.Options{})
	w.node("n1")
	h := holding("p", "n1", 0)
	w.put(w.podStore, boundPod(t, h, 5))
	w.Observer.PodSeen(boundPod(t, h, 5))
	w.sweep()
	failed := boundPod(t, h, 7)
	ended(failed)
	w.Observer.EndedSeen(failed, false)
	for range 3 {
		same(t, "behind", w.later())
	}
	if got := w.free("n1"); got != 8 || w.Last().Suspected != 0 {
		t.Errorf("%d cards are free, %d suspected", got, w.Last().Suspected)
	}
	w.put(w.podStore, boundPod(t, h, 9))
	same(t, "its phase is set back", w.later())
	same(t, "seen twice", w.later(), "tombstone p n1")
}
