package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// pooled shows an engine nodes with labels.
func pooled(e *Engine, labels map[string]map[string]string) {
	for name, l := range labels {
		e.pools.seen(labelled(name, l))
	}
}

func labelled(name string, labels map[string]string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

const h100 = "NVIDIA H100 80GB HBM3"

// cardsOf are the counts of one product and pool in the order of cardStates: held, free, closed, quarantined, unusable.
func cardsOf(s metrics.State, product, pool string) row {
	var r row
	for _, c := range s.Cards {
		if c.Product == product && c.Pool == pool {
			r[slices.Index(cardStates[:], c.State)] += c.Count
		}
	}
	return r
}

func instancesOf(s metrics.State, profile string) row {
	var r row
	for _, c := range s.Instances {
		if c.Profile == profile {
			r[slices.Index(cardStates[:], c.State)] += c.Count
		}
	}
	return r
}

// TestGaugesFollowTheLedger: U7, for every way in which cards are taken and come free.
func TestGaugesFollowTheLedger(t *testing.T) {
	e := New(Options{})
	pooled(e, map[string]map[string]string{"a": {"karpenter.sh/nodepool": "gpu"}})
	a := nodeWith(t, e.ledger, "a", kit.N8s("a"))
	check := func(what string, want row) {
		t.Helper()
		if d := gocmp.Diff(want, cardsOf(e.gauges(), h100, "gpu")); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	check("empty", row{0, 8})
	if err := e.ledger.Assume(hold("u1", "a", wholeCards(a, 0, 1, 2))); err != nil {
		t.Fatal(err)
	}
	check("three are reserved", row{3, 5})
	e.GiveBack("u1", "")
	check("rolled back", row{0, 8})
	share := allocate.CardShare{Index: 4, UUID: "GPU-a-4", SliceMask: 1, VRAMBytes: 1 << 30, ComputeMilli: 10}
	if err := e.ledger.Assume(hold("u2", "a", []allocate.CardShare{share})); err != nil {
		t.Fatal(err)
	}
	e.ledger.Confirm("u2")
	check("a card that is used in part is held", row{1, 7})
	adopt(t, e.ledger, ledger.Holding{UID: "foreign", Pod: "ns/foreign", Node: "a", UnknownCards: 2})
	check("two more by a pod without a record", row{3, 5})
	e.ledger.Release("foreign")
	sick := kit.N8s("a")
	sick.Cards[0].Healthy, sick.Cards[4].Healthy = false, false
	nodeWith(t, e.ledger, "a", sick)
	check("a sick card with a holder is held, one without is unusable", row{1, 6, 0, 0, 1})
	adopt(t, e.ledger, hold("u3", "a", wholeCards(a, 4)))
	check("one card is sold twice: the whole node is in quarantine", row{0, 0, 0, 8})
	e.ledger.Release("u3")
	e.ledger.Release("u2")
	check("the cause has ended", row{0, 6, 0, 0, 2})
	fewer := kit.N8s("a")
	fewer.Cards, fewer.Links = fewer.Cards[:6], nil
	nodeWith(t, e.ledger, "a", fewer)
	check("two cards have left", row{0, 6})
	e.ledger.SetNode("a", nil)
	if got := e.gauges().Cards; len(got) != 0 {
		t.Errorf("a node of which nothing is known has series %v", got)
	}
	e.ledger.RemoveNode("a")
	if got := e.gauges().Cards; len(got) != 0 {
		t.Errorf("a node that is gone has series %v", got)
	}
}

// TestCaseB065Metrics: two cards of seven instances are two cards and fourteen instances, not 28 of anything.
func TestCaseB065Metrics(t *testing.T) {
	e := New(Options{})
	spec := kit.N8m("m")
	spec.Cards, spec.Links = spec.Cards[:2], nil
	nodeWith(t, e.ledger, "m", spec)
	for i := range 3 {
		adopt(t, e.ledger, ledger.Holding{
			UID: ledger.PodUID(fmt.Sprint("f", i)), Pod: "ns/f", Node: "m", UnknownMIG: []ledger.ProfileCount{{Profile: "1g.10gb", Count: 1}},
		})
	}
	s := e.gauges()
	if got := instancesOf(s, "1g.10gb"); got.sum() != 14 || got != (row{3, 11}) {
		t.Errorf("instances %v, want 3 held and 11 free", got)
	}
	if got := cardsOf(s, h100, ""); got.sum() != 2 {
		t.Errorf("cards %v, want 2", got)
	}
	for i := range 11 {
		at := i % 7
		card := 0
		if i >= 7 {
			card = 1
		}
		adopt(t, e.ledger, hold(fmt.Sprint("u", i), "m", []allocate.CardShare{{
			Index: card, UUID: fmt.Sprintf("GPU-m-%d", card), SliceMask: 1 << at, VRAMBytes: 10 << 30, MIGProfile: "1g.10gb",
		}}))
	}
	if got := instancesOf(e.gauges(), "1g.10gb"); got != (row{14}) {
		t.Errorf("instances %v once 11 more are placed, want 14 held", got)
	}
}

// TestInstances: the states of instances on cards that are not as they should be.
func TestInstances(t *testing.T) {
	e := New(Options{})
	spec := kit.N8m("m")
	spec.Cards, spec.Links = spec.Cards[:3], nil
	spec.Cards[1].Healthy = false
	spec.Cards[2].MIG = []topology.MIGInstance{{Profile: "7g.80gb", Size: 8, VRAMBytes: 80 << 30}}
	nodeWith(t, e.ledger, "m", spec)
	adopt(t, e.ledger, hold("u", "m", []allocate.CardShare{{Index: 1, UUID: "GPU-m-1", SliceMask: 1, VRAMBytes: 10 << 30, MIGProfile: "1g.10gb"}}))
	if got := instancesOf(e.gauges(), "1g.10gb"); got != (row{1, 7, 0, 0, 6}) {
		t.Errorf("instances %v, want one held, seven free, six on a sick card", got)
	}
	if got := instancesOf(e.gauges(), "7g.80gb"); got != (row{0, 1}) {
		t.Errorf("the large instance %v", got)
	}
}

// TestPools: the first of the known labels names the pool; a node that leaves its pool, or the cluster, is forgotten.
func TestPools(t *testing.T) {
	var p pools
	tests := map[string]struct {
		labels map[string]string
		want   string
	}{
		"no label":       {nil, ""},
		"other labels":   {map[string]string{"pool": "x"}, ""},
		"empty label":    {map[string]string{"karpenter.sh/nodepool": ""}, ""},
		"two labels":     {map[string]string{"eks.amazonaws.com/nodegroup": "group", "karpenter.sh/nodepool": "kp"}, "group"},
		"empty and full": {map[string]string{"eks.amazonaws.com/nodegroup": "", "karpenter.sh/nodepool": "kp"}, "kp"},
	}
	for _, label := range poolLabels {
		tests[label] = struct {
			labels map[string]string
			want   string
		}{map[string]string{label: "p"}, "p"}
	}
	for name, tt := range tests {
		node := labelled(name, tt.labels)
		p.seen(node)
		if got := p.of(ledger.NodeName(name)); got != tt.want {
			t.Errorf("%s: pool %q, want %q", name, got, tt.want)
		}
		p.seen(labelled(name, map[string]string{"karpenter.sh/nodepool": "next"}))
		if got := p.of(ledger.NodeName(name)); got != "next" {
			t.Errorf("%s: pool %q once it has changed", name, got)
		}
		if len(name)%2 == 0 {
			p.gone(node)
		} else {
			p.seen(labelled(name, nil))
		}
	}
	if len(p.names) != 0 {
		t.Errorf("%d nodes are remembered without need", len(p.names))
	}
}

// TestLabelsAreBounded: whatever nodes call themselves, the number of series has an end, and no card is lost.
func TestLabelsAreBounded(t *testing.T) {
	e := New(Options{})
	labels := map[string]map[string]string{}
	const nodes = 200
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		spec := kit.N1(name)
		spec.Cards[0].Product = fmt.Sprintf("product-%03d", i)
		nodeWith(t, e.ledger, name, spec)
		labels[name] = map[string]string{"karpenter.sh/nodepool": fmt.Sprintf("pool-%03d", i)}
	}
	big := kit.N8s("big")
	nodeWith(t, e.ledger, "big", big)
	labels["big"] = map[string]string{"karpenter.sh/nodepool": "zzz"}
	pooled(e, labels)
	products, pools, sum := map[string]bool{}, map[string]bool{}, 0
	s := e.gauges()
	for _, c := range s.Cards {
		products[c.Product], pools[c.Pool] = true, true
		sum += c.Count
	}
	if len(products) != maxProducts+1 || len(pools) != maxPools+1 || sum != nodes+8 {
		t.Errorf("%d products, %d pools, %d cards", len(products), len(pools), sum)
	}
	if !products["product-000"] || !products[h100] || !pools["zzz"] || !products[otherLabel] || !pools[otherLabel] {
		t.Errorf("the wrong ones have kept their names: %v", slices.Sorted(maps.Keys(products)))
	}
	if got := cardsOf(s, h100, "zzz"); got != (row{0, 8}) {
		t.Errorf("the largest pool has %v", got)
	}
}

// BenchmarkGauges is one gathering at 10,000 nodes with 80,000 cards, half of them held.
func BenchmarkGauges(b *testing.B) {
	e := New(Options{})
	labels := map[string]map[string]string{}
	for i := range 10000 {
		name := fmt.Sprintf("node-%05d", i)
		node := nodeWith(b, e.ledger, name, kit.N8s(name))
		adopt(b, e.ledger, hold(fmt.Sprint("u", i), name, wholeCards(node, 0, 1, 2, 3)))
		labels[name] = map[string]string{"kubernetes.io/hostname": name, "karpenter.sh/nodepool": fmt.Sprint("pool-", i%20)}
	}
	pooled(e, labels)
	b.ReportAllocs()
	for b.Loop() {
		s := e.gauges()
		if len(s.Cards) != 20*len(cardStates) {
			b.Fatalf("%d series", len(s.Cards))
		}
	}
}

// TestGaugesRepeat: every state has its series, also where nothing is in it, and the same state gives the same.
func TestGaugesRepeat(t *testing.T) {
	e := stateWorld(t)
	sorted := func() []metrics.CardGauge {
		cards := e.gauges().Cards
		slices.SortFunc(cards, func(x, y metrics.CardGauge) int {
			return cmp.Or(cmp.Compare(x.Product, y.Product), cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.State, y.State))
		})
		return cards
	}
	want := []metrics.CardGauge{
		{State: "closed", Product: h100}, {State: "free", Product: h100, Count: 9}, {State: "held", Product: h100, Count: 6},
		{State: "quarantined", Product: h100}, {State: "unusable", Product: h100, Count: 1},
		{State: "closed", Product: "NVIDIA L4"}, {State: "free", Product: "NVIDIA L4"}, {State: "held", Product: "NVIDIA L4", Count: 1},
		{State: "quarantined", Product: "NVIDIA L4", Count: 2}, {State: "unusable", Product: "NVIDIA L4"},
	}
	for range 3 {
		if d := gocmp.Diff(want, sorted()); d != "" {
			t.Errorf("cards (-want +got):\n%s", d)
		}
	}
}
