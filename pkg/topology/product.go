package topology

import "strings"

// nvlinkClass groups products whose NVLinks run at one rate; see NVLinkRates.
type nvlinkClass uint8

const (
	nvlinkOther nvlinkClass = iota
	nvlinkPascal
	nvlinkVolta
	nvlinkAmpere
	nvlinkGA10x
	nvlinkHopper
	nvlinkBlackwell
)

// model is what one product's data sheet says about its connections.
type model struct {
	nvlink nvlinkClass
	// pcie is the PCIe generation of the card's slot side, 3 to 6.
	pcie int
	// links is the number of NVLinks of one card that is wired to NVSwitches; 0 for a product that never is.
	links uint8
}

// worstModel stands for a product that the table does not know: no result may be better because of it.
var worstModel = model{nvlink: nvlinkOther, pcie: 3}

// models is keyed by the one word of a product name that names the chip and board. PCIe generation and number
// of NVLinks are those of NVIDIA's data sheets; cards that are sold with and without an NVLink connector differ
// only in what their matrix shows.
var models = map[string]model{
	"P100":  {nvlink: nvlinkPascal, pcie: 3},
	"P40":   {pcie: 3},
	"P4":    {pcie: 3},
	"V100":  {nvlink: nvlinkVolta, pcie: 3, links: 6},
	"V100S": {nvlink: nvlinkVolta, pcie: 3},
	"T4":    {pcie: 3},
	"A100":  {nvlink: nvlinkAmpere, pcie: 4, links: 12},
	"A800":  {nvlink: nvlinkAmpere, pcie: 4, links: 8},
	"A30":   {nvlink: nvlinkAmpere, pcie: 4},
	"A40":   {nvlink: nvlinkGA10x, pcie: 4},
	"A6000": {nvlink: nvlinkGA10x, pcie: 4},
	"3090":  {nvlink: nvlinkGA10x, pcie: 4},
	"A10":   {pcie: 4},
	"A10G":  {pcie: 4},
	"A16":   {pcie: 4},
	"A2":    {pcie: 4},
	"4090":  {pcie: 4},
	"L4":    {pcie: 4},
	"L20":   {pcie: 4},
	"L40":   {pcie: 4},
	"L40S":  {pcie: 4},
	"H100":  {nvlink: nvlinkHopper, pcie: 5, links: 18},
	"H800":  {nvlink: nvlinkHopper, pcie: 5, links: 8},
	"H200":  {nvlink: nvlinkHopper, pcie: 5, links: 18},
	"H20":   {nvlink: nvlinkHopper, pcie: 5, links: 18},
	"GH200": {nvlink: nvlinkHopper, pcie: 5, links: 18},
	"B100":  {nvlink: nvlinkBlackwell, pcie: 5, links: 18},
	"B200":  {nvlink: nvlinkBlackwell, pcie: 5, links: 18},
	"GB200": {nvlink: nvlinkBlackwell, pcie: 5, links: 18},
	"B300":  {nvlink: nvlinkBlackwell, pcie: 6, links: 18},
	"GB300": {nvlink: nvlinkBlackwell, pcie: 6, links: 18},
	"5090":  {pcie: 5},
}

// productWords splits a product name into upper-case words, so that the spelling of nvidia-smi
// ("NVIDIA A100-SXM4-40GB"), of GPU Feature Discovery ("NVIDIA-A100-SXM4-40GB") and of HAMi ("NVIDIA-Tesla P4")
// read alike. The maker's name, the brand "Tesla" and what GPU Feature Discovery adds for time slicing ("-SHARED")
// and for MIG ("-MIG-1g.5gb") are left out.
func productWords(product string) []string {
	fields := strings.FieldsFunc(strings.ToUpper(product), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_' || r == '\t'
	})
	words := fields[:0]
	for _, f := range fields {
		switch f {
		case "NVIDIA", "TESLA", "SHARED":
			continue
		case "MIG":
			return words
		}
		words = append(words, f)
	}
	return words
}

// canonicalProduct is one spelling for all spellings of a product.
func canonicalProduct(product string) string { return strings.Join(productWords(product), " ") }

// modelOf finds the data of a product, worstModel if there are none.
func modelOf(product string) model {
	for _, w := range productWords(product) {
		if m, ok := models[w]; ok {
			return m
		}
	}
	return worstModel
}
