package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// genLabels draws labels of few values, so that domains are shared, missing, split and repeated across levels.
func genLabels(t *rapid.T) labels {
	out := labels{}
	for l := LevelNVLink; l < LevelCluster; l++ {
		if v := rapid.SampledFrom([]string{"", "", "a", "b", "c", "no/value"}).Draw(t, l.String()); v != "" {
			out[l.String()] = v
		}
	}
	return out
}

// genNodes draws up to 12 nodes with their labels.
func genNodes(t *rapid.T) map[string]labels {
	out := make(map[string]labels)
	for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
		out[fmt.Sprintf("n%d", i)] = genLabels(t)
	}
	return out
}

// fromScratch builds the fabric of nodes in the order of their names.
func fromScratch(nodes map[string]labels) *Fabric {
	b := NewFabricBuilder(simpleLevels())
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		b.SetNode(name, nodes[name])
	}
	return b.Fabric()
}

// everything is all that a fabric tells, for comparison.
type everything struct {
	Names    []string
	Domains  [][]Domain
	Index    [][]int
	Known    []bool
	Levels   map[string]Level
	Problems []FabricProblem
}

func tell(f *Fabric) everything {
	e := everything{Levels: map[string]Level{}, Problems: f.Problems()}
	for pos := range f.Len() {
		e.Names = append(e.Names, f.Name(pos))
	}
	for l := LevelHost; l <= LevelCluster; l++ {
		var index []int
		for pos := range f.Len() {
			index = append(index, f.Index(l, pos))
		}
		e.Domains, e.Index, e.Known = append(e.Domains, f.Domains(l)), append(e.Index, index), append(e.Known, f.Known(l))
		if got, ok := f.LevelOf(l.String()); ok {
			e.Levels[l.String()] = got
		}
	}
	return e
}

// TestFabricIncremental makes arbitrary changes, asks for the fabric now and then, and compares it with one that is
// built in one go: neither the order of the calls nor what was asked before leaves a trace. SetNode says exactly when
// the fabric changes.
func TestFabricIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewFabricBuilder(simpleLevels())
		nodes := make(map[string]labels)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			name := fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "node"))
			_, had := nodes[name]
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				delete(nodes, name)
				if got := b.RemoveNode(name); got != had {
					t.Fatalf("remove %s: got %v, want %v", name, got, had)
				}
			case 1:
				if diff := cmp.Diff(tell(fromScratch(nodes)), tell(b.Fabric())); diff != "" {
					t.Fatalf("incremental (-scratch +incremental):\n%s", diff)
				}
			default:
				before := tell(fromScratch(nodes))
				nodes[name] = genLabels(t)
				want := !cmp.Equal(before, tell(fromScratch(nodes)))
				if got := b.SetNode(name, nodes[name]); got != want {
					t.Fatalf("%s to %v: changed is %v, want %v", name, nodes[name], got, want)
				}
			}
		}
		if diff := cmp.Diff(tell(fromScratch(nodes)), tell(b.Fabric())); diff != "" {
			t.Fatalf("incremental (-scratch +incremental):\n%s", diff)
		}
	})
}

// label returns the value that a node has at a level, "" if it has none that counts.
func label(nodes map[string]labels, name string, l Level) string {
	if v := nodes[name][l.String()]; isLabelValue(v) {
		return v
	}
	return ""
}

// checkFabric checks what every fabric of these nodes must be.
func checkFabric(f *Fabric, nodes map[string]labels) error {
	if f.Len() != len(nodes) {
		return fmt.Errorf("%d positions, want %d", f.Len(), len(nodes))
	}
	for pos := range f.Len() {
		if back, ok := f.Position(f.Name(pos)); !ok || back != pos || nodes[f.Name(pos)] == nil {
			return fmt.Errorf("position %d is %q, which has position %d, %v", pos, f.Name(pos), back, ok)
		}
	}
	for l := LevelHost; l <= LevelCluster; l++ {
		if err := checkRanges(f, l); err != nil {
			return fmt.Errorf("level %v: %w", l, err)
		}
		if err := checkNesting(f, l, nodes); err != nil {
			return fmt.Errorf("level %v: %w", l, err)
		}
	}
	return nil
}

// checkRanges checks that the domains of a level are ranges that hold every position once, with names of their own.
func checkRanges(f *Fabric, l Level) error {
	end := 0
	seen := make(map[string]bool)
	for i, d := range f.Domains(l) {
		if d.Level != l || d.First != end || d.End <= d.First || d.Name == "" || seen[d.Name] {
			return fmt.Errorf("domain %d is %+v after position %d; its name stands twice: %v", i, d, end, seen[d.Name])
		}
		seen[d.Name] = true
		for pos := d.First; pos < d.End; pos++ {
			if f.Index(l, pos) != i || f.Domain(l, pos) != d {
				return fmt.Errorf("position %d has domain %d, want %d", pos, f.Index(l, pos), i)
			}
		}
		end = d.End
	}
	if end != f.Len() {
		return fmt.Errorf("the domains end at %d of %d", end, f.Len())
	}
	return nil
}

// checkNesting checks each domain against its labels, the next narrower level and the next wider one.
func checkNesting(f *Fabric, l Level, nodes map[string]labels) error {
	known := l == LevelHost || l == LevelCluster
	for _, d := range f.Domains(l) {
		if l < LevelCluster {
			if w := f.Domain(l+1, d.First); w.First > d.First || w.End < d.End {
				return fmt.Errorf("%+v is not inside %+v", d, w)
			}
		}
		if l == LevelHost || l == LevelCluster {
			if d.Unknown || l == LevelHost && d.Len() != 1 {
				return fmt.Errorf("%+v", d)
			}
			continue
		}
		value := label(nodes, f.Name(d.First), l)
		known = known || value != ""
		if d.Unknown != (value == "") {
			return fmt.Errorf("%+v has label %q", d, value)
		}
		if in := f.Domain(l-1, d.First); d.Unknown && (in.First != d.First || in.End != d.End) {
			return fmt.Errorf("%+v is unknown, and wider than %+v", d, in)
		}
		for pos := d.First; pos < d.End; pos++ {
			if v := label(nodes, f.Name(pos), l); v != value {
				return fmt.Errorf("%+v holds labels %q and %q", d, value, v)
			}
		}
	}
	if f.Known(l) != (known && (f.Len() > 0 || l == LevelHost || l == LevelCluster)) {
		return fmt.Errorf("known is %v", f.Known(l))
	}
	return nil
}

// place describes by its own rule where a node stands at a level: its label there, or else its place one level
// narrower; and so at each wider level.
func place(nodes map[string]labels, name string, l Level) string {
	at := func(l Level) string {
		for ; l > LevelHost; l-- {
			if v := label(nodes, name, l); v != "" {
				return l.String() + " " + v
			}
		}
		return "host " + name
	}
	var out []string
	for ; l < LevelCluster; l++ {
		out = append(out, at(l))
	}
	return strings.Join(out, "; ")
}

// wantProblems finds the values that stand under different labels of the next wider level that has one.
func wantProblems(nodes map[string]labels) map[string]bool {
	parents := make(map[string]map[string]bool)
	for name := range nodes {
		for l := LevelNVLink; l < LevelCluster; l++ {
			v := label(nodes, name, l)
			if v == "" {
				continue
			}
			parent := "none"
			for w := LevelCluster - 1; w > l; w-- {
				if p := label(nodes, name, w); p != "" {
					parent = w.String() + " " + p
				}
			}
			key := l.String() + " " + v
			if parents[key] == nil {
				parents[key] = make(map[string]bool)
			}
			parents[key][parent] = true
		}
	}
	out := make(map[string]bool)
	for key, p := range parents {
		if len(p) > 1 {
			out[key] = true
		}
	}
	return out
}

func TestFabricProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := genNodes(t)
		f := fromScratch(nodes)
		if err := checkFabric(f, nodes); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(draw(f), "\n"))
		}
		for a := range f.Len() {
			for b := range f.Len() {
				for l := LevelHost; l < LevelCluster; l++ {
					got := f.Index(l, a) == f.Index(l, b)
					if want := place(nodes, f.Name(a), l) == place(nodes, f.Name(b), l); got != want {
						t.Fatalf("%s and %s share a domain of level %v: %v, want %v\n%s",
							f.Name(a), f.Name(b), l, got, want, strings.Join(draw(f), "\n"))
					}
				}
			}
		}
		got := make(map[string]bool)
		for _, p := range f.Problems() {
			if p.Key != "" {
				continue
			}
			key := p.Level.String() + " " + p.Name
			if got[key] || len(p.Parents) < 2 {
				t.Fatalf("problem %v: told before: %v", p, got[key])
			}
			got[key] = true
		}
		if diff := cmp.Diff(wantProblems(nodes), got); diff != "" {
			t.Fatalf("problems (-want +got):\n%s", diff)
		}
	})
}

// TestFabricRename gives nodes and domains other names: who shares a domain with whom stays the same.
func TestFabricRename(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := genNodes(t)
		prefix := rapid.SampledFrom([]string{"z", "-", "A"}).Draw(t, "prefix")
		names := rapid.Permutation([]string{"a", "b", "c"}).Draw(t, "names")
		rename := map[string]string{"a": names[0], "b": names[1], "c": names[2]}
		renamed := make(map[string]labels)
		for name, ls := range nodes {
			other := labels{}
			for k, v := range ls {
				other[k] = rename[v]
			}
			renamed[prefix+name] = other
		}
		f, g := fromScratch(nodes), fromScratch(renamed)
		for a := range nodes {
			for b := range nodes {
				for l := LevelHost; l < LevelCluster; l++ {
					if got, want := together(g, l, prefix+a, prefix+b), together(f, l, a, b); got != want {
						t.Fatalf("%s and %s at level %v: together %v, want %v", a, b, l, got, want)
					}
				}
			}
		}
	})
}

func together(f *Fabric, l Level, a, b string) bool {
	pa, okA := f.Position(a)
	pb, okB := f.Position(b)
	return okA && okB && f.Index(l, pa) == f.Index(l, pb)
}

// FuzzFabric puts arbitrary values under the keys of a vocabulary, and arbitrary names on nodes.
func FuzzFabric(f *testing.F) {
	f.Add("n1", "n2", "n3", "l1", "l1", "l2", "s1", "s2", "")
	f.Add("", "x", "unknown(host x)", "x", "unknown(host x)", "x", "x/x", "x", "leaf x")
	f.Add("a", "a", "a", nilUUID+".0", "\xff", ".", "..", "-", "\x00")
	f.Fuzz(func(t *testing.T, n1, n2, n3, l1, l2, l3, s1, s2, s3 string) {
		levels := []LevelKeys{
			{Level: LevelNVLink, Keys: []LabelKey{{Key: "leaf", Prefix: "."}}},
			{Level: LevelLeaf, Keys: wholeValues("leaf")},
			{Level: LevelSpine, Keys: wholeValues("leaf", "spine")},
		}
		if err := ValidateLevels(levels); err != nil {
			t.Fatal(err)
		}
		nodes := map[string]labels{n1: {"leaf": l1, "spine": s1}, n2: {"leaf": l2, "spine": s2}, n3: {"leaf": l3, "spine": s3}}
		b := NewFabricBuilder(levels)
		for name, ls := range nodes {
			b.SetNode(name, ls)
		}
		fabric := b.Fabric()
		if fabric.Len() != len(nodes) {
			t.Fatalf("%d positions for %d nodes", fabric.Len(), len(nodes))
		}
		for l := LevelNVLink; l <= LevelCluster; l++ {
			if err := checkRanges(fabric, l); err != nil {
				t.Fatalf("level %v: %v", l, err)
			}
		}
		for name, ls := range nodes {
			pos, _ := fabric.Position(name)
			for _, k := range []struct {
				level Level
				key   string
			}{{LevelLeaf, "leaf"}, {LevelSpine, "spine"}} {
				v, d := ls[k.key], fabric.Domain(k.level, pos)
				if want := v == "" || !isLabelValue(v) || strings.HasPrefix(v, nilUUID); d.Unknown != want {
					t.Errorf("%q: label %s=%q, domain %+v", name, k.key, v, d)
				}
			}
		}
		for _, p := range fabric.Problems() {
			if len(p.String()) > 2000 {
				t.Errorf("a problem of %d bytes", len(p.String()))
			}
		}
	})
}
