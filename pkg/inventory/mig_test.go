package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestParseMIGProfile(t *testing.T) {
	tests := map[string]struct {
		want   migProfile
		wantOK bool
	}{
		"1g.10gb":             {want: migProfile{name: "1g.10gb", compute: 1, gb: 10}, wantOK: true},
		"7g.141gb":            {want: migProfile{name: "7g.141gb", compute: 7, gb: 141}, wantOK: true},
		"1g.10gb.me":          {want: migProfile{name: "1g.10gb+me", compute: 1, gb: 10, single: true}, wantOK: true},
		"1g.10gb+me":          {want: migProfile{name: "1g.10gb+me", compute: 1, gb: 10, single: true}, wantOK: true},
		"1g.24gb-me":          {want: migProfile{name: "1g.24gb-me", compute: 1, gb: 24}, wantOK: true},
		"":                    {},
		"g.gb":                {},
		"1g":                  {},
		"1g.gb":               {},
		"0g.10gb":             {},
		"9g.10gb":             {},
		"-1g.10gb":            {},
		"1g.-10gb":            {},
		"1g.0gb":              {},
		"1g.99999999999999gb": {},
		"1c.2g.20gb":          {},
		"1g.10gb+x":           {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := parseMIGProfile(name); ok != tt.wantOK || got != tt.want {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tt.want, tt.wantOK)
			}
		})
	}
}

// TestPlacements holds the table against NVIDIA's: profiles, sizes, and how many of one profile fit a card
// (docs.nvidia.com, MIG user guide, supported profiles).
func TestPlacements(t *testing.T) {
	tests := map[string]struct {
		product string
		mib     int64
		most    map[string]string // profile -> size and largest count
	}{
		"A30":       {"NVIDIA A30", 24576, map[string]string{"1g.6gb": "1x4", "2g.12gb": "2x2", "4g.24gb": "4x1", "1g.6gb+me": "1x1"}},
		"A100 40GB": {"NVIDIA-A100-SXM4-40GB", 40960, map[string]string{"1g.5gb": "1x7", "1g.10gb": "2x4", "2g.10gb": "2x3", "3g.20gb": "4x2", "4g.20gb": "4x1", "7g.40gb": "8x1"}},
		"A100 80GB": {"NVIDIA A100-SXM4-80GB", 81920, map[string]string{"1g.10gb": "1x7", "1g.20gb": "2x4", "2g.20gb": "2x3", "3g.40gb": "4x2", "4g.40gb": "4x1", "7g.80gb": "8x1", "1g.10gb+me": "1x1"}},
		"H100 80GB": {h100, 81559, map[string]string{"1g.10gb": "1x7", "1g.20gb": "2x4", "2g.20gb": "2x3", "3g.40gb": "4x2", "4g.40gb": "4x1", "7g.80gb": "8x1"}},
		"H200":      {"NVIDIA H200", 143771, map[string]string{"1g.18gb": "1x7", "1g.35gb": "2x4", "2g.35gb": "2x3", "3g.71gb": "4x2", "4g.71gb": "4x1", "7g.141gb": "8x1"}},
		"B200":      {"NVIDIA B200", 183359, map[string]string{"1g.23gb": "1x7", "1g.45gb": "2x4", "2g.45gb": "2x3", "3g.90gb": "4x2", "4g.90gb": "4x1", "7g.180gb": "8x1"}},
		"RTX PRO 6000": {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887,
			map[string]string{"1g.24gb": "1x4", "2g.48gb": "2x2", "4g.96gb": "4x1"}},
		"size not known, smallest given": {"", 0, map[string]string{"1g.10gb": "1x7"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for profile, want := range tt.most {
				p, ok := parseMIGProfile(profile)
				if !ok {
					t.Fatalf("profile %s", profile)
				}
				most, size := 0, 0
				for n := 1; n <= 9; n++ {
					layout, ok := layoutMIG([]migCount{{profile: p, count: n}}, 1, tt.product, tt.mib*mib)
					if !ok {
						break
					}
					most, size = n, layout[0][0].Size
				}
				if got := fmt.Sprintf("%dx%d", size, most); got != want {
					t.Errorf("%s: size x largest count is %s, want %s", profile, got, want)
				}
			}
		})
	}
}

// migFamily is a set of profiles for random layouts.
type migFamily struct {
	product  string
	memory   int64
	profiles []string
}

var migFamilies = []migFamily{
	{"NVIDIA A100-SXM4-40GB", 40960 * mib, []string{"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}},
	{h100, 81559 * mib, []string{"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}},
	{"NVIDIA A30", 24576 * mib, []string{"1g.6gb", "2g.12gb", "4g.24gb"}},
}

// checkLayout holds a layout against the counts and the placement rules.
func checkLayout(counts []migCount, family migFamily, layout [][]topology.MIGInstance, cards int) error {
	if len(layout) > cards {
		return fmt.Errorf("%d cards in use, there are %d", len(layout), cards)
	}
	found := map[string]int{}
	for i, card := range layout {
		used, single := uint64(0), map[string]int{}
		for _, m := range card {
			p, _ := parseMIGProfile(m.Profile)
			at, _ := placementOf(p, family.product, int((family.memory+1<<29)>>30))
			if m.Size != at.size || !slices.Contains(at.starts, m.Start) {
				return fmt.Errorf("card %d: %s lies at %d+%d", i, m.Profile, m.Start, m.Size)
			}
			if used&m.SliceMask() != 0 {
				return fmt.Errorf("card %d: %s at %d overlaps", i, m.Profile, m.Start)
			}
			used |= m.SliceMask()
			found[m.Profile]++
			if single[m.Profile]++; p.single && single[m.Profile] > 1 {
				return fmt.Errorf("card %d has two of %s", i, m.Profile)
			}
		}
	}
	for _, c := range counts {
		if found[c.profile.name] != c.count {
			return fmt.Errorf("%d of %s, want %d", found[c.profile.name], c.profile.name, c.count)
		}
	}
	return nil
}

// TestLayoutMIGFindsEveryLayout cuts random cards by the rules and lets layoutMIG find a layout from the counts alone.
func TestLayoutMIGFindsEveryLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		family := rapid.SampledFrom(migFamilies).Draw(t, "family")
		cards := rapid.IntRange(1, 8).Draw(t, "cards")
		found := map[string]int{}
		for range cards {
			used, single := uint64(0), map[string]bool{}
			for range rapid.IntRange(0, 7).Draw(t, "instances") {
				p, _ := parseMIGProfile(rapid.SampledFrom(family.profiles).Draw(t, "profile"))
				at, _ := placementOf(p, family.product, int((family.memory+1<<29)>>30))
				mask := topology.MIGInstance{Start: rapid.SampledFrom(at.starts).Draw(t, "start"), Size: at.size}.SliceMask()
				if used&mask == 0 && !single[p.name] {
					used |= mask
					single[p.name] = p.single
					found[p.name]++
				}
			}
		}
		var counts []migCount
		for _, name := range sortedKeys(found) {
			p, _ := parseMIGProfile(name)
			counts = append(counts, migCount{profile: p, count: found[name]})
		}
		if len(counts) == 0 {
			return
		}
		layout, ok := layoutMIG(counts, cards, family.product, family.memory)
		if !ok {
			t.Fatalf("no layout found on %d cards for %v", cards, found)
		}
		if err := checkLayout(counts, family, layout, cards); err != nil {
			t.Fatalf("%v: %v", found, err)
		}
	})
}

// TestLayoutMIGAgainstBruteForce compares yes and no with a search that knows no order and no symmetry.
func TestLayoutMIGAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		family := rapid.SampledFrom(migFamilies).Draw(t, "family")
		cards := rapid.IntRange(1, 2).Draw(t, "cards")
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(family.profiles), 1, 3, rapid.ID[string]).Draw(t, "profiles")
		slices.Sort(names)
		var counts []migCount
		var flat []migProfile
		for _, name := range names {
			p, _ := parseMIGProfile(name)
			n := rapid.IntRange(1, 4).Draw(t, "count")
			counts = append(counts, migCount{profile: p, count: n})
			for range n {
				flat = append(flat, p)
			}
		}
		layout, ok := layoutMIG(counts, cards, family.product, family.memory)
		if want := fits(flat, family, make([][]string, cards), make([]uint64, cards)); ok != want {
			t.Fatalf("%v on %d cards of %s: layout found: %v, want %v", names, cards, family.product, ok, want)
		}
		if ok {
			if err := checkLayout(counts, family, layout, cards); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// fits tries every place for every instance.
func fits(left []migProfile, family migFamily, held [][]string, used []uint64) bool {
	if len(left) == 0 {
		return true
	}
	p := left[0]
	at, ok := placementOf(p, family.product, int((family.memory+1<<29)>>30))
	if !ok {
		return false
	}
	for card := range used {
		if p.single && slices.Contains(held[card], p.name) {
			continue
		}
		for _, start := range at.starts {
			mask := topology.MIGInstance{Start: start, Size: at.size}.SliceMask()
			if used[card]&mask != 0 {
				continue
			}
			used[card] |= mask
			held[card] = append(held[card], p.name)
			found := fits(left[1:], family, held, used)
			used[card] &^= mask
			held[card] = held[card][:len(held[card])-1]
			if found {
				return true
			}
		}
	}
	return false
}

// TestLayoutMIGHard has counts that a search in the wrong order does not solve in time.
func TestLayoutMIGHard(t *testing.T) {
	tests := map[string]struct {
		counts strs
		cards  int
	}{
		"media engines on every card, beside a crowded one": {strs{"1g.10gb": "2", "1g.5gb": "2", "1g.5gb+me": "5", "3g.20gb": "1"}, 5},
		"one of each":    {strs{"1g.10gb": "1", "1g.5gb": "1", "1g.5gb+me": "1", "2g.10gb": "1", "3g.20gb": "1", "4g.20gb": "1", "7g.40gb": "1"}, 3},
		"a full machine": {strs{"1g.10gb": "8", "1g.5gb": "16", "2g.10gb": "16"}, 8},
	}
	family := migFamilies[0]
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var counts []migCount
			for _, profile := range sortedKeys(tt.counts) {
				p, _ := parseMIGProfile(profile)
				n, err := strconv.Atoi(tt.counts[profile])
				if err != nil {
					t.Fatal(err)
				}
				counts = append(counts, migCount{profile: p, count: n})
			}
			layout, ok := layoutMIG(counts, tt.cards, family.product, family.memory)
			if !ok {
				t.Fatal("no layout found")
			}
			if err := checkLayout(counts, family, layout, tt.cards); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLayoutMIGIsBounded asks for one instance more than fits, in a way that a plain search would take years to refute.
func TestLayoutMIGIsBounded(t *testing.T) {
	two, _ := parseMIGProfile("2g.20gb")
	one, _ := parseMIGProfile("1g.20gb")
	const cards = 20
	counts := []migCount{{profile: two, count: 31}, {profile: one, count: 50}} // a card holds 3 and 1, or 4 of the latter
	items, ok := migItems(counts, h100, 80*gib)
	if !ok || memorySlices(items) > slicesPerCard*cards+2 {
		t.Fatal("the counts are refused before the search")
	}
	f := newMIGFit(items, cards)
	if f.place(0) {
		t.Fatal("81 instances of two slices fit 20 cards of eight")
	}
	if most := maxFitSteps + len(items)*len(oneWithTwo.starts)*cards; f.steps > most {
		t.Errorf("the search took %d steps, want at most %d", f.steps, most)
	}
	counts[1].count = 49
	if _, ok := layoutMIG(counts, cards, h100, 80*gib); !ok {
		t.Error("80 instances of two slices do not fit 20 cards of eight")
	}
}
