package allocate_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestPlainEqualsFits: the short way answers as the long one, on any view and for every number of cards.
func TestPlainEqualsFits(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	n := mixedNode(t)
	rapid.Check(t, func(t *rapid.T) {
		v := emptyView(n)
		for i := range n.Len() {
			if rapid.Bool().Draw(t, "used") {
				allocate.Occupy(&v.Use[i], wholeShare(n, i))
			}
		}
		v.Closed = topology.GPUSet(rapid.Uint64Range(0, uint64(n.All())).Draw(t, "closed")) & n.All()
		refresh(v)
		r := whole(rapid.IntRange(1, n.Len()+2).Draw(t, "cards"))
		r.NUMA = rapid.SampledFrom([]allocate.NUMAPolicy{allocate.NUMANone, allocate.NUMAPrefer}).Draw(t, "numa")
		total, ok := r.Plain()
		if !ok {
			t.Fatalf("%+v is not plain", r)
		}
		have, permanent, fits := allocate.FitsPlain(v, total)
		rej := c.Fits(v, r)
		set, quality, offered := c.AssessPlain(v, total, r.NUMA, r.NIC)
		wantSet, wantQuality, refused, err := c.Assess(v, r)
		if err != nil || offered != (refused == nil) || set != wantSet || quality != wantQuality {
			t.Fatalf("AssessPlain: %s, %+v, %t; Assess: %s, %+v, %v, %v", set, quality, offered, wantSet, wantQuality, refused, err)
		}
		switch {
		case fits != (rej == nil):
			t.Fatalf("fits %t, Fits says %v", fits, rej)
		case rej != nil && (rej.Permanent != permanent || rej.Short() != allocate.PlainShort(have, total)):
			t.Fatalf("permanent %t, %q, Fits says %t, %q", permanent, allocate.PlainShort(have, total), rej.Permanent, rej.Short())
		}
	})
}

// TestNotPlain lists what the short way must not answer.
func TestNotPlain(t *testing.T) {
	t.Parallel()
	bound, near := whole(2), whole(2)
	bound.NUMA, near.NIC = allocate.NUMARequire, allocate.NICRequire
	for name, r := range map[string]*allocate.Request{
		"nothing": {}, "share": share(gib, 1), "MIG": mig("1g.10gb", 1), "one NUMA node": bound, "near NICs": near,
	} {
		if _, ok := r.Plain(); ok {
			t.Errorf("%s: is plain", name)
		}
	}
}
