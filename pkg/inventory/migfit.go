package inventory

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// slicesPerCard is the largest number of memory slices that a card has in MIG mode.
const slicesPerCard = 8

// maxFitSteps bounds the search for a layout. Real configurations need a few steps an instance; a count that needs
// more is treated as one that does not fit.
const maxFitSteps = 50_000

// migCount is the number of instances of one profile on a node.
type migCount struct {
	profile migProfile
	count   int
	// bytes is an instance's memory, 0 if unknown.
	bytes int64
}

// layoutMIG shares out instances over at most cards cards of one product: result[0] is the layout of the first card,
// and so on; cards without instances may be left out at the end. It fails if NVIDIA's placement rules do not allow
// it.
//
// Counts that can be shared out evenly are, over as many cards as possible: nodes are as a rule cut into cards of one
// layout. The rest is packed, largest instances first. Since the node says only how many instances there are, which
// card has which is a guess; that the numbers on the node are right is not.
func layoutMIG(counts []migCount, cards int, product string, memory int64) ([][]topology.MIGInstance, bool) {
	items, ok := migItems(counts, product, memory)
	if !ok || memorySlices(items) > slicesPerCard*cards {
		return nil, false
	}
	for n := cards; n > 1; n-- {
		part, ok := evenPart(items, n)
		if !ok {
			continue
		}
		if f := newMIGFit(part, 1); f.place(0) {
			one := f.layout()[0]
			all := make([][]topology.MIGInstance, n)
			for i := range all {
				all[i] = slices.Clone(one)
			}
			return all, true
		}
	}
	f := newMIGFit(items, cards)
	if !f.place(0) {
		return nil, false
	}
	return f.layout(), true
}

// memorySlices adds up the sizes of instances.
func memorySlices(items []migItem) int {
	n := 0
	for i := range items {
		n += items[i].at.size
	}
	return n
}

// migItem is one instance to be placed.
type migItem struct {
	migCount
	at placement
}

// migItems lists every instance, the hardest to place first. No card has more than eight, so a longer list cannot
// fit.
func migItems(counts []migCount, product string, memory int64) ([]migItem, bool) {
	gb := int((memory + 1<<29) >> 30)
	if gb == 0 {
		profiles := make([]migProfile, len(counts))
		for i := range counts {
			profiles[i] = counts[i].profile
		}
		gb = cardGB(profiles)
	}
	var items []migItem
	for _, c := range counts {
		at, ok := placementOf(c.profile, product, gb)
		if !ok || c.count > slicesPerCard*topology.MaxCards {
			return nil, false
		}
		for range c.count {
			items = append(items, migItem{migCount: c, at: at})
		}
	}
	slices.SortStableFunc(items, func(a, b migItem) int {
		return cmp.Or(
			cmp.Compare(b.at.size, a.at.size),
			cmp.Compare(len(a.at.starts), len(b.at.starts)),
			cmp.Compare(a.profile.most(), b.profile.most()),
			cmp.Compare(a.profile.name, b.profile.name),
		)
	})
	return items, len(items) > 0
}

// evenPart returns one nth of the items, if every profile's count can be divided by n.
func evenPart(items []migItem, n int) ([]migItem, bool) {
	var part []migItem
	for i := 0; i < len(items); {
		count := items[i].count
		if count%n != 0 {
			return nil, false
		}
		part = append(part, items[i:i+count/n]...)
		i += count
	}
	return part, true
}

// migFit is a depth-first search for places. Equal instances are placed in ascending order of card and start, and of
// the cards that are still empty only the first is tried, so that no layout is tried twice.
type migFit struct {
	items []migItem
	card  []int // by item
	start []int // by item, the position in its starts
	used  []uint64
	steps int
}

func newMIGFit(items []migItem, cards int) *migFit {
	return &migFit{items: items, card: make([]int, len(items)), start: make([]int, len(items)), used: make([]uint64, cards)}
}

// place finds places for items i and up.
func (f *migFit) place(i int) bool {
	if i == len(f.items) {
		return true
	}
	item := &f.items[i]
	card, start := 0, 0
	if i > 0 && f.items[i-1].profile.name == item.profile.name {
		card, start = f.card[i-1], f.start[i-1]+1
		if item.profile.single {
			card, start = card+1, 0
		}
	}
	for ; card < len(f.used); card, start = card+1, 0 {
		empty := f.used[card] == 0
		for ; start < len(item.at.starts); start++ {
			if f.steps++; f.steps > maxFitSteps {
				return false
			}
			mask := topology.MIGInstance{Start: item.at.starts[start], Size: item.at.size}.SliceMask()
			if f.used[card]&mask != 0 {
				continue
			}
			f.used[card] |= mask
			f.card[i], f.start[i] = card, start
			if f.place(i + 1) {
				return true
			}
			f.used[card] &^= mask
			if item.at.size == 1 {
				break // only instances of one slice follow, and to them every slice is like the other
			}
		}
		if empty {
			return false // every other empty card is like this one
		}
	}
	return false
}

// layout returns what place found, the instances of each card by their first slice.
func (f *migFit) layout() [][]topology.MIGInstance {
	out := make([][]topology.MIGInstance, len(f.used))
	for i, item := range f.items {
		out[f.card[i]] = append(out[f.card[i]], topology.MIGInstance{
			Profile: intern(item.profile.name), Start: item.at.starts[f.start[i]], Size: item.at.size, VRAMBytes: item.bytes,
		})
	}
	for _, card := range out {
		slices.SortFunc(card, func(a, b topology.MIGInstance) int { return cmp.Compare(a.Start, b.Start) })
	}
	return out
}
