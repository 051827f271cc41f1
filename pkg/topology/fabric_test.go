package topology

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// simpleLevels is a vocabulary whose keys are the names of the levels.
func simpleLevels() []LevelKeys {
	var out []LevelKeys
	for l := LevelNVLink; l < LevelCluster; l++ {
		out = append(out, LevelKeys{Level: l, Keys: wholeValues(l.String())})
	}
	return out
}

// simpleLabels reads "leaf=a spine=b".
func simpleLabels(s string) labels {
	out := labels{}
	for _, f := range strings.Fields(s) {
		k, v, _ := strings.Cut(f, "=")
		out[k] = v
	}
	return out
}

// build makes a fabric of lines "node leaf=a spine=b".
func build(levels []LevelKeys, lines ...string) *Fabric {
	b := NewFabricBuilder(levels)
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		b.SetNode(name, simpleLabels(rest))
	}
	return b.Fabric()
}

// draw prints the domains of a fabric by level, from wide to narrow: "leaf-1{a b} ?leaf-2{c}", with "?" for unknown.
func draw(f *Fabric) []string {
	var out []string
	for l := LevelCluster; l > LevelHost; l-- {
		line := l.String() + ":"
		for _, d := range f.Domains(l) {
			line += " " + drawDomain(f, d)
		}
		if !f.Known(l) {
			line += " (transparent)"
		}
		out = append(out, line)
	}
	return out
}

func drawDomain(f *Fabric, d Domain) string {
	var nodes []string
	for pos := d.First; pos < d.End; pos++ {
		nodes = append(nodes, f.Name(pos))
	}
	mark := ""
	if d.Unknown {
		mark = "?"
	}
	return fmt.Sprintf("%s%s{%s}", mark, d.Name, strings.Join(nodes, " "))
}

func problems(f *Fabric) []string {
	var out []string
	for _, p := range f.Problems() {
		out = append(out, p.String())
	}
	return out
}

func TestFabric(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes        []string
		want         []string // wide to narrow, without the levels that no node has a label of
		wantProblems []string
	}{
		"empty": {},
		"flat":  {nodes: []string{"b", "a"}},
		"whole tree": {
			nodes: []string{
				"n4 leaf=l2 spine=s2 zone=z1", "n1 leaf=l1 spine=s1 zone=z1", "n3 leaf=l3 spine=s1 zone=z1",
				"n2 leaf=l1 spine=s1 zone=z1", "n5 leaf=l4 spine=s3 zone=z2",
			},
			want: []string{
				"zone: z1{n1 n2 n3 n4} z2{n5}", "spine: s1{n1 n2 n3} s2{n4} s3{n5}", "leaf: l1{n1 n2} l3{n3} l2{n4} l4{n5}",
			},
		},
		"a node without a leaf is alone": {
			nodes: []string{"n1 leaf=l1", "n2", "n3", "n4 leaf=l1"},
			want:  []string{"leaf: l1{n1 n4} ?unknown(host n2){n2} ?unknown(host n3){n3}"},
		},
		"a node without a leaf is in its spine": {
			nodes: []string{"n1 leaf=l1 spine=s1", "n2 spine=s1"},
			want:  []string{"spine: s1{n1 n2}", "leaf: l1{n1} ?unknown(host n2){n2}"},
		},
		"a leaf without a spine is an unknown spine": {
			nodes: []string{"n1 leaf=l1", "n2 leaf=l1", "n3 leaf=l2 spine=s1", "n4 leaf=l3 spine=s1"},
			want: []string{
				"spine: ?unknown(leaf l1){n1 n2} s1{n3 n4}", "leaf: l1{n1 n2} l2{n3} l3{n4}",
			},
		},
		"NVLink domains without a leaf": {
			nodes: []string{"n1 nvlink=c1 spine=s1", "n2 nvlink=c1 spine=s1", "n3 nvlink=c2 spine=s1", "n4 leaf=l1 spine=s1"},
			want: []string{
				"spine: s1{n1 n2 n3 n4}", "leaf: ?unknown(nvlink c1){n1 n2} ?unknown(nvlink c2){n3} l1{n4}",
				"nvlink: c1{n1 n2} c2{n3} ?unknown(host n4){n4}",
			},
		},
		"one name at two levels": {
			nodes: []string{"x leaf=x", "y leaf=x", "z spine=x"},
			want: []string{
				"spine: ?unknown(leaf x){x y} x{z}", "leaf: x{x y} ?unknown(host z){z}",
			},
		},
		"a leaf under two spines": {
			nodes: []string{"n1 leaf=l1 spine=s1", "n2 leaf=l1 spine=s2", "n3 leaf=l1 spine=s1", "n4 leaf=l2 spine=s2"},
			want: []string{
				"spine: s1{n1 n3} s2{n2 n4}", "leaf: s1/l1{n1 n3} s2/l1{n2} l2{n4}",
			},
			wantProblems: []string{"leaf l1 stands under spine s1, spine s2, and is split into one leaf for each"},
		},
		"a leaf of which one node lacks the spine": {
			nodes: []string{"n1 leaf=l1 spine=s1", "n2 leaf=l1", "n3 leaf=l1 spine=s1"},
			want: []string{
				"spine: ?unknown(leaf l1){n2} s1{n1 n3}", "leaf: l1{n2} s1/l1{n1 n3}",
			},
			wantProblems: []string{"leaf l1 stands under no wider domain, spine s1, and is split into one leaf for each"},
		},
		"a spine under two zones splits its leaves, and is one problem": {
			nodes: []string{"n1 leaf=l1 spine=s1 zone=z1", "n2 leaf=l1 spine=s1 zone=z2"},
			want: []string{
				"zone: z1{n1} z2{n2}", "spine: z1/s1{n1} z2/s1{n2}", "leaf: z1/s1/l1{n1} z2/s1/l1{n2}",
			},
			wantProblems: []string{"spine s1 stands under zone z1, zone z2, and is split into one spine for each"},
		},
		"a leaf under two spines, one of them under two zones": {
			nodes: []string{"n1 leaf=l spine=s1 zone=z1", "n2 leaf=l spine=s2 zone=z1", "n3 leaf=l spine=s1 zone=z2"},
			want: []string{
				"zone: z1{n1 n2} z2{n3}", "spine: z1/s1{n1} s2{n2} z2/s1{n3}", "leaf: z1/s1/l{n1} s2/l{n2} z2/s1/l{n3}",
			},
			wantProblems: []string{
				"spine s1 stands under zone z1, zone z2, and is split into one spine for each",
				"leaf l stands under spine s1, spine s2, and is split into one leaf for each",
			},
		},
		"racks numbered anew in each zone": {
			nodes: []string{"n1 leaf=1 zone=a", "n2 leaf=1 zone=b", "n3 leaf=2 zone=b"},
			want: []string{
				"zone: a{n1} b{n2 n3}", "leaf: a/1{n1} b/1{n2} 2{n3}",
			},
			wantProblems: []string{"leaf 1 stands under zone a, zone b, and is split into one leaf for each"},
		},
		"wider domains of one name": {
			nodes: []string{"n1 leaf=l spine=1 zone=1", "n2 leaf=l zone=1", "n3 leaf=l"},
			want: []string{
				"zone: 1{n1 n2} ?unknown(leaf l){n3}",
				"spine: 1{n1} ?unknown(leaf zone 1/l){n2} ?unknown(leaf l){n3}",
				"leaf: spine 1/l{n1} zone 1/l{n2} l{n3}",
			},
			wantProblems: []string{"leaf l stands under spine 1, zone 1, no wider domain, and is split into one leaf for each"},
		},
		"many spines": {
			nodes: []string{"n1 leaf=l spine=1", "n2 leaf=l spine=2", "n3 leaf=l spine=3", "n4 leaf=l spine=4", "n5 leaf=l spine=5"},
			want: []string{
				"spine: 1{n1} 2{n2} 3{n3} 4{n4} 5{n5}", "leaf: 1/l{n1} 2/l{n2} 3/l{n3} 4/l{n4} 5/l{n5}",
			},
			wantProblems: []string{
				"leaf l stands under spine 1, spine 2, spine 3, spine 4 and 1 more, and is split into one leaf for each",
			},
		},
		"a value that no label has": {
			nodes: []string{"n1 leaf=a/b", "n2 leaf=l1", "n3 leaf=l1 spine=(s) zone=a:b"},
			want:  []string{"leaf: l1{n2 n3} ?unknown(host n1){n1}"},
			wantProblems: []string{
				`node n3: label spine has "(s)", which is no label value, and counts as missing at level spine`,
				`node n1: label leaf has "a/b", which is no label value, and counts as missing at level leaf`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := build(simpleLevels(), tc.nodes...)
			var got []string
			for _, line := range draw(f)[1:] {
				if !strings.HasSuffix(line, "(transparent)") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("domains (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantProblems, problems(f)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTransparent checks levels that no node has a label of: they are as narrow as the next narrower level.
func TestTransparent(t *testing.T) {
	got := draw(build(simpleLevels(), "n1 leaf=l1", "n2 leaf=l1", "n3"))
	want := []string{
		"cluster: cluster{n1 n2 n3}",
		"region: ?unknown(leaf l1){n1 n2} ?unknown(host n3){n3} (transparent)",
		"zone: ?unknown(leaf l1){n1 n2} ?unknown(host n3){n3} (transparent)",
		"core: ?unknown(leaf l1){n1 n2} ?unknown(host n3){n3} (transparent)",
		"spine: ?unknown(leaf l1){n1 n2} ?unknown(host n3){n3} (transparent)",
		"leaf: l1{n1 n2} ?unknown(host n3){n3}",
		"nvlink: ?unknown(host n1){n1} ?unknown(host n2){n2} ?unknown(host n3){n3} (transparent)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("domains (-want +got):\n%s", diff)
	}
}

// TestOutside checks the answers about positions, levels and names that do not exist.
func TestOutside(t *testing.T) {
	for name, f := range map[string]*Fabric{
		"one node": build(simpleLevels(), "n1 leaf=l1"), "empty": build(simpleLevels()), "zero": {},
	} {
		for l := LevelHost; l <= LevelCluster+1; l++ {
			for _, pos := range []int{-1, 1, 1 << 40} {
				if d, i := f.Domain(l, pos), f.Index(l, pos); d != (Domain{}) || i != -1 {
					t.Errorf("%s: level %v, position %d: got %+v, index %d", name, l, pos, d, i)
				}
			}
		}
		if f.Known(LevelCluster+1) || f.Domains(LevelCluster+1) != nil || f.Domain(LevelCluster+1, 0) != (Domain{}) {
			t.Errorf("%s: a level above the cluster", name)
		}
		if f.Name(-1) != "" || f.Name(1) != "" {
			t.Errorf("%s: a name outside the positions", name)
		}
		if _, ok := f.Position("n2"); ok {
			t.Errorf("%s: a position for a node that is not there", name)
		}
	}
	d := Domain{First: 2, End: 4}
	if d.Len() != 2 || d.Contains(1) || !d.Contains(2) || !d.Contains(3) || d.Contains(4) {
		t.Errorf("%+v has %d nodes", d, d.Len())
	}
}

func TestLevelOf(t *testing.T) {
	const (
		layer1, layer3 = "topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-3"
		group, rack    = "backend.coreweave.cloud/leafgroup", "node.coreweave.cloud/rack"
		eks3           = layer1 + "=a topology.k8s.aws/network-node-layer-2=b " + layer3 + "=c"
		eks4           = eks3 + " topology.k8s.aws/network-node-layer-4=d"
		both           = group + "=12 " + rack + "=238"
	)
	for name, tc := range map[string]struct {
		nodes []string
		in    string
		want  Level
		no    bool
	}{
		"level":                               {in: "spine", want: LevelSpine},
		"rack":                                {in: "rack", want: LevelLeaf},
		"host key":                            {in: "kubernetes.io/hostname", want: LevelHost},
		"zone key":                            {in: "topology.kubernetes.io/zone", want: LevelZone},
		"key of no vocabulary":                {in: "example.com/rack", no: true},
		"nothing":                             {in: "", no: true},
		"key of two levels, no node":          {in: layer3, want: LevelLeaf},
		"key of two levels, three layers":     {nodes: []string{"n " + eks3}, in: layer3, want: LevelLeaf},
		"key of two levels, four layers":      {nodes: []string{"n " + eks4}, in: layer3, want: LevelSpine},
		"key of two levels, both":             {nodes: []string{"n " + eks4, "m " + eks3}, in: layer3, want: LevelLeaf},
		"layer above the core":                {nodes: []string{"n " + eks4}, in: layer1, no: true},
		"core layer":                          {nodes: []string{"n " + eks3}, in: layer1, want: LevelCore},
		"stands back with another value":      {nodes: []string{"n " + both}, in: rack, no: true},
		"stands back on one node":             {nodes: []string{"n " + both, "m " + rack + "=1"}, in: rack, no: true},
		"stands back with the same value":     {nodes: []string{"n fabric.topograph.run/tier-0=s1 network.topology.nvidia.com/leaf=s1"}, in: "network.topology.nvidia.com/leaf", want: LevelLeaf},
		"stands back nowhere":                 {nodes: []string{"n " + rack + "=238"}, in: rack, want: LevelLeaf},
		"better key of a key that gives way":  {nodes: []string{"n " + both}, in: group, want: LevelLeaf},
		"level by name, whatever the keys do": {nodes: []string{"n " + both}, in: "leaf", want: LevelLeaf},
	} {
		got, ok := build(nil, tc.nodes...).LevelOf(tc.in)
		if ok == tc.no || ok && got != tc.want {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, ok, tc.want, !tc.no)
		}
	}
}

func TestBuilderChanges(t *testing.T) {
	b := NewFabricBuilder(nil)
	check := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: changed is %v, want %v", what, got, want)
		}
	}
	check("new node", b.SetNode("n1", labels{keyTier0: "l1", "other": "1"}), true)
	first := b.Fabric()
	check("label outside the vocabulary", b.SetNode("n1", labels{keyTier0: "l1", "other": "2", keyHostname: "n1"}), false)
	if b.Fabric() != first {
		t.Error("nothing changed, and the fabric is another one")
	}
	check("another leaf", b.SetNode("n1", labels{keyTier0: "l2"}), true)
	second := b.Fabric()
	if second == first || first.Domain(LevelLeaf, 0).Name != "l1" || second.Domain(LevelLeaf, 0).Name != "l2" {
		t.Errorf("leaf was %+v, is %+v", first.Domain(LevelLeaf, 0), second.Domain(LevelLeaf, 0))
	}
	check("a key that gives way", b.SetNode("n1", labels{keyTier0: "l2", keyOldLeaf: "l3"}), true)
	check("remove", b.RemoveNode("n1"), true)
	check("remove again", b.RemoveNode("n1"), false)
	check("add again", b.SetNode("n1", labels{keyTier0: "l2"}), true)
	check("remove before the fabric was asked for", b.RemoveNode("n1"), true)
	check("add once more", b.SetNode("n1", nil), true)
	if f := b.Fabric(); f.Len() != 1 || f.Known(LevelLeaf) {
		t.Errorf("%d nodes, leaf known: %v", f.Len(), f.Known(LevelLeaf))
	}
}
