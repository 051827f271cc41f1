package allocate_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestConcurrentUse asks one Chooser from many goroutines and compares with answers of Choosers of their own.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	type question struct {
		v *allocate.View
		r *allocate.Request
	}
	rng := rand.New(rand.NewPCG(1, 1))
	nodes := []*topology.Node{n8s(t), n8p(t), flat(t, 4, gib), islands(t, 12, 4), islands(t, 20, 4)}
	questions := make([]question, 60)
	want := make([]allocate.Choice, len(questions))
	for i := range questions {
		n := nodes[rng.IntN(len(nodes))]
		q := question{viewOf(n, topology.GPUSet(rng.Uint64())&n.All()), whole(1 + rng.IntN(4))}
		if i%3 == 0 {
			q.r = claims(shareClaim("a", 0, gib/2), shareClaim("b", 0, gib/3))
		}
		questions[i] = q
		var err error
		if want[i], _, err = allocate.NewChooser().Choose(q.v, q.r); err != nil {
			t.Fatal(err)
		}
	}
	shared := allocate.NewChooser()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range questions {
				q := questions[(i+g*7)%len(questions)]
				got, rej, err := shared.Choose(q.v, q.r)
				if fits := shared.Fits(q.v, q.r); (fits == nil) != (rej == nil) || err != nil {
					t.Errorf("Fits %v, Choose %v %v", fits, rej, err)
				}
				if diff := cmp.Diff(want[(i+g*7)%len(questions)], got); diff != "" {
					t.Errorf("another answer: %s", diff)
				}
			}
		})
	}
	wg.Wait()
}

// TestNoAllocation holds what filtering and scoring thousands of nodes depends on.
func TestNoAllocation(t *testing.T) {
	c := allocate.NewChooser()
	v := viewOf(n8s(t), topology.SetOf(0, 2, 3, 6))
	require, near := whole(2), whole(2)
	require.NUMA, near.NIC = allocate.NUMARequire, allocate.NICPrefer
	for name, tc := range map[string]struct {
		want float64
		run  func()
	}{
		"Fits":          {0, func() { mustFit(t, c, v, whole3) }},
		"Fits, require": {0, func() { mustFit(t, c, v, require) }},
		"Fits, share":   {0, func() { mustFit(t, c, v, oneShare) }},
		"Assess": {0, func() {
			if set, _, _, err := c.Assess(v, near); err != nil || set.Len() != 2 {
				t.Error("no choice")
			}
		}},
		"Choose": {2, func() {
			if choice, _, err := c.Choose(v, whole3); err != nil || len(choice.Cards) != 3 {
				t.Error("no choice")
			}
		}},
	} {
		if got := testing.AllocsPerRun(100, tc.run); got > tc.want {
			t.Errorf("%s: %v allocations, want at most %v", name, got, tc.want)
		}
	}
}

var whole3, oneShare = whole(3), share(gib, 1)

func mustFit(tb testing.TB, c *allocate.Chooser, v *allocate.View, r *allocate.Request) {
	if rej := c.Fits(v, r); rej != nil {
		tb.Errorf("Fits = %v", rej)
	}
}

// TestQualityOrder: Compare is a total order that looks at the fields in the documented order.
func TestQualityOrder(t *testing.T) {
	t.Parallel()
	base := allocate.Quality{Broken: 5, Bottleneck: 5, PairSum: 5, NUMANodes: 5, NearNICs: 5, Remaining: 5, RemainingSum: 5, SpareBytes: 5}
	ladder := []func(q *allocate.Quality, d int){
		func(q *allocate.Quality, d int) { q.SpareBytes -= int64(d) },
		func(q *allocate.Quality, d int) { q.RemainingSum += topology.Bandwidth(d) },
		func(q *allocate.Quality, d int) { q.Remaining += d },
		func(q *allocate.Quality, d int) { q.NearNICs += d },
		func(q *allocate.Quality, d int) { q.NUMANodes -= d },
		func(q *allocate.Quality, d int) { q.PairSum += topology.Bandwidth(d) },
		func(q *allocate.Quality, d int) { q.Bottleneck += topology.Bandwidth(d) },
		func(q *allocate.Quality, d int) { q.Broken -= d },
	}
	for i, better := range ladder {
		q := base
		for _, worse := range ladder[:i] {
			worse(&q, -3)
		}
		better(&q, 1)
		if q.Compare(base) <= 0 || base.Compare(q) >= 0 {
			t.Errorf("step %d: %+v is not better than %+v", i, q, base)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) allocate.Quality {
			n := rapid.IntRange(0, 1)
			return allocate.Quality{
				Broken: n.Draw(t, name), Bottleneck: topology.Bandwidth(n.Draw(t, name)), PairSum: topology.Bandwidth(n.Draw(t, name)),
				NUMANodes: n.Draw(t, name), NearNICs: n.Draw(t, name), Remaining: n.Draw(t, name),
				RemainingSum: topology.Bandwidth(n.Draw(t, name)), SpareBytes: int64(n.Draw(t, name)),
			}
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) || a.Compare(b) > 0 && b.Compare(c) > 0 && a.Compare(c) <= 0 {
			t.Fatalf("no order: %+v %+v %+v", a, b, c)
		}
	})
}

// TestQualityOf measures sets whoever holds them.
func TestQualityOf(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	n := n8p(t)
	o := newOracle(n)
	rapid.Check(t, func(t *rapid.T) {
		free := topology.GPUSet(rapid.Uint64().Draw(t, "free")) & n.All()
		set := topology.GPUSet(rapid.Uint64().Draw(t, "set"))
		got := measureOf(c.QualityOf(viewOf(n, free), set))
		want := o.measure(uint64(free), uint64(set&n.All()), allocate.NUMAPrefer, allocate.NICPrefer)
		if got != want {
			t.Fatalf("quality of %v with %v free is %v, want %v", set, free, got, want)
		}
	})
	if q := c.QualityOf(&allocate.View{}, topology.SetOf(1)); q != (allocate.Quality{}) {
		t.Errorf("without topology: %+v", q)
	}
}

// ExampleChooser_Choose is the worked example of the package documentation.
func ExampleChooser_Choose() {
	links := matrix(4, func(i, j int) topology.Link {
		if i/2 == j/2 {
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 12}
		}
		return topology.Link{Type: topology.LinkSYS}
	})
	spec := topology.Spec{Links: links}
	for i := range 4 {
		spec.Cards = append(spec.Cards, topology.Card{Product: "NVIDIA A100 80GB PCIe", VRAMBytes: 80 * gib, NUMA: i / 2, Healthy: true})
	}
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		fmt.Println(err)
		return
	}
	view := &allocate.View{Topology: node, Use: make([]allocate.CardUse, 4)}
	allocate.Occupy(&view.Use[1], allocate.CardShare{Index: 1, SliceMask: allocate.WholeCard, VRAMBytes: 80 * gib, ComputeMilli: 1000})
	view.Free = allocate.FreeCards(node, view.Use, view.Closed)

	chooser := allocate.NewChooser()
	for n := 1; n <= 4; n++ {
		request := &allocate.Request{Claims: []allocate.Claim{{Container: "train", Kind: allocate.KindWhole, Count: n}}}
		choice, rejection, err := chooser.Choose(view, request)
		switch {
		case err != nil:
			fmt.Println(err)
		case rejection != nil:
			fmt.Println(n, rejection)
		default:
			fmt.Println(n, choice.Set(), choice.Quality.Bottleneck, choice.Quality.PairSum, choice.Quality.Remaining)
		}
	}
	// Output:
	// 1 {0} 0.0 GB/s 0.0 GB/s 2
	// 2 {2,3} 240.0 GB/s 240.0 GB/s 0
	// 3 {0,2,3} 13.9 GB/s 267.8 GB/s 0
	// 4 needs 4 whole GPUs, 3 are free (1 used)
}
