package gputopology

import (
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestPlanOfAFailedCard: what failed between the plan and the member's own cycle is not bound.
func TestPlanOfAFailedCard(t *testing.T) {
	tests := map[string]struct {
		change func(*topology.Spec)
		want   bool
	}{
		"all is as it was":    {func(*topology.Spec) {}, true},
		"the card is sick":    {func(s *topology.Spec) { s.Cards[1].Healthy = false }, false},
		"another card is":     {func(s *topology.Spec) { s.Cards[5].Healthy = false }, true},
		"the card is swapped": {func(s *topology.Spec) { s.Cards[1].UUID = "GPU-new" }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := kit.N8s("n1")
			planned := &book.Planned{Node: "n1", Choice: allocate.Choice{Cards: []allocate.CardShare{
				{Index: 0, UUID: before.Cards[0].UUID}, {Index: 1, UUID: before.Cards[1].UUID},
			}}}
			after := kit.N8s("n1")
			tt.change(&after)
			node, err := topology.New(after, topology.DefaultRates())
			if err != nil {
				t.Fatal(err)
			}
			l := ledger.New()
			l.SetNode("n1", node)
			if got := usable(l.Node("n1"), planned); got != tt.want {
				t.Errorf("usable %t, want %t", got, tt.want)
			}
		})
	}
}
