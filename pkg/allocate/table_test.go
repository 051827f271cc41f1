package allocate

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// shapeOf is the shape of a node of n cards joined by NVLinks of various widths.
func shapeOf(t *testing.T, n int) *topology.Shape {
	t.Helper()
	spec := topology.Spec{Cards: make([]topology.Card, n), Links: make([][]topology.Link, n), NICs: []topology.NIC{{Links: make([]topology.LinkType, n)}}}
	for i := range n {
		spec.Cards[i] = topology.Card{NUMA: i % 2, Healthy: true}
		spec.NICs[0].Links[i] = topology.LinkPHB + topology.LinkType(i%3)
		spec.Links[i] = make([]topology.Link, n)
		for j := range n {
			if i != j {
				spec.Links[i][j] = topology.Link{Type: topology.LinkNVLink, NVLinks: uint8(1 + (i+j)%4)}
			}
		}
	}
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return node.Shape()
}

// TestSparseAnswersAreKeptApart asks every question about a shape of 9 cards, whose answers share the slots, twice over:
// each answer is that of a search. An answer to another question in the slot is not taken.
func TestSparseAnswersAreKeptApart(t *testing.T) {
	t.Parallel()
	const n = denseCards + 1
	kept := NewChooser().table(shapeOf(t, n))
	check := func(free topology.GPUSet, k, policy int) {
		numa, nic := NUMAPolicy(policy/3), NICPolicy(policy%3)
		set, ok := kept.best(free, k, numa, nic)
		want, wantOK := kept.search(&query{free: free, pool: free, n: k, numa: numa, nic: nic})
		if set != want || ok != wantOK {
			t.Fatalf("%d of %v, NUMA %d, NIC %d: %v %v, a search finds %v %v", k, free, numa, nic, set, ok, want, wantOK)
		}
	}
	for free := range topology.GPUSet(1) << n {
		for question := range 2 * n * policies {
			check(free, 1+question%n, question/n%policies)
		}
	}
	const free, k, policy = topology.GPUSet(0b111), 2, 4
	for _, other := range []answer{{free: 0b1111, n: k, policy: policy}, {free: free, n: 1, policy: policy}, {free: free, n: k, policy: 5}} {
		for i := range kept.sparse {
			kept.sparse[i].Store(&other)
		}
		check(free, k, policy)
	}
}

// TestTableBytes keeps the figures of cacheBytes' comment true, and tableBytes above what tables really take.
func TestTableBytes(t *testing.T) {
	for n, want := range map[int]int64{8: 79, 16: 724, 64: 116} {
		if got := (tableBytes(n) + 1023) / 1024; got != want {
			t.Errorf("a shape of %d cards takes %d KiB, the comment says %d", n, got, want)
		}
	}
	for _, n := range []int{8, 11, 20} {
		const tables = 8
		shape := shapeOf(t, n)
		var kept [tables]*table
		before := heap()
		for i := range kept {
			kept[i] = &table{shape: shape}
			kept[i].build()
			askMuch(kept[i])
		}
		grown := heap() - before
		if limit := tables * tableBytes(n); grown > limit {
			t.Errorf("%d tables of %d cards take %d bytes, more than %d", tables, n, grown, limit)
		}
		runtime.KeepAlive(kept)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// askMuch asks enough to fill what a table keeps: everything about the first 8 cards.
func askMuch(t *table) {
	for free := range topology.GPUSet(1) << 8 {
		for k := 1; k <= 8; k++ {
			for policy := range policies {
				t.best(free, k, NUMAPolicy(policy/3), NICPolicy(policy%3))
			}
		}
	}
}

// TestCacheIsBounded meets more shapes than are kept: the oldest go, and what is kept is accounted for.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := NewChooser()
	shapes := map[int]*topology.Shape{8: shapeOf(t, 8), 16: shapeOf(t, 16), 64: shapeOf(t, 64)}
	var keys [][32]byte
	for i := range 2000 {
		var key [32]byte
		binary.BigEndian.PutUint64(key[:], uint64(i))
		keys = append(keys, key)
		added := c.add(key, shapes[[]int{8, 16, 8, 64}[i%4]])
		if c.add(key, nil) != added {
			t.Fatal("a shape that is known was added again")
		}
		tables := *c.tables.Load()
		var bytes int64
		for _, known := range tables {
			bytes += tableBytes(known.shape.Len())
		}
		if bytes > cacheBytes || bytes != c.bytes || len(tables) != len(c.ages) || tables[key] != added {
			t.Fatalf("after %d shapes: %d tables of %d bytes, counted %d tables of %d bytes", i+1, len(tables), bytes, len(c.ages), c.bytes)
		}
	}
	kept := *c.tables.Load()
	for i, key := range keys {
		if _, ok := kept[key]; ok != (i >= len(keys)-len(kept)) {
			t.Fatalf("%d of %d shapes are kept, number %d: %v", len(kept), len(keys), i, ok)
		}
	}
	if len(kept) < 100 {
		t.Errorf("only %d shapes are kept", len(kept))
	}
}
