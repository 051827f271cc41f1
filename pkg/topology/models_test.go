package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModels(t *testing.T) {
	tests := map[string]struct {
		products []string
		want     []Model
	}{
		"no cards": {},
		"one":      {[]string{"a", "a", "a"}, []Model{{"a", 0b111}}},
		"mixed":    {[]string{"b", "a", "b", "", "a"}, []Model{{"b", 0b101}, {"a", 0b10010}, {"", 0b1000}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var spec Spec
			for _, p := range tt.products {
				spec.Cards = append(spec.Cards, Card{Product: p, Healthy: true})
			}
			n, err := New(spec, DefaultRates())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, n.Models()); d != "" {
				t.Errorf("models (-want +got):\n%s", d)
			}
		})
	}
}
