package inventory

import (
	"fmt"
	"sort"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// readAllocatable makes cards of the counts in the node's status: as many as nvidia.com/gpu says, of unknown size and
// links, and the fewest cards in MIG mode that hold the instances of nvidia.com/mig-<profile>. Which card is which is
// a fiction; that the numbers on the node are right is not.
func readAllocatable(in *input, r *report) (topology.Spec, bool) {
	whole := in.total(resourceGPU)
	counts, ok := in.migCounts(r)
	if !ok {
		counts = nil // without the rest of them, the layout of none is known
	}
	if whole == 0 && len(counts) == 0 {
		in.offered(resourceGPU, r) // for its report on an amount that is no count
		return topology.Spec{}, false
	}
	if whole > topology.MaxCards {
		r.add(statusField(resourceGPU), strconv.FormatInt(whole, 10), fmt.Sprintf(
			"a node has at most %d cards: the resource counts shares of cards, and nothing says of how many", topology.MaxCards))
		return topology.Spec{}, false
	}
	cards := flatCards(int(whole))
	if len(counts) > 0 {
		mig, ok := fewestMIGCards(counts, topology.MaxCards-int(whole))
		if !ok {
			r.add(migPrefix+counts[0].profile.name, strconv.Itoa(counts[0].count),
				"MIG instances do not fit the cards of one node: ignored")
		}
		cards = append(cards, mig...)
	}
	return topology.Spec{Cards: cards}, len(cards) > 0
}

// fewestMIGCards makes the fewest cards, up to most, that hold the instances.
func fewestMIGCards(counts []migCount, most int) ([]topology.Card, bool) {
	var layout [][]topology.MIGInstance
	n := sort.Search(most, func(n int) bool {
		found, ok := layoutMIG(counts, n+1, "", 0)
		if ok {
			layout = found // the last success of the search is the smallest
		}
		return ok
	}) + 1
	if n > most {
		return nil, false
	}
	cards := flatCards(n)
	for i := range cards {
		cards[i].MIGEnabled = true
		if i < len(layout) {
			cards[i].MIG = layout[i]
		}
	}
	return cards, true
}
