package spread

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fakePod is a pod on a node: it matches a constraint of the test whose number its bit says.
type fakePod struct {
	matches uint8
	group   string
}

type fakeNode struct {
	Node
	generation int64
	pods       []fakePod
	// counts and stands are, by bit, what constraints think of the node.
	counts, stands uint8
}

// fakeSource is the list of nodes as the constraints with the given numbers see them.
type fakeSource struct {
	nodes       []*fakeNode
	constraints []int
	spec        Spec
	reads       int
}

func (s *fakeSource) Len() int               { return len(s.nodes) }
func (s *fakeSource) Generation(i int) int64 { return s.nodes[i].generation }
func (s *fakeSource) Node(i int) Node        { return s.nodes[i].Node }
func (s *fakeSource) Name(i int) string      { return s.nodes[i].Name }

func (s *fakeSource) Read(i int, into *Reading) {
	s.reads++
	n := s.nodes[i]
	for k, number := range s.constraints {
		bit := uint8(1) << number
		into.Counts[k] = n.counts&bit != 0
		into.Stands[k] = into.Counts[k] && n.stands&bit != 0
		for _, p := range n.pods {
			switch {
			case p.matches&bit == 0:
			case s.spec.Constraints[k].Groups && p.group != "":
				into.Groups[k] = append(into.Groups[k], p.group)
			default:
				into.Pods[k]++
			}
		}
	}
}

// left reports whether AllKeys leaves the node out.
func (s *fakeSource) left(n *fakeNode) bool {
	return s.spec.AllKeys && slices.ContainsFunc(s.spec.Constraints, func(c Constraint) bool {
		_, ok := n.Labels[c.Key]
		return !ok
	})
}

// truth is what Counts must say, found by looking at every pod.
type truth struct {
	Pods    map[string]int
	Domains int
	Min     int
}

// change of a dry run, by domain.
type moves map[string]int

func (s *fakeSource) truth(k int, moved moves, standing map[string]bool) truth {
	c, bit := s.spec.Constraints[k], uint8(1)<<s.constraints[k]
	out := truth{Pods: map[string]int{}}
	stands, groups := map[string]bool{}, map[[2]string]bool{}
	for _, n := range s.nodes {
		if s.left(n) || n.counts&bit == 0 {
			continue
		}
		domain := n.Labels[c.Key]
		if n.stands&bit != 0 {
			stands[domain] = true
		}
		for _, p := range n.pods {
			at := [2]string{domain, p.group}
			if p.matches&bit == 0 || c.Groups && p.group != "" && groups[at] {
				continue
			}
			groups[at] = true
			out.Pods[domain]++
		}
	}
	for domain, n := range moved {
		out.Pods[domain] += n
		if standing[domain] {
			stands[domain] = true
		}
	}
	out.Domains = len(stands)
	first := true
	for domain := range stands {
		if n := out.Pods[domain]; first || n < out.Min {
			out.Min, first = n, false
		}
	}
	return out
}

// domainNames are all values that keys of the test can have; the last is on no node.
var domainNames = []string{"", "a", "b", "c", "d", "e", "f", "g", "h", "none"}

func (s *fakeSource) told(pods func(string) int, domains, lowest int) truth {
	out := truth{Pods: map[string]int{}, Domains: domains, Min: lowest}
	for _, domain := range domainNames {
		if n := pods(domain); n != 0 {
			out.Pods[domain] = n
		}
	}
	return out
}

func (t truth) trimmed() truth {
	for domain, n := range t.Pods {
		if n == 0 {
			delete(t.Pods, domain)
		}
	}
	return t
}

// machine changes a cluster at random and compares what the cache says with a count by hand.
type machine struct {
	cache      *Cache
	nodes      []*fakeNode
	made       int
	generation int64
	specs      []*fakeSource
	// kept is what was handed out earlier, with what it said.
	kept []keptCounts
}

type keptCounts struct {
	counts *Counts
	said   truth
}

func (m *machine) next() int64 {
	m.generation++
	return m.generation
}

func drawPods(t *rapid.T) []fakePod {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fakePod {
		return fakePod{uint8(rapid.IntRange(0, 7).Draw(t, "matches")), rapid.SampledFrom([]string{"", "", "g1", "g2"}).Draw(t, "group")}
	}), 0, 5).Draw(t, "pods")
}

func drawLabels(t *rapid.T) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"rack", "zone"} {
		if rapid.IntRange(0, 5).Draw(t, "has "+key) > 0 {
			labels[key] = rapid.SampledFrom(domainNames[:len(domainNames)-1]).Draw(t, key)
		}
	}
	return labels
}

func (m *machine) redraw(t *rapid.T, n *fakeNode) *fakeNode {
	bits := rapid.Uint8Range(0, 7)
	return &fakeNode{Node: Node{Name: n.Name, Labels: drawLabels(t)}, generation: m.next(), pods: drawPods(t), counts: bits.Draw(t, "counts") | 1, stands: bits.Draw(t, "stands") | 2}
}

func (m *machine) add(t *rapid.T) {
	m.made++
	m.nodes = append(m.nodes, m.redraw(t, &fakeNode{Node: Node{Name: fmt.Sprintf("n%d", m.made)}}))
}

func (m *machine) pick(t *rapid.T) int {
	if len(m.nodes) == 0 {
		t.Skip("no nodes")
	}
	return rapid.IntRange(0, len(m.nodes)-1).Draw(t, "node")
}

func (m *machine) ask(t *rapid.T) {
	s := rapid.SampledFrom(m.specs).Draw(t, "set")
	s.nodes = m.nodes
	if rapid.IntRange(0, 4).Draw(t, "part") == 0 { // a list that is a part of the cluster
		s.nodes = slices.DeleteFunc(slices.Clone(m.nodes), func(*fakeNode) bool { return rapid.Bool().Draw(t, "off") })
	}
	key := fmt.Appendf(nil, "%v %v", s.constraints, s.spec)
	counts := m.cache.Counts(key, func() Spec { return s.spec }, s)
	for k, c := range counts {
		want := s.truth(k, nil, nil).trimmed()
		got := s.told(c.Pods, c.Domains(), c.Min())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("constraint %d of %s (-want +got):\n%s", k, key, diff)
		}
		m.kept = append(m.kept, keptCounts{c, got})
		m.try(t, s, k, c)
	}
	m.score(t, s, key)
}

// try has a dry run change some domains.
func (m *machine) try(t *rapid.T, s *fakeSource, k int, c *Counts) {
	trial, moved, standing := c.Try(), moves{}, map[string]bool{}
	parent := trial.Clone()
	for range rapid.IntRange(0, 6).Draw(t, "moves") {
		domain := rapid.SampledFrom(domainNames).Draw(t, "domain")
		n, stands := rapid.IntRange(-3, 3).Draw(t, "pods"), rapid.Bool().Draw(t, "stands")
		trial.Add(domain, n, stands)
		moved[domain] += n
		standing[domain] = standing[domain] || stands
		if diff := cmp.Diff(s.truth(k, moved, standing).trimmed(), s.told(trial.Pods, trial.Domains(), trial.Min())); diff != "" {
			t.Fatalf("dry run %v (-want +got):\n%s", moved, diff)
		}
		if rapid.Bool().Draw(t, "clone") {
			trial = trial.Clone()
		}
	}
	if parent.Min() != c.Min() || parent.Domains() != c.Domains() {
		t.Fatal("a dry run changed what it was cloned from")
	}
}

// score compares points with the formula applied to a count by hand.
func (m *machine) score(t *rapid.T, s *fakeSource, key []byte) {
	weights := make([]Weight, len(s.constraints))
	for k := range weights {
		weights[k] = Weight{MaxSkew: int32(rapid.IntRange(1, 3).Draw(t, "maxSkew")), PerNode: rapid.Bool().Draw(t, "perNode")}
	}
	chosen := &fakeSource{nodes: slices.DeleteFunc(slices.Clone(s.nodes), func(*fakeNode) bool { return rapid.IntRange(0, 3).Draw(t, "out") == 0 })}
	got := m.cache.Scores(key, func() Spec { return s.spec }, s, chosen, weights)
	with := slices.DeleteFunc(slices.Clone(chosen.nodes), s.left)
	for _, n := range m.nodes {
		points, ok := got.Of(n.Name)
		if ok != slices.Contains(with, n) {
			t.Fatalf("node %s has points: %t", n.Name, ok)
		}
		if want := s.points(n, with, weights); ok && points != want {
			t.Fatalf("node %s has %d points, want %d", n.Name, points, want)
		}
	}
}

func (s *fakeSource) points(n *fakeNode, candidates []*fakeNode, weights []Weight) int64 {
	sum := 0.0
	for k, c := range s.spec.Constraints {
		domain, has := n.Labels[c.Key]
		if !has {
			continue
		}
		different := map[string]bool{}
		for _, o := range candidates {
			different[o.Labels[c.Key]] = true
		}
		size, pods := len(different), s.truth(k, nil, nil).Pods[domain]
		if weights[k].PerNode {
			size, pods = len(candidates), 0
			for _, p := range n.pods {
				if p.matches&(1<<s.constraints[k]) != 0 && (!c.Groups || p.group == "") {
					pods++
				}
			}
		}
		sum += float64(pods)*math.Log(float64(size+2)) + float64(weights[k].MaxSkew-1)
	}
	return int64(math.Round(sum))
}

func newMachine(limit int) *machine {
	spec := func(all bool, numbers []int, constraints ...Constraint) *fakeSource {
		return &fakeSource{constraints: numbers, spec: Spec{Constraints: constraints, AllKeys: all}}
	}
	return &machine{cache: NewCache(limit), specs: []*fakeSource{
		spec(true, []int{0}, Constraint{Key: "rack"}),
		spec(true, []int{0, 1}, Constraint{Key: "rack"}, Constraint{Key: "zone"}),
		spec(false, []int{1, 2}, Constraint{Key: "rack"}, Constraint{Key: "zone"}),
		spec(true, []int{2, 0}, Constraint{Key: "zone", Groups: true}, Constraint{Key: "zone"}),
		spec(false, []int{0}, Constraint{Key: "zone", Groups: true}),
		spec(true, nil),
	}}
}

// TestCountsAreThoseOfABruteForce: after any changes the cache says what counting every pod says, and what it handed out
// before stays as it was.
func TestCountsAreThoseOfABruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(rapid.IntRange(1, 6).Draw(t, "limit"))
		for range rapid.IntRange(0, 12).Draw(t, "nodes") {
			m.add(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":    m.add,
			"ask":    m.ask,
			"remove": func(t *rapid.T) { i := m.pick(t); m.nodes = slices.Delete(m.nodes, i, i+1) },
			"change": func(t *rapid.T) { i := m.pick(t); m.nodes[i] = m.redraw(t, m.nodes[i]) },
			"pods": func(t *rapid.T) {
				i := m.pick(t)
				n := *m.nodes[i]
				n.pods, n.generation = drawPods(t), m.next()
				m.nodes[i] = &n
			},
			"order": func(t *rapid.T) { m.nodes = rapid.Permutation(m.nodes).Draw(t, "order") },
			"": func(t *rapid.T) {
				for _, k := range m.kept {
					if diff := cmp.Diff(k.said, (&fakeSource{}).told(k.counts.Pods, k.counts.Domains(), k.counts.Min())); diff != "" {
						t.Fatalf("counts changed after they were handed out:\n%s", diff)
					}
				}
				m.kept = m.kept[max(0, len(m.kept)-8):]
			},
		})
	})
}
