package spread

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cluster is n nodes with pods matching pods each, in racks of 10.
func cluster(n, pods int) *fakeSource {
	s := &fakeSource{constraints: []int{0, 0}, spec: Spec{AllKeys: true, Constraints: []Constraint{{Key: "rack"}, {Key: "host"}}}}
	for i := range n {
		name := fmt.Sprintf("n%05d", i)
		s.nodes = append(s.nodes, &fakeNode{
			Node:       Node{Name: name, Labels: map[string]string{"rack": fmt.Sprintf("r%d", i/10), "host": name}},
			generation: int64(i + 1), pods: slices.Repeat([]fakePod{{matches: 1}}, pods), counts: 1, stands: 1,
		})
	}
	return s
}

func (s *fakeSource) touch(i int, generation int64, pods int) {
	n := *s.nodes[i]
	n.generation, n.pods = generation, slices.Repeat([]fakePod{{matches: 1}}, pods)
	s.nodes[i] = &n
}

func (s *fakeSource) counts(c *Cache, key string) []*Counts {
	return c.Counts([]byte(key), func() Spec { return s.spec }, s)
}

// TestOnlyChangedNodesAreRead: a cycle reads the nodes whose generation is another one, whatever the order of the list, and those
// of a part of the list no second time.
func TestOnlyChangedNodesAreRead(t *testing.T) {
	s, c := cluster(100, 1), NewCache(2)
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"first", func() {}, 100},
		{"nothing changed", func() {}, 0},
		{"two changed", func() { s.touch(3, 1001, 2); s.touch(50, 1002, 1) }, 2},
		{"another order", func() { slices.Reverse(s.nodes) }, 0},
		{"a part", func() { s.nodes = s.nodes[:40] }, 0},
		{"all again", func() { s.nodes = append(s.nodes, cluster(100, 1).nodes[:60]...) }, 2}, // the two have their old generation
	}
	for _, step := range steps {
		step.do()
		s.reads = 0
		s.counts(c, "k")
		if s.reads != step.want {
			t.Errorf("%s: %d reads, want %d", step.name, s.reads, step.want)
		}
	}
	if diff := cmp.Diff(Stats{Sets: 1, Nodes: 100, Reads: 104}, c.Stats()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCountsAreShared: where no sum changed, the same Counts are handed out again, though nodes changed.
func TestCountsAreShared(t *testing.T) {
	s, c := cluster(100, 1), NewCache(2)
	before := s.counts(c, "k")
	s.touch(3, 1001, 1)
	if after := s.counts(c, "k"); after[0] != before[0] || after[1] != before[1] {
		t.Error("a node changed, no sum did, and the counts are others")
	}
	s.touch(3, 1002, 2)
	if after := s.counts(c, "k"); after[0] == before[0] || after[0].Pods("r0") != 11 || before[0].Pods("r0") != 10 {
		t.Errorf("%d pods, and %d in the counts of before; want 11 and 10", after[0].Pods("r0"), before[0].Pods("r0"))
	}
}

// TestLeastRecentlyUsedSetGoes: the limit holds, the set that was not used for longest is read anew, and keys that no set uses
// are forgotten.
func TestLeastRecentlyUsedSetGoes(t *testing.T) {
	s, c := cluster(10, 1), NewCache(1)
	c.Allow(2)
	c.Allow(1)
	for _, step := range []struct {
		key  string
		want int
	}{{"a", 10}, {"b", 10}, {"a", 0}, {"c", 10}, {"a", 0}, {"b", 10}} {
		s.reads = 0
		s.counts(c, step.key)
		if s.reads != step.want {
			t.Errorf("set %s: %d reads, want %d", step.key, s.reads, step.want)
		}
	}
	if n := c.Stats().Sets; n != 2 {
		t.Errorf("%d sets, want 2", n)
	}
	zones := &fakeSource{nodes: s.nodes, constraints: []int{0}, spec: Spec{Constraints: []Constraint{{Key: "zone"}}}}
	zones.counts(c, "z1")
	zones.counts(c, "z2")
	if _, kept := c.directory.columns["rack"]; kept || len(c.directory.columns) != 1 {
		t.Errorf("columns %v, want zone alone", c.directory.columns)
	}
}

// TestNodesThatLeftAreForgotten: after many changes of the list, and not before, a node that left takes no room.
func TestNodesThatLeftAreForgotten(t *testing.T) {
	s, c := cluster(3, 1), NewCache(1)
	for i := range keepTurns + 2 {
		n := *s.nodes[2]
		n.Name, n.generation = fmt.Sprintf("x%d", i), int64(1000+i)
		n.Labels = map[string]string{"rack": "r0", "host": n.Name}
		s.nodes[2] = &n
		s.counts(c, "k")
	}
	for range 2 * keepTurns {
		s.nodes[0], s.nodes[1] = s.nodes[1], s.nodes[0]
		counts := s.counts(c, "k")
		if counts[1].Domains() != 3 || counts[0].Pods("r0") != 3 {
			t.Fatalf("%d hosts with %d pods, want 3 and 3", counts[1].Domains(), counts[0].Pods("r0"))
		}
	}
	if n := c.Stats().Nodes; n != 3 {
		t.Errorf("%d nodes are remembered, want 3", n)
	}
	if n := len(c.directory.columns["host"].values.ids); n != 4 { // and the empty one
		t.Errorf("%d hosts are remembered, want 4", n)
	}
}

// TestGroupsAreCountedOnce: the pods of a group in a domain are one.
func TestGroupsAreCountedOnce(t *testing.T) {
	s, c := cluster(20, 0), NewCache(1)
	s.spec.Constraints[0].Groups, s.spec.Constraints[1].Groups = true, true
	s.nodes[0].pods = []fakePod{{1, "g"}, {1, "g"}, {1, ""}, {0, "h"}}
	s.nodes[1].pods = []fakePod{{1, "g"}, {1, "h"}}
	s.nodes[10].pods = []fakePod{{1, "g"}}
	counts := s.counts(c, "k")
	racks := counts[0]
	got := []any{racks.Pods("r0"), racks.Pods("r1"), racks.GroupDomains("g"), racks.GroupDomains("h"), racks.GroupPods("r0", "g"), racks.GroupPods("none", "g"), counts[1].Pods("n00000")}
	if diff := cmp.Diff([]any{3, 1, []string{"r0", "r1"}, []string{"r0"}, 3, 0, 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConcurrentUse is for the race detector: Counts are read while the cache goes on.
func TestConcurrentUse(t *testing.T) {
	c := NewCache(2)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			s := cluster(30, 1)
			for i := range 50 {
				s.touch(i%30, int64(1000*(w+1)+i), i%3)
				for _, counts := range s.counts(c, fmt.Sprint(i%3)) {
					counts.All(func(string, int) {})
					if counts.Min() > 2+10*2 {
						t.Error("no domain has so many pods")
					}
				}
				c.Scores([]byte("s"), func() Spec { return s.spec }, s, s, make([]Weight, 2))
			}
		})
	}
	all.Wait()
}
