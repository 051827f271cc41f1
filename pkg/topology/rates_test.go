package topology

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everyLink lists all links from best to worst.
func everyLink() []Link {
	var out []Link
	for n := 255; n > 0; n-- {
		out = append(out, Link{Type: LinkNVLink, NVLinks: uint8(n)})
	}
	for _, t := range []LinkType{LinkPIX, LinkPXB, LinkPHB, LinkNODE, LinkSYS, LinkUnknown} {
		out = append(out, Link{Type: t})
	}
	return out
}

// everyProduct lists the catalogue's products and every model of the table, and products that no table knows.
func everyProduct() []string {
	out := []string{"", "AMD Instinct MI300X", "NVIDIA", "MIG"}
	for m := range models {
		out = append(out, "NVIDIA "+m)
	}
	for _, m := range Catalogue() {
		out = append(out, m.Product)
	}
	return out
}

// TestPairMonotone checks for all products and pairs of products that a better link is always faster.
func TestPairMonotone(t *testing.T) {
	rates := DefaultRates()
	if err := rates.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, product := range everyProduct() {
		for _, other := range []string{product, "", h100, "Tesla T4"} {
			a, b := Card{Product: product}, Card{Product: other}
			above := Bandwidth(math.MaxInt64)
			for _, l := range everyLink() {
				got := rates.Pair(a, b, l)
				if got <= 0 || got >= above {
					t.Errorf("%q to %q: %v has %v, the next better link %v", product, other, l, got, above)
				}
				if back := rates.Pair(b, a, l); back != got {
					t.Errorf("%q to %q: %v has %v, and %v back", product, other, l, got, back)
				}
				above = got
			}
			if got := rates.Pair(a, b, Link{Type: LinkSelf}); got != 0 {
				t.Errorf("%q: a card and itself have %v", product, got)
			}
		}
	}
}

func TestPairValues(t *testing.T) {
	nv := func(n uint8) Link { return Link{Type: LinkNVLink, NVLinks: n} }
	for name, tc := range map[string]struct {
		a, b string
		link Link
		want float64
	}{
		"V100 NV2":                    {a: "Tesla V100-SXM2-16GB", link: nv(2), want: 40},
		"A100 NV12":                   {a: "NVIDIA A100-SXM4-40GB", link: nv(12), want: 240},
		"A100 NV12 as GFD spells":     {a: "NVIDIA-A100-SXM4-40GB-SHARED", link: nv(12), want: 240},
		"A100 NV12 with MIG single":   {a: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", link: nv(12), want: 240},
		"A40 NV4":                     {a: "NVIDIA A40", link: nv(4), want: 48},
		"H100 NV18":                   {a: h100, link: nv(18), want: 370.8},
		"H100 NV1 is above PIX":       {a: h100, link: nv(1), want: 48.001},
		"H100 PIX":                    {a: h100, link: Link{Type: LinkPIX}, want: 48},
		"H100 PXB":                    {a: h100, link: Link{Type: LinkPXB}, want: 44.16},
		"H100 PHB":                    {a: h100, link: Link{Type: LinkPHB}, want: 39.84},
		"H100 NODE":                   {a: h100, link: Link{Type: LinkNODE}, want: 35.04},
		"H100 SYS":                    {a: h100, link: Link{Type: LinkSYS}, want: 27.84},
		"H100 unknown":                {a: h100, link: Link{}, want: 1},
		"GB200 NV18":                  {a: "NVIDIA GB200", link: nv(18), want: 721.8},
		"L40S NODE":                   {a: "NVIDIA L40S", link: Link{Type: LinkNODE}, want: 17.52},
		"T4 SYS":                      {a: "Tesla T4", link: Link{Type: LinkSYS}, want: 6.96},
		"T4 as HAMi spells":           {a: "NVIDIA-Tesla T4", link: Link{Type: LinkPIX}, want: 12},
		"unknown product":             {a: "NVIDIA Z9000", link: nv(18), want: 216},
		"two products: the slower":    {a: h100, b: "Tesla T4", link: Link{Type: LinkPIX}, want: 12},
		"a link type that is not one": {a: h100, link: Link{Type: 99}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.b == "" {
				tc.b = tc.a
			}
			if got := DefaultRates().Pair(Card{Product: tc.a}, Card{Product: tc.b}, tc.link).GBps(); got != tc.want {
				t.Errorf("got %v GB/s, want %v", got, tc.want)
			}
		})
	}
}

func TestRatesOverride(t *testing.T) {
	rates := DefaultRates()
	rates.NVLink.Hopper = 25_000
	rates.Products = []ProductRates{
		{Product: "NVIDIA-Z9000", NVLink: 100_000, PCIe: 200_000},
		{Product: "NVIDIA Z9000", NVLink: 1, PCIe: 50_000},
	}
	if err := rates.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		product string
		link    Link
		want    Bandwidth
	}{
		"class":                 {product: h100, link: Link{Type: LinkNVLink, NVLinks: 18}, want: 450_000},
		"product NVLink":        {product: "NVIDIA Z9000", link: Link{Type: LinkNVLink, NVLinks: 4}, want: 400_000},
		"product PCIe":          {product: "NVIDIA-Z9000-MIG-1g.5gb", link: Link{Type: LinkSYS}, want: 116_000},
		"other product as ever": {product: "NVIDIA Z9000 NVL", link: Link{Type: LinkPIX}, want: 12_000},
	} {
		t.Run(name, func(t *testing.T) {
			c := Card{Product: tc.product}
			if got := rates.Pair(c, c, tc.link); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRatesValidate(t *testing.T) {
	const aRate = "a rate must be above 0 and at most 10000000 MB/s"
	for name, tc := range map[string]struct {
		change func(*Rates)
		want   SpecError
	}{
		"zero value":     {change: func(r *Rates) { *r = Rates{} }, want: SpecError{Field: "rates.nvlink.Pascal", Value: "0", Reason: aRate}},
		"negative":       {change: func(r *Rates) { r.PCIe.Gen4 = -1 }, want: SpecError{Field: "rates.pcie.Gen4", Value: "-1", Reason: aRate}},
		"absurd":         {change: func(r *Rates) { r.NVLink.Hopper = math.MaxInt64 }, want: SpecError{Field: "rates.nvlink.Hopper", Value: "9223372036854775807", Reason: aRate}},
		"unknown of 0":   {change: func(r *Rates) { r.Unknown = 0 }, want: SpecError{Field: "rates.unknown", Value: "0", Reason: aRate}},
		"product NVLink": {change: func(r *Rates) { r.Products = []ProductRates{{Product: "x", PCIe: 12_000}} }, want: SpecError{Field: "rates.products[0].nvlink", Value: "0", Reason: aRate}},
		"unknown above SYS": {change: func(r *Rates) { r.Unknown = 6_960 }, want: SpecError{Field: "rates.pcie.Gen3", Value: "12000",
			Reason: "paths over this slot do not fall from PIX to SYS to an unknown link (6960 MB/s)"}},
		"a slot too slow to tell paths apart": {change: func(r *Rates) { r.Products = []ProductRates{{Product: "x", NVLink: 1, PCIe: 3}} }, want: SpecError{Field: "rates.products[0].pcie", Value: "3",
			Reason: "paths over this slot do not fall from PIX to SYS to an unknown link (1000 MB/s)"}},
		"percent equal":     {change: func(r *Rates) { r.Percent.PHB = 92 }, want: SpecError{Field: "rates.percent.PHB", Value: "92", Reason: "must be at least 1 and below the percentage of the next shorter path, 92"}},
		"percent above 100": {change: func(r *Rates) { r.Percent.PXB = 101 }, want: SpecError{Field: "rates.percent.PXB", Value: "101", Reason: "must be at least 1 and below the percentage of the next shorter path, 100"}},
		"percent of 0":      {change: func(r *Rates) { r.Percent.SYS = 0 }, want: SpecError{Field: "rates.percent.SYS", Value: "0", Reason: "must be at least 1 and below the percentage of the next shorter path, 73"}},
	} {
		t.Run(name, func(t *testing.T) {
			rates := DefaultRates()
			tc.change(&rates)
			var got *SpecError
			if err := rates.Validate(); !errors.As(err, &got) {
				t.Fatalf("got %v, want a *SpecError", err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if _, err := New(Spec{}, rates); !errors.As(err, &got) {
				t.Errorf("New: got %v, want a *SpecError", err)
			}
		})
	}
}

func TestBandwidth(t *testing.T) {
	for name, tc := range map[string]struct {
		gbps   float64
		want   Bandwidth
		string string
	}{
		"H100":     {gbps: 370.8, want: 370_800, string: "370.8 GB/s"},
		"rounded":  {gbps: 0.0006, want: 1, string: "0.0 GB/s"},
		"zero":     {gbps: 0, want: 0, string: "0.0 GB/s"},
		"negative": {gbps: -1, want: 0, string: "0.0 GB/s"},
		"NaN":      {gbps: math.NaN(), want: 0, string: "0.0 GB/s"},
		"infinite": {gbps: math.Inf(1), want: 0, string: "0.0 GB/s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FromGBps(tc.gbps); got != tc.want || got.String() != tc.string {
				t.Errorf("got %d (%v), want %d (%s)", got, got, tc.want, tc.string)
			}
		})
	}
}

// TestWeaker checks that Weaker is the minimum of a total order: the order of everyLink with X on top.
func TestWeaker(t *testing.T) {
	order := append([]Link{{Type: LinkSelf}}, everyLink()...)
	for i, a := range order {
		for j, b := range order {
			if got, want := Weaker(a, b), order[max(i, j)]; got != want {
				t.Fatalf("weaker of %v and %v: got %v, want %v", a, b, got, want)
			}
		}
	}
}

func TestParseLink(t *testing.T) {
	for name, tc := range map[string]struct {
		in      string
		want    Link
		wantErr string
	}{
		"SOC":       {in: "SOC", want: Link{Type: LinkSYS}},
		"unknown":   {in: "?", want: Link{}},
		"NV255":     {in: "NV255", want: Link{Type: LinkNVLink, NVLinks: 255}},
		"NV256":     {in: "NV256", wantErr: `link "NV256" is none of X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS`},
		"NV0":       {in: "NV0", wantErr: `link "NV0" is none of X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS`},
		"lower":     {in: "pix", wantErr: `link "pix" is none of X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS`},
		"empty":     {in: "", wantErr: `link "" is none of X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS`},
		"undefined": {in: Link{Type: 77}.String(), want: Link{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseLink(tc.in)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tc.want || text != tc.wantErr {
				t.Errorf("got %v, %q, want %v, %q", got, text, tc.want, tc.wantErr)
			}
		})
	}
}
