package ledger

import (
	"fmt"
	"slices"
	"testing"
)

// TestMarks: every holding of every node once, of nodes that are not known too; a reader may stop early, and may call the
// ledger while it reads.
func TestMarks(t *testing.T) {
	f := newFixture(t)
	cards := cardsN8s("A")
	f.node("n2", cards)
	f.must(f.l.Assume(holdWhole("b", "n2", cards, 0)))
	f.must(f.l.Adopt(holdWhole("a", "n2", cards, 1)))
	f.must(f.l.Adopt(holdWhole("c", "n1", cards, 0)))
	var got []string
	for m := range f.l.Marks() {
		got = append(got, fmt.Sprint(m.Node, " ", m.UID, " ", m.Pod, " ", m.Stage))
		e, ok := f.l.Entry(m.UID)
		if want := (Mark{e.UID, e.Pod, e.Node, e.Stage, e.Revision}); !ok || m != want {
			t.Errorf("mark %+v of entry %+v", m, e)
		}
	}
	slices.Sort(got)
	if want := []string{"n1 c ns/c bound", "n2 a ns/a bound", "n2 b ns/b assumed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range f.l.Marks() {
		f.l.Release("c")
		break
	}
	if _, ok := f.l.Entry("c"); ok {
		t.Error("an entry of a pod that was released")
	}
}

// TestRevision: a new one for every new holding, the same one for the same holding whatever becomes of its stage.
func TestRevision(t *testing.T) {
	f := newFixture(t)
	cards := cardsN8s("A")
	f.node("n1", cards)
	first, second := holdWhole("p", "n1", cards, 0), holdWhole("p", "n1", cards, 1)
	revision := func() uint64 { e, _ := f.l.Entry("p"); return e.Revision }
	steps := []struct {
		name  string
		do    func()
		grows bool
	}{
		{"assumed", func() { f.must(f.l.Assume(first)) }, true},
		{"assumed again", func() { f.must(f.l.Assume(first)) }, false},
		{"suspected", func() { f.l.Suspect("p") }, false},
		{"confirmed", func() { f.l.Confirm("p") }, false},
		{"the same adopted", func() { f.must(f.l.Adopt(first)) }, false},
		{"another card adopted", func() { f.must(f.l.Adopt(second)) }, true},
		{"another pod comes and goes", func() { f.must(f.l.Assume(holdWhole("q", "n1", cards, 5))); f.l.Forget("q") }, false},
		{"released and restored", func() { f.l.Release("p"); f.must(f.l.Restore(second)) }, true},
	}
	last := uint64(0)
	for _, s := range steps {
		s.do()
		if got := revision(); (got > last) != s.grows || got < last {
			t.Errorf("%s: revision %d after %d, want a new one: %t", s.name, got, last, s.grows)
		}
		last = revision()
	}
}

// TestReleased: it says what Assume and Adopt would.
func TestReleased(t *testing.T) {
	f := newFixture(t)
	cards := cardsN8s("A")
	f.node("n1", cards)
	f.answer("before", f.l.Released("p"), false)
	f.l.Release("p")
	f.answer("after Release", f.l.Released("p"), true)
	f.must(f.l.Restore(holdWhole("p", "n1", cards, 0)))
	f.answer("after Restore", f.l.Released("p"), false)
	f.free("n1", 0xfe)
	f.l.Release("p")
	f.answer("released again", f.l.Released("p"), true)
}

// BenchmarkMarks reads the marks of 50,000 holdings on 10,000 nodes. The longest hold of the mutex is that of one node.
func BenchmarkMarks(b *testing.B) {
	c := newBenchCluster(b)
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for range c.l.Marks() {
				n++
			}
			if n != benchPods {
				b.Fatalf("%d marks, want %d", n, benchPods)
			}
		}
	})
	crowd := New()
	crowd.SetNode("n", c.topologies[0])
	for i := range 512 { // all that 8 cards hold at most: 64 shares each
		h := Holding{UID: benchUID(i), Pod: "ns/p", Node: "n", UnknownCards: 1}
		if err := crowd.Adopt(h); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one node of 512 pods", func(b *testing.B) {
		var marks []Mark
		for b.Loop() {
			marks = crowd.marksOn(crowd.nodes.node("n"), marks[:0])
			if got := len(marks); got != 512 {
				b.Fatal(got)
			}
		}
	})
}
