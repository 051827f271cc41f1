package simulate

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Allocate and the oracle must agree on every choice and every refusal, whatever pods came before: two searches that
// share no code.
func TestOracleAgreesWithAllocate(t *testing.T) {
	chooser := allocate.NewChooser()
	kinds := demoMachines()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "machine")
		n, err := kind.machine.Node(0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := oracle.New(map[string]*topology.Node{n.Object.Name: n.Topology})
		if err != nil {
			t.Fatal(err)
		}
		candidates := []string{n.Object.Name}
		use := make([]allocate.CardUse, n.Topology.Len())
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			ask := drawAsk(t)
			view := &allocate.View{Topology: n.Topology, Use: use, Free: allocate.FreeCards(n.Topology, use, 0)}
			choice, rejection, err := chooser.Choose(view, requestOf(ask))
			if err != nil {
				t.Fatal(err)
			}
			if fits := len(c.Fitting(ask, candidates)) > 0; fits == (rejection != nil) {
				t.Fatalf("%s: the oracle says that it fits: %t, allocate says: %v", ask, fits, rejection)
			}
			if rejection != nil {
				if want := gap(ask, c.Room(ask, candidates)); !strings.Contains(rejection.Short(), want) {
					t.Fatalf("%s: rejection %q does not say %q", ask, rejection, want)
				}
				continue
			}
			pod := "pod-" + strconv.Itoa(i)
			record := recordOfChoice(n.Object.Name, choice.Cards)
			if err := c.Judge(pod, ask, candidates, record); err != nil {
				t.Fatal(err)
			}
			if err := c.Place(pod, record); err != nil {
				t.Fatal(err)
			}
			for _, share := range choice.Cards {
				allocate.Occupy(&use[share.Index], share)
			}
		}
	})
}

func drawAsk(t *rapid.T) oracle.Ask {
	switch rapid.SampledFrom([]oracle.Kind{oracle.Whole, oracle.Share, oracle.Share, oracle.MIG}).Draw(t, "kind") {
	case oracle.Whole:
		return oracle.Ask{Kind: oracle.Whole, Count: rapid.IntRange(1, 8).Draw(t, "cards")}
	case oracle.MIG:
		return oracle.Ask{
			Kind: oracle.MIG, Count: rapid.IntRange(1, 3).Draw(t, "instances"),
			Profile: rapid.SampledFrom([]string{"1g.10gb", "2g.20gb", "3g.40gb"}).Draw(t, "profile"),
		}
	case oracle.Share:
	}
	ask := oracle.Ask{
		Kind: oracle.Share, Count: rapid.SampledFrom([]int{1, 1, 2, 3, 8}).Draw(t, "cards"),
		ComputeMilli: rapid.SampledFrom([]int32{0, 0, 100, 400, 1000}).Draw(t, "compute"),
	}
	if rapid.Bool().Draw(t, "percent") {
		ask.Percent = rapid.Int64Range(1, 99).Draw(t, "of a card")
		return ask
	}
	ask.Bytes = rapid.Int64Range(1, 90<<10).Draw(t, "MiB") << 20
	return ask
}

// requestOf says an ask in allocate's words.
func requestOf(ask oracle.Ask) *allocate.Request {
	claim := allocate.Claim{Count: ask.Count}
	switch ask.Kind {
	case oracle.Whole:
		claim.Kind = allocate.KindWhole
	case oracle.Share:
		claim.Kind, claim.VRAMBytes, claim.ComputeMilli = allocate.KindShare, ask.Bytes, ask.ComputeMilli
		claim.FractionPPB = ask.Percent * 10_000_000
	case oracle.MIG:
		claim.Kind, claim.Profile = allocate.KindMIG, ask.Profile
	}
	return &allocate.Request{Claims: []allocate.Claim{claim}}
}

func recordOfChoice(node string, shares []allocate.CardShare) *v1alpha1.Record {
	r := &v1alpha1.Record{V: v1alpha1.Version, Node: node}
	for _, s := range shares {
		r.Cards = append(r.Cards, v1alpha1.CardRecord{
			Index: s.Index, UUID: s.UUID, SliceMask: v1alpha1.SliceMask(s.SliceMask),
			VRAMBytes: s.VRAMBytes, ComputeMilli: s.ComputeMilli, MIG: s.MIGProfile,
		})
	}
	return r
}
