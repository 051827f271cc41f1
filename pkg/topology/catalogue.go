package topology

import (
	"slices"
	"strconv"
	"strings"
)

// Machine is one entry of the catalogue of machine shapes.
type Machine struct {
	// Name is the machine's usual name, for example "HGX H100 8-GPU".
	Name string
	// Product is one spelling of the cards' name that selects the entry.
	Product string
	// Counts are the numbers of cards for which the entry stands, ascending.
	Counts []int
	// Bridged says that NVLink bridges join the cards in pairs; LookupBridged finds the entry, Lookup does not.
	Bridged bool
	// Assumes says what of the shape the product and the count do not tell: the catalogue takes the common case.
	Assumes string
}

// Catalogue lists the machine shapes that Lookup and LookupBridged know. The copy is the caller's.
func Catalogue() []Machine {
	var out []Machine
	for i := range entries {
		e := &entries[i]
		out = append(out, Machine{Name: e.name, Product: e.product, Counts: slices.Clone(e.counts), Assumes: e.assumes})
		if e.bridge > 0 {
			out = append(out, Machine{
				Name: e.name + " with NVLink bridges", Product: e.product, Counts: evenOf(e.counts), Bridged: true,
				Assumes: e.assumes + "; a bridge joins cards 0 and 1, 2 and 3, ...",
			})
		}
	}
	return out
}

// Lookup returns the shape of a machine with count cards of one product; false where the catalogue knows none.
// The product may be spelled as by nvidia-smi ("NVIDIA H100 80GB HBM3"), by GPU Feature Discovery
// ("NVIDIA-H100-80GB-HBM3", with "-SHARED" or "-MIG-1g.10gb" behind it) or by HAMi ("NVIDIA-Tesla T4").
//
// Cards of the result are healthy and bear the product as given; UUID, bus id, memory and adapters are unknown. NUMA
// and PCIe layout are assumptions, see Machine.Assumes. Cards that may be joined by NVLink bridges count as not
// joined.
func Lookup(product string, count int) (Spec, bool) { return lookup(product, count, false) }

// LookupBridged is Lookup for a machine whose PCIe cards are joined in pairs by NVLink bridges; false also where the
// product has no such bridge or count is odd.
func LookupBridged(product string, count int) (Spec, bool) { return lookup(product, count, true) }

func lookup(product string, count int, bridged bool) (Spec, bool) {
	words := productWords(product)
	for i := range entries {
		e := &entries[i]
		if e.matches(words) && slices.Contains(e.counts, count) && (!bridged || e.bridge > 0 && count%2 == 0) {
			return e.spec(product, count, bridged), true
		}
	}
	return Spec{}, false
}

// entry describes machines of one product.
type entry struct {
	name, product string
	// Words of the product's name: one of models, one of oneOf unless that list is empty, none of noneOf.
	models, oneOf, noneOf []string
	counts                []int
	// link gives the connection of cards i and j of n.
	link func(n, i, j int) Link
	// bridge is the number of NVLinks of a bridge between two cards; 0 if there is no such bridge.
	bridge uint8
	// perSwitch is the number of neighbouring cards under one PCIe switch; 0 if that is not known.
	perSwitch int
	assumes   string
}

func (e *entry) matches(words []string) bool {
	has := func(w string) bool { return slices.Contains(words, w) }
	return slices.ContainsFunc(e.models, has) && !slices.ContainsFunc(e.noneOf, has) &&
		(len(e.oneOf) == 0 || slices.ContainsFunc(e.oneOf, has))
}

func (e *entry) spec(product string, n int, bridged bool) Spec {
	s := Spec{Cards: make([]Card, n), Links: make([][]Link, n), Source: "catalogue: " + e.name}
	if bridged {
		s.Source += " with NVLink bridges"
	}
	for i := range n {
		s.Cards[i] = Card{Product: product, NUMA: socket(n, i), Healthy: true}
		if e.perSwitch > 0 {
			group := strconv.Itoa(i / e.perSwitch)
			s.Cards[i].PCIeSwitch, s.Cards[i].PCIeRoot = "switch"+group, "root"+group
		}
		s.Links[i] = make([]Link, n)
		for j := range n {
			switch {
			case i == j:
				s.Links[i][j] = Link{Type: LinkSelf}
			case bridged && i/2 == j/2:
				s.Links[i][j] = Link{Type: LinkNVLink, NVLinks: e.bridge}
			default:
				s.Links[i][j] = e.link(n, i, j)
			}
		}
	}
	return s
}

// socket returns the CPU socket of card i of n: the first half of the cards, rounded up, is on socket 0.
func socket(n, i int) int {
	if i < (n+1)/2 {
		return 0
	}
	return 1
}

// meshOf joins every pair by the same number of NVLinks, directly or through NVSwitches.
func meshOf(nvlinks uint8) func(n, i, j int) Link {
	return func(int, int, int) Link { return Link{Type: LinkNVLink, NVLinks: nvlinks} }
}

// sockets joins cards of one socket by NODE and others by SYS.
func sockets(n, i, j int) Link {
	if socket(n, i) == socket(n, j) {
		return Link{Type: LinkNODE}
	}
	return Link{Type: LinkSYS}
}

// cubeMesh holds the number of NVLinks between the eight V100-SXM2 of a DGX-1 and its like; 0 is a path over the
// sockets. The first four cards are the whole of a machine with four.
var cubeMesh = [8]string{
	"01122000",
	"10210200",
	"12020010",
	"21200001",
	"20000112",
	"02001021",
	"00101202",
	"00012120",
}

func hybridCubeMesh(_, i, j int) Link {
	if links := cubeMesh[i][j] - '0'; links > 0 {
		return Link{Type: LinkNVLink, NVLinks: links}
	}
	return Link{Type: LinkSYS}
}

func evenOf(counts []int) []int {
	var out []int
	for _, c := range counts {
		if c%2 == 0 {
			out = append(out, c)
		}
	}
	return out
}

// wordList splits a list of words in a table.
func wordList(s string) []string { return strings.Fields(s) }
