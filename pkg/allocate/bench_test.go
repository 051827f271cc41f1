package allocate_test

import (
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// BenchmarkChooseCached is a known answer for four whole cards: with the cards written out, and without, as for a
// score.
func BenchmarkChooseCached(b *testing.B) {
	c := allocate.NewChooser()
	v := viewOf(n8p(b), topology.SetOf(0, 1, 2, 4, 5, 7))
	for name, n := range map[string]int{"1": 1, "4": 4} {
		r := whole(n)
		mustChoose(b, c, v, r)
		b.Run(name+"/choose", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if choice, _, err := c.Choose(v, r); err != nil || len(choice.Cards) != n {
					b.Fatal("no choice")
				}
			}
		})
		b.Run(name+"/assess", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if set, _, _, err := c.Assess(v, r); err != nil || set.Len() != n {
					b.Fatal("no choice")
				}
			}
		})
	}
}

func BenchmarkChooseCold8(b *testing.B) { benchmarkCold(b, n8p(b), 4) }

func BenchmarkChooseCold16(b *testing.B) {
	b.Run("uniform", func(b *testing.B) {
		benchmarkCold(b, node(b, topology.Spec{Cards: cards(16, 80*gib), NVSwitch: true}), 8)
	})
	b.Run("mixed", func(b *testing.B) {
		benchmarkCold(b, node(b, topology.Spec{Cards: cards(16, 80*gib), Links: matrix(16, func(i, j int) topology.Link {
			return topology.Link{Type: topology.LinkNVLink, NVLinks: uint8(1 + (i*7+j*3)%11)}
		})}), 8)
	})
}

func BenchmarkChooseCold64(b *testing.B) {
	benchmarkCold(b, node(b, topology.Spec{Cards: cards(64, 80*gib), Links: matrix(64, func(i, j int) topology.Link {
		if i/8 == j/8 {
			return topology.Link{Type: topology.LinkNVLink, NVLinks: 18}
		}
		return topology.Link{Type: topology.LinkSYS}
	})}), 12)
}

// benchmarkCold asks a Chooser that has never seen the shape.
func benchmarkCold(b *testing.B, n *topology.Node, k int) {
	v := emptyView(n)
	r := whole(k)
	b.ReportAllocs()
	for b.Loop() {
		c := allocate.NewChooser()
		if choice, _, err := c.Choose(v, r); err != nil || len(choice.Cards) != k {
			b.Fatal("no choice")
		}
	}
}

func BenchmarkFits(b *testing.B) {
	v := viewOf(n8s(b), topology.SetOf(0, 1, 2, 4, 5, 7))
	require := whole(3)
	require.NUMA = allocate.NUMARequire
	odd := &allocate.Request{} // 8 containers that fit in bytes and in no arrangement: the search runs to its bound
	for i := range 8 {
		odd.Claims = append(odd.Claims, allocate.Claim{Container: string(rune('a' + i)), Kind: allocate.KindShare, Count: 1, VRAMBytes: (41 + int64(i)) * gib})
	}
	for name, bench := range map[string]struct {
		r    *allocate.Request
		fits bool
	}{
		"8 containers/reject": {odd, false},
		"whole":               {whole(4), true},
		"whole/require":       {require, true},
		"whole/reject":        {whole(7), false},
		"share":               {share(20*gib, 1), true},
		"share/reject":        {share(20*gib, 7), false},
	} {
		b.Run(name, func(b *testing.B) {
			c := allocate.NewChooser()
			b.ReportAllocs()
			for b.Loop() {
				if (c.Fits(v, bench.r) == nil) != bench.fits {
					b.Fatal("wrong answer")
				}
			}
		})
	}
}

func BenchmarkChooseShare(b *testing.B) {
	v := emptyView(n8s(b))
	c := allocate.NewChooser()
	give(b, v, mustChoose(b, c, v, share(20*gib, 2)).Cards)
	b.Run("on-used", func(b *testing.B) { benchmarkShare(b, c, v, share(10*gib, 1)) })
	b.Run("4-cards", func(b *testing.B) { benchmarkShare(b, c, v, share(10*gib, 4)) })
	b.Run("3-containers", func(b *testing.B) {
		benchmarkShare(b, c, v, &allocate.Request{Claims: []allocate.Claim{
			{Container: "a", Kind: allocate.KindShare, Count: 1, VRAMBytes: 10 * gib},
			{Container: "b", Kind: allocate.KindShare, Count: 2, VRAMBytes: 20 * gib},
			{Container: "c", Kind: allocate.KindShare, Count: 1, VRAMBytes: 70 * gib},
		}})
	})
}

func benchmarkShare(b *testing.B, c *allocate.Chooser, v *allocate.View, r *allocate.Request) {
	b.ReportAllocs()
	for b.Loop() {
		if choice, _, err := c.Choose(v, r); err != nil || len(choice.Cards) == 0 {
			b.Fatal("no choice")
		}
	}
}
