package topology

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGPUSetModel compares GPUSet with a map on random sets.
func TestGPUSetModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		model := make(map[int]bool)
		var s GPUSet
		for range rng.IntN(80) {
			i := rng.IntN(MaxCards+8) - 4
			if rng.IntN(3) == 0 {
				s = s.Without(i)
				delete(model, i)
				continue
			}
			s = s.With(i)
			if i >= 0 && i < MaxCards {
				model[i] = true
			}
		}
		want := []int{}
		for i := -4; i < MaxCards+4; i++ {
			if model[i] {
				want = append(want, i)
			}
			if s.Has(i) != model[i] {
				t.Fatalf("%v: Has(%d) is %v", s, i, s.Has(i))
			}
		}
		if diff := cmp.Diff(want, s.Indices()); diff != "" {
			t.Fatalf("%v: indices (-want +got)\n%s", s, diff)
		}
		lowest := -1
		if len(want) > 0 {
			lowest = want[0]
		}
		if s.Len() != len(want) || s.Empty() != (len(want) == 0) || s.Lowest() != lowest || s != SetOf(want...) {
			t.Fatalf("%v: Len %d, Empty %v, Lowest %d, want the set %v", s, s.Len(), s.Empty(), s.Lowest(), want)
		}
		other := SetOf(rng.IntN(MaxCards), rng.IntN(MaxCards))
		contains := true
		for i := range other.All() {
			contains = contains && model[i]
		}
		if s.Contains(other) != contains {
			t.Fatalf("%v contains %v: %v", s, other, s.Contains(other))
		}
	}
}

func TestGPUSetEdges(t *testing.T) {
	for name, tc := range map[string]struct {
		got    GPUSet
		want   GPUSet
		string string
	}{
		"none":            {got: FirstN(0), want: 0, string: "{}"},
		"negative":        {got: FirstN(-1), want: 0, string: "{}"},
		"three":           {got: FirstN(3), want: 7, string: "{0,1,2}"},
		"all":             {got: FirstN(MaxCards).Without(0) &^ FirstN(62), want: 3 << 62, string: "{62,63}"},
		"more than all":   {got: FirstN(100), want: ^GPUSet(0), string: FirstN(64).String()},
		"no such indices": {got: SetOf(-1, 64, 5), want: 32, string: "{5}"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want || tc.got.String() != tc.string {
				t.Errorf("got %v (%x), want %s (%x)", tc.got, uint64(tc.got), tc.string, uint64(tc.want))
			}
		})
	}
	var first []int
	for i := range SetOf(3, 9, 12).All() {
		first = append(first, i)
		if i == 9 {
			break
		}
	}
	if !slices.Equal(first, []int{3, 9}) {
		t.Errorf("iteration stopped at %v, want [3 9]", first)
	}
}
