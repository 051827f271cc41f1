package ledger

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDirectory adds and removes names at random, many to a part, and compares with a map.
func TestDirectory(t *testing.T) {
	d := directory{seed: maphash.MakeSeed()}
	want := map[NodeName]*node{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 120_000 {
		name := benchName(r.IntN(40_000))
		switch n := want[name]; {
		case n == nil:
			n = &node{name: name}
			want[name] = n
			d.add(n)
		case r.IntN(2) == 0:
			delete(want, name)
			d.remove(name)
		}
		if got := d.node(name); got != want[name] {
			t.Fatalf("%s: got %v, want %v", name, got, want[name])
		}
	}
	d.remove("never there")
	var names []NodeName
	for name, n := range want {
		names = append(names, name)
		if d.node(name) != n {
			t.Fatalf("%s is lost", name)
		}
	}
	slices.Sort(names)
	if got := d.names(); !slices.Equal(got, names) {
		t.Errorf("%d names, want %d", len(got), len(names))
	}
}
