package topology

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchNodes are nodes of a fabric with 16 nodes a leaf, 8 leaves a spine and 8 spines a zone, in an order of no
// meaning. Each node has 30 other labels, as nodes of a cloud do.
func benchNodes(n int) (names []string, nodes []labels) {
	for i := range n {
		ls := labels{
			keyHostname: fmt.Sprintf("node-%05d", i),
			keyTier0:    fmt.Sprintf("leaf-%04d", i/16),
			keyTier1:    fmt.Sprintf("spine-%03d", i/128),
			keyZone:     fmt.Sprintf("zone-%d", i/1024),
			keyRegion:   "region-1",
		}
		for j := range 30 {
			ls[fmt.Sprintf("example.com/label-%d", j)] = "value"
		}
		names, nodes = append(names, ls[keyHostname]), append(nodes, ls)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) {
		names[i], names[j] = names[j], names[i]
		nodes[i], nodes[j] = nodes[j], nodes[i]
	})
	return names, nodes
}

// BenchmarkFabricFirst builds the fabric of 10,000 nodes from their labels.
func BenchmarkFabricFirst(b *testing.B) {
	names, nodes := benchNodes(10_000)
	b.ReportAllocs()
	for b.Loop() {
		fb := NewFabricBuilder(nil)
		for i, name := range names {
			fb.SetNode(name, nodes[i])
		}
		if fb.Fabric().Len() != len(names) {
			b.Fatal("nodes are missing")
		}
	}
}

// BenchmarkFabricSort is the last step of that alone: the tree of 10,000 nodes whose labels are read.
func BenchmarkFabricSort(b *testing.B) {
	names, nodes := benchNodes(10_000)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		fb := NewFabricBuilder(nil)
		for i, name := range names {
			fb.SetNode(name, nodes[i])
		}
		b.StartTimer()
		if fb.Fabric().Len() != len(names) {
			b.Fatal("nodes are missing")
		}
	}
}

// BenchmarkFabricRebuild moves one node of 10,000 to another leaf.
func BenchmarkFabricRebuild(b *testing.B) {
	names, nodes := benchNodes(10_000)
	fb := NewFabricBuilder(nil)
	for i, name := range names {
		fb.SetNode(name, nodes[i])
	}
	fb.Fabric()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		nodes[0][keyTier0] = fmt.Sprintf("leaf-%04d", i%2)
		if !fb.SetNode(names[0], nodes[0]) {
			b.Fatal("the node did not move")
		}
		fb.Fabric()
	}
}

// BenchmarkFabricRebuildFlat is the same for nodes without labels of the fabric: every node is a domain of all levels.
func BenchmarkFabricRebuildFlat(b *testing.B) {
	names, _ := benchNodes(10_000)
	fb := NewFabricBuilder(nil)
	for _, name := range names {
		fb.SetNode(name, nil)
	}
	fb.Fabric()
	b.ReportAllocs()
	for b.Loop() {
		fb.RemoveNode(names[0])
		fb.SetNode(names[0], nil)
		fb.Fabric()
	}
}

// BenchmarkSetNodeUnchanged is an update of a node that leaves its labels as they were.
func BenchmarkSetNodeUnchanged(b *testing.B) {
	names, nodes := benchNodes(1000)
	fb := NewFabricBuilder(nil)
	fb.SetNode(names[0], nodes[0])
	b.ReportAllocs()
	for b.Loop() {
		if fb.SetNode(names[0], nodes[0]) {
			b.Fatal("nothing changed")
		}
	}
}

// BenchmarkFabricRead looks up the domains of one node at all levels.
func BenchmarkFabricRead(b *testing.B) {
	names, nodes := benchNodes(10_000)
	fb := NewFabricBuilder(nil)
	for i, name := range names {
		fb.SetNode(name, nodes[i])
	}
	f := fb.Fabric()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for l := LevelHost; l <= LevelCluster; l++ {
			if f.Domain(l, i%f.Len()).Len() == 0 {
				b.Fatal("no domain")
			}
		}
	}
}
