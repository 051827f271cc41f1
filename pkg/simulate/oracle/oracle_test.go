package oracle

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const gib = int64(1) << 30

// dgx1 is eight V100 of 16 GiB in a hybrid cube mesh: 0-1 NV1, 0-2 NV1, 0-3 NV2, 0-4 NV2, 1-2 NV2, 1-3 NV1, 2-3 NV2,
// and the same between 4 to 7; an NVLink carries 20 GB/s.
func dgx1(t *testing.T) *topology.Node {
	t.Helper()
	return build(t, "Tesla V100-SXM2-16GB", 8, 16*gib, nil)
}

// pcie is four L40S of 48 GiB, 0 and 1 on one NUMA node, 2 and 3 on the other.
func pcie(t *testing.T, change func(*topology.Spec)) *topology.Node {
	t.Helper()
	return build(t, "NVIDIA L40S", 4, 48*gib, change)
}

func build(t *testing.T, product string, count int, vram int64, change func(*topology.Spec)) *topology.Node {
	t.Helper()
	spec, ok := topology.Lookup(product, count)
	if !ok {
		t.Fatalf("no shape for %d x %s", count, product)
	}
	for i := range spec.Cards {
		spec.Cards[i].VRAMBytes = vram
	}
	if change != nil {
		change(&spec)
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func cluster(t *testing.T, nodes map[string]*topology.Node) *Cluster {
	t.Helper()
	c, err := New(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// whole is the record of a pod that has these cards of a node.
func whole(node string, vram int64, cards ...int) *v1alpha1.Record {
	r := &v1alpha1.Record{V: 1, Node: node}
	for _, i := range cards {
		r.Cards = append(r.Cards, v1alpha1.CardRecord{Index: i, SliceMask: wholeMask, VRAMBytes: vram, ComputeMilli: 1000})
	}
	return r
}

// share is the record of a pod that has a part of one L40S; slices is the number of slices before and in it.
func share(node string, card, before, slices int, bytes int64) *v1alpha1.Record {
	mask := v1alpha1.SliceMask(1<<slices-1) << before
	return &v1alpha1.Record{V: 1, Node: node, Cards: []v1alpha1.CardRecord{{Index: card, SliceMask: mask, VRAMBytes: bytes}}}
}

func place(t *testing.T, c *Cluster, pod string, r *v1alpha1.Record) {
	t.Helper()
	if err := c.Place(pod, r); err != nil {
		t.Fatal(err)
	}
}

func TestJudgeWholeCards(t *testing.T) {
	tests := map[string]struct {
		held       []int
		ask        int
		chosen     []int
		wantBetter string // what the fault must name; "" for no fault
	}{
		"two NVLinks beat one":              {ask: 2, chosen: []int{1, 2}},
		"one NVLink is a fault":             {ask: 2, chosen: []int{0, 1}, wantBetter: "better: cards {1,2} (breaks 0, ring 40.0 GB/s"},
		"a higher mask is a fault":          {ask: 2, chosen: []int{0, 3}, wantBetter: "better: cards {1,2}"},
		"eight cards have a ring of double": {ask: 8, chosen: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"four of one half":                  {ask: 4, chosen: []int{0, 1, 2, 3}},
		"four across the halves":            {ask: 4, chosen: []int{0, 1, 4, 5}, wantBetter: "better: cards {0,1,2,3}"},
		// Of {4,5,6,7}, what 0-3 leave, and {1,2,5,6} only the first stays on one NUMA node.
		"four beside a pair": {held: []int{0, 3}, ask: 4, chosen: []int{4, 5, 6, 7}},
		// A single card has no ring. Without 2 or 7 the pairs left make 140 GB/s and two SYS paths, without 1 only 120.
		"one card leaves the best pairs": {held: []int{0, 3, 4}, ask: 1, chosen: []int{2}},
		"one card that cuts more":        {held: []int{0, 3, 4}, ask: 1, chosen: []int{1}, wantBetter: "better: cards {2}"},
		"a card in use":                  {held: []int{0, 3}, ask: 2, chosen: []int{3, 7}, wantBetter: "card 3 is sold twice, pod before has it"},
		"too few cards":                  {ask: 2, chosen: []int{0}, wantBetter: "got 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, map[string]*topology.Node{"n": dgx1(t)})
			if tc.held != nil {
				place(t, c, "before", whole("n", 16*gib, tc.held...))
			}
			err := c.Judge("p", Ask{Kind: Whole, Count: tc.ask}, []string{"n"}, whole("n", 16*gib, tc.chosen...))
			checkFault(t, err, tc.wantBetter)
		})
	}
}

// Cards 0 and 1 are joined by one NVLink (20 GB/s), 2 to 7 by PIX (12 GB/s), the rest by SYS (7 GB/s). Without card 0
// more bandwidth is left in sum, 20 and 6 x 7 less, than without card 2, 5 x 12 and 2 x 7 less; but the fastest ring,
// 0 and 1, comes first.
func TestJudgeKeepsTheFastestRing(t *testing.T) {
	graph := build(t, "Tesla V100-PCIE-16GB", 8, 16*gib, func(s *topology.Spec) {
		for i := range s.Links {
			for j := range s.Links[i] {
				switch {
				case i == j:
				case i < 2 && j < 2:
					s.Links[i][j] = topology.Link{Type: topology.LinkNVLink, NVLinks: 1}
				case i < 2 || j < 2:
					s.Links[i][j] = topology.Link{Type: topology.LinkSYS}
				default:
					s.Links[i][j] = topology.Link{Type: topology.LinkPIX}
				}
			}
		}
	})
	c := cluster(t, map[string]*topology.Node{"n": graph})
	ask := Ask{Kind: Whole, Count: 1}
	checkFault(t, c.Judge("p", ask, []string{"n"}, whole("n", 16*gib, 2)), "")
	checkFault(t, c.Judge("p", ask, []string{"n"}, whole("n", 16*gib, 0)), "better: cards {2}")
}

func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	var fault *Fault
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected fault: %v", err)
	case want != "" && !errors.As(err, &fault):
		t.Errorf("error = %v, want a *Fault with %q", err, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("fault = %q, want it to name %q", err, want)
	}
}

func TestJudgeNode(t *testing.T) {
	ask := Ask{Kind: Whole, Count: 2}
	both := []string{"nvlink", "pcie"}
	onPCIe := whole("pcie", 48*gib, 0, 1)

	c := cluster(t, map[string]*topology.Node{"nvlink": dgx1(t), "pcie": pcie(t, nil)})
	checkFault(t, c.Judge("p", ask, both, onPCIe), "node nvlink offers 40.0 GB/s")
	checkFault(t, c.Judge("p", ask, []string{"pcie"}, onPCIe), "")
	checkFault(t, c.Judge("p", ask, []string{"nvlink"}, onPCIe), "may not run there")

	place(t, c, "before", whole("nvlink", 16*gib, 0, 1, 2, 3, 4, 5, 6))
	checkFault(t, c.Judge("p", ask, both, onPCIe), "")
}

func TestJudgeShares(t *testing.T) {
	ask := Ask{Kind: Share, Count: 1, Bytes: 12 * gib}
	c := cluster(t, map[string]*topology.Node{"a": pcie(t, nil), "b": pcie(t, nil)})
	both := []string{"a", "b"}
	// 12 of 48 GiB are 16 of 64 slices.
	checkFault(t, c.Judge("p", ask, both, share("a", 0, 0, 16, 12*gib)), "")
	checkFault(t, c.Judge("p", ask, both, share("a", 1, 0, 16, 12*gib)), "better: cards {0}")
	checkFault(t, c.Judge("p", ask, both, share("a", 0, 0, 17, 12*gib)), "are not slices")
	checkFault(t, c.Judge("p", ask, both, share("a", 0, 0, 32, 24*gib)), "asked for 12 GiB of a GPU: got of card 0")

	place(t, c, "first", share("a", 2, 0, 16, 12*gib))
	checkFault(t, c.Judge("p", ask, both, share("a", 2, 16, 16, 12*gib)), "")
	checkFault(t, c.Judge("p", ask, both, share("a", 0, 0, 16, 12*gib)), "better: cards {2}")
	checkFault(t, c.Judge("p", ask, both, share("b", 0, 0, 16, 12*gib)), "on node a it would break 0")
	checkFault(t, c.Judge("p", ask, both, share("a", 2, 0, 16, 12*gib)), "slices are sold twice, pod first has them")

	place(t, c, "second", share("a", 3, 0, 32, 24*gib))
	// Both cards have room; 24 GiB free is the tighter fit of the two.
	checkFault(t, c.Judge("p", ask, both, share("a", 3, 32, 16, 12*gib)), "")
	checkFault(t, c.Judge("p", ask, both, share("a", 2, 16, 16, 12*gib)), "better: cards {3}")
}

func TestJudgeComputeOfShares(t *testing.T) {
	c := cluster(t, map[string]*topology.Node{"a": pcie(t, nil)})
	first := share("a", 0, 0, 16, 12*gib)
	first.Cards[0].ComputeMilli = 1000
	place(t, c, "first", first)
	for name, milli := range map[string]int32{"no promise": 0, "a promise": 1, "all": 1000} {
		ask := Ask{Kind: Share, Count: 1, Bytes: 12 * gib, ComputeMilli: milli}
		if best, ok := c.nodes["a"].best(ask); !ok || best.mask != topology.SetOf(1) {
			t.Errorf("%s: best = %v, %t, want card 1: card 0 has no compute left", name, best.mask, ok)
		}
	}
}

// migNode has card 0 whole, card 1 with 1g at slices 0 and 1 and 3g at 4, card 2 with 1g at 0.
func migNode(t *testing.T) *topology.Node {
	return pcie(t, func(s *topology.Spec) {
		s.Cards[1].MIGEnabled, s.Cards[2].MIGEnabled = true, true
		s.Cards[1].MIG = []topology.MIGInstance{{Profile: "1g", Start: 0, Size: 1}, {Profile: "1g", Start: 1, Size: 1}, {Profile: "3g", Start: 4, Size: 4}}
		s.Cards[2].MIG = []topology.MIGInstance{{Profile: "1g", Start: 0, Size: 1}}
	})
}

func mig(profile string, cardsAndMasks ...int) *v1alpha1.Record {
	r := &v1alpha1.Record{V: 1, Node: "n"}
	for i := 0; i < len(cardsAndMasks); i += 2 {
		r.Cards = append(r.Cards, v1alpha1.CardRecord{Index: cardsAndMasks[i], SliceMask: v1alpha1.SliceMask(cardsAndMasks[i+1]), MIG: profile})
	}
	return r
}

func TestJudgeMIG(t *testing.T) {
	tests := map[string]struct {
		before *v1alpha1.Record
		count  int
		chosen *v1alpha1.Record
		want   string
	}{
		"lowest":                 {count: 1, chosen: mig("1g", 1, 1)},
		"not the lowest":         {count: 1, chosen: mig("1g", 1, 2), want: "the best free ones are card 1 slice 0"},
		"two on one card":        {count: 2, chosen: mig("1g", 1, 1, 1, 2)},
		"two on two cards":       {count: 2, chosen: mig("1g", 1, 1, 2, 1), want: "card 1 slice 0, card 1 slice 1"},
		"card in use first":      {before: mig("1g", 2, 1), count: 1, chosen: mig("1g", 1, 1)},
		"other profile":          {count: 1, chosen: mig("3g", 1, 0xf0), want: `MIG "3g"`},
		"no such instance":       {count: 1, chosen: mig("1g", 1, 4), want: "has no instance 1g at slices 0x4"},
		"held":                   {before: mig("1g", 1, 1), count: 1, chosen: mig("1g", 1, 1), want: "instance is sold twice, pod before has it"},
		"card not in MIG mode":   {count: 1, chosen: mig("1g", 0, 1), want: "go together"},
		"next to the one in use": {before: mig("3g", 1, 0xf0), count: 1, chosen: mig("1g", 1, 1)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, map[string]*topology.Node{"n": migNode(t)})
			if tc.before != nil {
				place(t, c, "before", tc.before)
			}
			checkFault(t, c.Judge("p", Ask{Kind: MIG, Count: tc.count, Profile: "1g"}, []string{"n"}, tc.chosen), tc.want)
		})
	}
}

func TestPlaceRefusesWhatIsSoldTwice(t *testing.T) {
	tests := map[string]struct {
		first, second *v1alpha1.Record
		want          string
	}{
		"whole and whole":      {whole("n", 48*gib, 0), whole("n", 48*gib, 0), "card 0: is sold twice, pod first has it"},
		"whole on a share":     {share("n", 0, 0, 16, 12*gib), whole("n", 48*gib, 0), "card 0: is sold twice"},
		"share on a whole":     {whole("n", 48*gib, 0), share("n", 0, 0, 16, 12*gib), "card 0: is sold twice"},
		"same slices":          {share("n", 0, 0, 16, 12*gib), share("n", 0, 8, 16, 12*gib), "slices are sold twice"},
		"too many bytes":       {share("n", 0, 0, 63, 48*gib-1), share("n", 0, 63, 0, 2), "51539607553 are sold"},
		"other cards":          {whole("n", 48*gib, 0, 1), whole("n", 48*gib, 2, 3), ""},
		"no such card":         {nil, whole("n", 48*gib, 4), "there is no card 4"},
		"no such node":         {nil, whole("m", 48*gib, 0), "there is no such node"},
		"half a whole card":    {nil, whole("n", 24*gib, 0), "all of it is 51539607552 bytes"},
		"another card's UUID":  {nil, withUUID(whole("n", 48*gib, 0), "GPU-x"), `has UUID "", the record says "GPU-x"`},
		"shares side by side":  {share("n", 0, 0, 16, 12*gib), share("n", 0, 16, 48, 36*gib), ""},
		"compute sold too far": {withMilli(share("n", 0, 0, 16, 12*gib), 600), withMilli(share("n", 0, 16, 16, 12*gib), 401), "1001 thousandths"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, map[string]*topology.Node{"n": pcie(t, nil)})
			if tc.first != nil {
				place(t, c, "first", tc.first)
			}
			free := c.Free("n")
			err := c.Place("second", tc.second)
			checkFault(t, err, tc.want)
			if got := c.Free("n"); err != nil && got != free {
				t.Errorf("a refused record left %v free, want %v", got, free)
			}
		})
	}
}

func withUUID(r *v1alpha1.Record, uuid string) *v1alpha1.Record {
	r.Cards[0].UUID = uuid
	return r
}

func withMilli(r *v1alpha1.Record, milli int32) *v1alpha1.Record {
	r.Cards[0].ComputeMilli = milli
	return r
}

func TestFittingAndRoom(t *testing.T) {
	c := cluster(t, map[string]*topology.Node{"a": pcie(t, nil), "b": pcie(t, nil), "m": build(t, "NVIDIA L40S", 4, 24*gib, nil)})
	place(t, c, "first", whole("a", 48*gib, 0))
	all := []string{"a", "b", "m"}
	tests := map[string]struct {
		ask         Ask
		wantFitting []string
		wantRoom    int
	}{
		"four cards":        {Ask{Kind: Whole, Count: 4}, []string{"b", "m"}, 4},
		"five cards":        {Ask{Kind: Whole, Count: 5}, nil, 4},
		"large shares":      {Ask{Kind: Share, Count: 3, Bytes: 40 * gib}, []string{"a", "b"}, 4},
		"half of each card": {Ask{Kind: Share, Count: 4, Percent: 50}, []string{"b", "m"}, 4},
		"MIG":               {Ask{Kind: MIG, Count: 1, Profile: "1g"}, nil, 0},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.wantFitting, c.Fitting(tc.ask, all)); diff != "" {
			t.Errorf("%s: Fitting (-want +got):\n%s", name, diff)
		}
		if got := c.Room(tc.ask, all); got != tc.wantRoom {
			t.Errorf("%s: Room = %d, want %d", name, got, tc.wantRoom)
		}
	}
}

func TestHoldersAndFree(t *testing.T) {
	c := cluster(t, map[string]*topology.Node{"n": pcie(t, func(s *topology.Spec) { s.Cards[3].Healthy = false })})
	place(t, c, "first", share("n", 1, 0, 16, 12*gib))
	if got, want := c.Free("n"), topology.SetOf(0, 2); got != want {
		t.Errorf("Free = %v, want %v", got, want)
	}
	want := []Holder{{Pod: "first", Card: share("n", 1, 0, 16, 12*gib).Cards[0]}}
	if diff := cmp.Diff(want, c.Holders("n", 1)); diff != "" {
		t.Errorf("Holders (-want +got):\n%s", diff)
	}
	if c.Free("m") != 0 || c.Holders("m", 0) != nil || c.Holders("n", 4) != nil {
		t.Error("an unknown node or card has holders or free cards")
	}
}

func TestNewRefusesLargeNodes(t *testing.T) {
	if _, err := New(map[string]*topology.Node{"big": build(t, "NVIDIA A100-SXM4-40GB", 16, 40*gib, nil)}); err == nil || !strings.Contains(err.Error(), "big") {
		t.Errorf("New error = %v, want one that names node big", err)
	}
}

func TestAskString(t *testing.T) {
	tests := map[string]Ask{
		"1 GPU":                          {Kind: Whole, Count: 1},
		"8 GPUs":                         {Kind: Whole, Count: 8},
		"20 GiB of a GPU":                {Kind: Share, Count: 1, Bytes: 20 * gib},
		"4000 MiB of a GPU, 20% compute": {Kind: Share, Count: 1, Bytes: 4000 << 20, ComputeMilli: 200},
		"25% of 2 GPUs each":             {Kind: Share, Count: 2, Percent: 25},
		"1 MIG 1g.10gb":                  {Kind: MIG, Count: 1, Profile: "1g.10gb"},
		"2 MIG 3g.40gbs":                 {Kind: MIG, Count: 2, Profile: "3g.40gb"},
		"60 GiB of 8 GPUs each":          {Kind: Share, Count: 8, Bytes: 60 * gib},
	}
	for want, ask := range tests {
		if got := ask.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

func TestRing(t *testing.T) {
	c := cluster(t, map[string]*topology.Node{"n": dgx1(t)})
	// The double links form one ring through all eight cards.
	bandwidth, order := c.Ring("n", topology.FirstN(8))
	if want := []int{0, 3, 2, 1, 5, 6, 7, 4}; bandwidth != 40_000 || !cmp.Equal(order, want) {
		t.Errorf("Ring of all = %v %v, want 40.0 GB/s %v", bandwidth, order, want)
	}
	if bandwidth, order := c.Ring("n", topology.SetOf(5)); bandwidth != 0 || !cmp.Equal(order, []int{5}) {
		t.Errorf("Ring of one card = %v %v, want none", bandwidth, order)
	}
	if bandwidth, order := c.Ring("m", topology.SetOf(5)); bandwidth != 0 || order != nil {
		t.Errorf("Ring on an unknown node = %v %v, want none", bandwidth, order)
	}
}

func TestRemoveGivesBackWhatOnePodHolds(t *testing.T) {
	c := cluster(t, map[string]*topology.Node{"a": pcie(t, nil), "b": pcie(t, nil)})
	place(t, c, "first", share("a", 0, 0, 16, 12*gib))
	place(t, c, "second", share("a", 0, 16, 16, 12*gib))
	place(t, c, "third", whole("b", 48*gib, 0, 1))
	c.Remove("first")
	c.Remove("third")
	c.Remove("nobody")
	if got := c.Holders("a", 0); len(got) != 1 || got[0].Pod != "second" {
		t.Errorf("holders of card 0 = %v, want second alone", got)
	}
	if got, want := c.Free("b"), topology.FirstN(4); got != want {
		t.Errorf("free cards of b = %v, want %v", got, want)
	}
	place(t, c, "first", share("a", 0, 0, 16, 12*gib))
}
