package inventory

import (
	"fmt"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// faultUnlisted is the fault of an index that the source leaves out.
const faultUnlisted = "not listed by its source"

// mib is the unit in which labels and node agents give memory.
const mib = int64(1) << 20

func cardField(i int) string { return "cards[" + strconv.Itoa(i) + "]" }

// closeCard makes a card unusable and says why; the first reason stays.
func closeCard(c *topology.Card, fault string) {
	c.Healthy = false
	if c.Fault == "" {
		c.Fault = fault
	}
}

// listedCard is a card with the index that its source gives it.
type listedCard struct {
	index int
	card  topology.Card
}

// placeCards puts cards at their indices. An index that the source leaves out gets a closed card, so that every other
// card keeps the index by which the node knows it.
func placeCards(listed []listedCard) ([]topology.Card, error) {
	count := 0
	for _, l := range listed {
		if l.index < 0 || l.index >= topology.MaxCards {
			return nil, &topology.SpecError{Field: "index", Value: strconv.Itoa(l.index),
				Reason: fmt.Sprintf("the index of a card is 0 to %d", topology.MaxCards-1)}
		}
		count = max(count, l.index+1)
	}
	cards := make([]topology.Card, count)
	taken := topology.GPUSet(0)
	for _, l := range listed {
		if taken.Has(l.index) {
			return nil, &topology.SpecError{Field: "index", Value: strconv.Itoa(l.index), Reason: "two cards have this index"}
		}
		taken = taken.With(l.index)
		cards[l.index] = l.card
	}
	for i := range cards {
		if !taken.Has(i) {
			cards[i] = topology.Card{NUMA: topology.NUMAUnknown, Fault: faultUnlisted}
		}
	}
	return cards, nil
}

// flatCards makes n healthy cards of which nothing but the count is known.
func flatCards(n int) []topology.Card {
	cards := make([]topology.Card, n)
	for i := range cards {
		cards[i] = topology.Card{NUMA: topology.NUMAUnknown, Healthy: true}
	}
	return cards
}

// memoryBytes turns MiB into bytes. 0, a negative size and one that no card has are faults: a size that was given and
// makes no sense must not pass for one that was not given.
func memoryBytes(amount int64) (bytes int64, fault string) {
	if amount <= 0 || amount > topology.MaxVRAMBytes/mib {
		return 0, fmt.Sprintf("memory is %d MiB", amount)
	}
	return amount * mib, ""
}

// catalogueLinks finds the connections of a machine whose source names its cards but not their links: those of the
// catalogue for that product and count, nil if it has none. inOrder says that the source's indices are those of
// nvidia-smi; without it only a machine whose pairs are all alike is recognised, since any order of its cards is
// right. Where the source puts two cards on different NUMA nodes, a PCIe path between them is SYS whatever the
// catalogue assumes.
func catalogueLinks(cards []topology.Card, inOrder bool) [][]topology.Link {
	product := ""
	for i := range cards {
		switch {
		case cards[i].Product == "" || cards[i].Product == product:
		case product == "":
			product = cards[i].Product
		default:
			return nil // two products: no machine of the catalogue
		}
	}
	if product == "" {
		return nil
	}
	spec, ok := topology.Lookup(product, len(cards))
	if !ok || (!inOrder && !uniform(spec.Links)) {
		return nil
	}
	for i, row := range spec.Links {
		for j, l := range row {
			a, b := cards[i].NUMA, cards[j].NUMA
			if a != b && a != topology.NUMAUnknown && b != topology.NUMAUnknown && l.Type != topology.LinkNVLink {
				row[j] = topology.Weaker(l, topology.Link{Type: topology.LinkSYS})
			}
		}
	}
	return spec.Links
}

// uniform reports whether every pair of cards is joined alike.
func uniform(links [][]topology.Link) bool {
	for i, row := range links {
		for j, l := range row {
			if i != j && l != links[0][1] {
				return false
			}
		}
	}
	return true
}
