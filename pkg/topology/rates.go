package topology

import (
	"fmt"
	"strconv"
)

// maxRate bounds every configured rate (10 TB/s), so that the sum over all pairs of a node stays far inside int64.
const maxRate Bandwidth = 10_000_000

// NVLinkRates is the rate of one NVLink in one direction, by the kind of card.
//
// The defaults are the constants of NCCL's own model, which are what a ring gets and not what the data sheet says
// (NVIDIA/nccl src/graph/topo.h: SM60 18, SM70 20, SM80 20, SM86 12, SM90 20.6, SM100 40.1 GB/s).
type NVLinkRates struct {
	// Pascal is P100, Volta is V100, Ampere is A100, A800 and A30, GA10x is A40, RTX A6000 and RTX 3090,
	// Hopper is H100, H200, H800 and H20, Blackwell is B200, B300, GB200 and GB300.
	Pascal, Volta, Ampere, GA10x, Hopper, Blackwell Bandwidth
	// Other is any card not named above; the default is the slowest of the others.
	Other Bandwidth
}

// PCIeRates is the rate of a PCIe x16 slot in one direction, by generation. The defaults are NCCL's: 12 GB/s for
// Gen3 and twice that with each generation, as its logs show (24 for Gen4, 48 for Gen5). A card whose generation
// is not known counts as Gen3.
type PCIeRates struct {
	Gen3, Gen4, Gen5, Gen6 Bandwidth
}

// PathPercent is what is left of the slot's rate on a longer path, in percent, 1 to 99, falling from PXB to SYS;
// a PIX path has all of it.
type PathPercent struct {
	// PXB: no published figure; set between PIX and PHB.
	PXB int
	// PHB: NCCL counts peer traffic through an Intel host bridge 1.2 times, 1 / 1.2 = 83 %.
	PHB int
	// NODE: eight RTX 5090 (Gen5, 48 GB/s) reached 35 GB/s inside a socket, 73 % (NVIDIA/nccl issue 1639).
	NODE int
	// SYS: the same machine reached 28 GB/s across sockets, 58 %. For Gen3 and Gen4 that makes 7.0 and 13.9 GB/s;
	// NCCL's inter-socket constants for hosts of those years are 6 to 10 and 16 GB/s.
	SYS int
}

// ProductRates sets the rates of one product.
type ProductRates struct {
	// Product is the name in the spelling of nvidia-smi or of GPU Feature Discovery.
	Product string
	// NVLink is the rate of one NVLink, PCIe that of the slot.
	NVLink, PCIe Bandwidth
}

// Rates turns a link into a bandwidth. Start from DefaultRates; the zero value is not valid.
type Rates struct {
	NVLink  NVLinkRates
	PCIe    PCIeRates
	Percent PathPercent
	// Unknown is the rate of a link that no source described: above 0, below every SYS path.
	Unknown Bandwidth
	// Products overrides single products; the first entry that matches counts.
	Products []ProductRates
}

// DefaultRates returns the built-in rates; the fields name their sources.
func DefaultRates() Rates {
	return Rates{
		NVLink: NVLinkRates{
			Pascal: 18_000, Volta: 20_000, Ampere: 20_000, GA10x: 12_000, Hopper: 20_600, Blackwell: 40_100,
			Other: 12_000,
		},
		PCIe:    PCIeRates{Gen3: 12_000, Gen4: 24_000, Gen5: 48_000, Gen6: 96_000},
		Percent: PathPercent{PXB: 92, PHB: 83, NODE: 73, SYS: 58},
		Unknown: 1_000,
	}
}

// Validate checks that every rate is in (0, 10 TB/s] and that for every slot rate PIX > PXB > PHB > NODE > SYS >
// Unknown > 0. The error is a *SpecError that names the field, for example "rates.percent.NODE".
func (r Rates) Validate() error {
	for _, f := range r.fields() {
		if f.rate <= 0 || f.rate > maxRate {
			return &SpecError{Field: f.name, Value: strconv.FormatInt(int64(f.rate), 10), Reason: "a rate must be above 0 and at most 10000000 MB/s"}
		}
	}
	steps := [...]struct {
		name    string
		percent int
	}{{"PXB", r.Percent.PXB}, {"PHB", r.Percent.PHB}, {"NODE", r.Percent.NODE}, {"SYS", r.Percent.SYS}}
	above := 100
	for _, s := range steps {
		if s.percent < 1 || s.percent >= above {
			return &SpecError{Field: "rates.percent." + s.name, Value: strconv.Itoa(s.percent),
				Reason: fmt.Sprintf("must be at least 1 and below the percentage of the next shorter path, %d", above)}
		}
		above = s.percent
	}
	for _, f := range r.fields() {
		if f.slot && !r.falling(f.rate) {
			return &SpecError{Field: f.name, Value: strconv.FormatInt(int64(f.rate), 10),
				Reason: fmt.Sprintf("paths over this slot do not fall from PIX to SYS to an unknown link (%d MB/s)", r.Unknown)}
		}
	}
	return nil
}

// rateField is one configured rate; slot says that it is a PCIe slot's.
type rateField struct {
	name string
	rate Bandwidth
	slot bool
}

func (r Rates) fields() []rateField {
	fields := []rateField{
		{name: "rates.nvlink.Pascal", rate: r.NVLink.Pascal},
		{name: "rates.nvlink.Volta", rate: r.NVLink.Volta},
		{name: "rates.nvlink.Ampere", rate: r.NVLink.Ampere},
		{name: "rates.nvlink.GA10x", rate: r.NVLink.GA10x},
		{name: "rates.nvlink.Hopper", rate: r.NVLink.Hopper},
		{name: "rates.nvlink.Blackwell", rate: r.NVLink.Blackwell},
		{name: "rates.nvlink.Other", rate: r.NVLink.Other},
		{name: "rates.pcie.Gen3", rate: r.PCIe.Gen3, slot: true},
		{name: "rates.pcie.Gen4", rate: r.PCIe.Gen4, slot: true},
		{name: "rates.pcie.Gen5", rate: r.PCIe.Gen5, slot: true},
		{name: "rates.pcie.Gen6", rate: r.PCIe.Gen6, slot: true},
		{name: "rates.unknown", rate: r.Unknown},
	}
	for i, p := range r.Products {
		at := "rates.products[" + strconv.Itoa(i) + "]"
		fields = append(fields, rateField{name: at + ".nvlink", rate: p.NVLink}, rateField{name: at + ".pcie", rate: p.PCIe, slot: true})
	}
	return fields
}

// falling reports whether the paths over one slot are strictly ordered.
func (r Rates) falling(slot Bandwidth) bool {
	above := slot
	for _, t := range [...]LinkType{LinkPXB, LinkPHB, LinkNODE, LinkSYS, LinkUnknown} {
		rate := r.link(cardRates{pcie: slot}, Link{Type: t})
		if rate >= above || rate <= 0 {
			return false
		}
		above = rate
	}
	return true
}

// Pair returns the bandwidth of one direction between two cards joined by l; with cards of two products the lower
// of both. The result is 0 for LinkSelf and positive for every other link. For one product it falls strictly from
// more NVLinks to fewer, and then PIX, PXB, PHB, NODE, SYS, unknown, provided that Validate passes:
//
//	NV<k>    max(k x rate of one NVLink, PIX + k MB/s)
//	PIX      rate of the slot
//	PXB..SYS rate of the slot x percent / 100
//
// The lower bound of NV<k> keeps a pair that has NVLinks above the same pair without them, also where one slow link
// on paper carries less than the slot: H100, NV18: 18 x 20.6 = 370.8 GB/s; H100, NV1: 48.001 GB/s, above PIX.
func (r Rates) Pair(a, b Card, l Link) Bandwidth {
	return min(r.link(r.of(a.Product), l), r.link(r.of(b.Product), l))
}

// cardRates holds the two rates that matter of one card.
type cardRates struct {
	nvlink, pcie Bandwidth
}

// of finds the rates of a product.
func (r Rates) of(product string) cardRates {
	if len(r.Products) > 0 {
		name := canonicalProduct(product)
		for _, p := range r.Products {
			if canonicalProduct(p.Product) == name {
				return cardRates{nvlink: p.NVLink, pcie: p.PCIe}
			}
		}
	}
	m := modelOf(product)
	return cardRates{nvlink: r.NVLink.of(m.nvlink), pcie: r.PCIe.of(m.pcie)}
}

func (n NVLinkRates) of(c nvlinkClass) Bandwidth {
	switch c {
	case nvlinkPascal:
		return n.Pascal
	case nvlinkVolta:
		return n.Volta
	case nvlinkAmpere:
		return n.Ampere
	case nvlinkGA10x:
		return n.GA10x
	case nvlinkHopper:
		return n.Hopper
	case nvlinkBlackwell:
		return n.Blackwell
	case nvlinkOther:
		return n.Other
	}
	return n.Other
}

func (p PCIeRates) of(generation int) Bandwidth {
	switch generation {
	case 4:
		return p.Gen4
	case 5:
		return p.Gen5
	case 6:
		return p.Gen6
	}
	return p.Gen3
}

// link is Pair for one card.
func (r Rates) link(c cardRates, l Link) Bandwidth {
	switch l.Type {
	case LinkSelf:
		return 0
	case LinkNVLink:
		n := Bandwidth(l.NVLinks)
		return max(n*c.nvlink, c.pcie+n)
	case LinkPIX:
		return c.pcie
	case LinkPXB:
		return c.pcie * Bandwidth(r.Percent.PXB) / 100
	case LinkPHB:
		return c.pcie * Bandwidth(r.Percent.PHB) / 100
	case LinkNODE:
		return c.pcie * Bandwidth(r.Percent.NODE) / 100
	case LinkSYS:
		return c.pcie * Bandwidth(r.Percent.SYS) / 100
	case LinkUnknown:
		return r.Unknown
	}
	return r.Unknown
}
