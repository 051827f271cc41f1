package spread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecycledDomainNumber: while one set rests, another one sees a node go from rack a over b to c, so that c gets the number that a
// had. The node holds as many pods as before: no sum of the first set changes, but its domains have other names.
func TestRecycledDomainNumber(t *testing.T) {
	s, c := cluster(1, 3), NewCache(2)
	move := func(generation int64, rack string) {
		s.touch(0, generation, 3)
		s.nodes[0].Labels = map[string]string{"rack": rack, "host": "h"}
	}
	move(11, "a")
	s.counts(c, "rests")
	s.counts(c, "goes on")
	for i, rack := range []string{"b", "c"} {
		move(int64(12+i), rack)
		s.counts(c, "goes on")
	}
	racks := s.counts(c, "rests")[0]
	named := map[string]int{}
	racks.All(func(domain string, pods int) { named[domain] = pods })
	got := []any{racks.Pods("a"), racks.Pods("c"), named}
	if diff := cmp.Diff([]any{0, 3, map[string]int{"c": 3}}, got); diff != "" {
		t.Errorf("pods of a, of c, and of all domains (-want +got):\n%s", diff)
	}
}
