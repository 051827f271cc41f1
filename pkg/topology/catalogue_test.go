package topology

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rowsOf prints a matrix row by row.
func rowsOf(links [][]Link) []string {
	var out []string
	for _, row := range links {
		var cells []string
		for _, l := range row {
			cells = append(cells, l.String())
		}
		out = append(out, strings.Join(cells, " "))
	}
	return out
}

func TestLookup(t *testing.T) {
	for name, tc := range map[string]struct {
		product string
		count   int
		bridged bool
		want    []string
		numa    []int
		source  string
	}{
		"V100 cube mesh": {product: "Tesla V100-SXM2-16GB", count: 8, want: hybridCubeMeshRows, numa: []int{0, 0, 0, 0, 1, 1, 1, 1}, source: "catalogue: V100-SXM2 hybrid cube mesh"},
		"V100 half": {product: "Tesla-V100-SXM2-32GB", count: 4, want: []string{"X NV1 NV1 NV2", "NV1 X NV2 NV1", "NV1 NV2 X NV2", "NV2 NV1 NV2 X"},
			numa: []int{0, 0, 1, 1}, source: "catalogue: V100-SXM2 hybrid cube mesh"},
		"A100 x4": {product: "NVIDIA A100-SXM4-80GB", count: 4, want: allPairs(4, "NV4"), numa: []int{0, 0, 1, 1}, source: "catalogue: HGX A100 4-GPU"},
		"A100 x8": {product: "NVIDIA-A100-SXM4-80GB", count: 8, want: allPairs(8, "NV12"), numa: []int{0, 0, 0, 0, 1, 1, 1, 1}, source: "catalogue: HGX A100 8-GPU"},
		"H100 x4": {product: "NVIDIA-H100-80GB-HBM3", count: 4, want: allPairs(4, "NV6"), numa: []int{0, 0, 1, 1}, source: "catalogue: HGX H100 4-GPU"},
		"H100 x8 with MIG": {product: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", count: 8, want: allPairs(8, "NV18"), numa: []int{0, 0, 0, 0, 1, 1, 1, 1},
			source: "catalogue: HGX H100 8-GPU"},
		"H200 x8":     {product: "NVIDIA H200", count: 8, want: allPairs(8, "NV18"), numa: []int{0, 0, 0, 0, 1, 1, 1, 1}, source: "catalogue: HGX H200 8-GPU"},
		"H200 x4":     {product: "NVIDIA-H200", count: 4, want: allPairs(4, "NV6"), numa: []int{0, 0, 1, 1}, source: "catalogue: HGX H200 4-GPU"},
		"B200 x8":     {product: "NVIDIA B200", count: 8, want: allPairs(8, "NV18"), numa: []int{0, 0, 0, 0, 1, 1, 1, 1}, source: "catalogue: HGX B200 8-GPU"},
		"B200 x4":     {product: "NVIDIA-B200", count: 4, want: allPairs(4, "NV6"), numa: []int{0, 0, 1, 1}, source: "catalogue: B200 4-GPU"},
		"GB200 tray":  {product: "NVIDIA GB200", count: 4, want: allPairs(4, "NV18"), numa: []int{0, 0, 1, 1}, source: "catalogue: GB200 NVL72 compute tray"},
		"H100 one":    {product: h100, count: 1, want: []string{"X"}, numa: []int{0}, source: "catalogue: HGX H100 8-GPU"},
		"A100 PCIe":   {product: "NVIDIA A100 80GB PCIe", count: 2, want: []string{"X SYS", "SYS X"}, numa: []int{0, 1}, source: "catalogue: A100 PCIe"},
		"H100 PCIe 3": {product: "NVIDIA-H100-PCIe", count: 3, want: []string{"X NODE SYS", "NODE X SYS", "SYS SYS X"}, numa: []int{0, 0, 1}, source: "catalogue: H100 PCIe"},
		"H100 NVL bridged": {product: "NVIDIA H100 NVL", count: 4, bridged: true, want: []string{"X NV12 SYS SYS", "NV12 X SYS SYS", "SYS SYS X NV12", "SYS SYS NV12 X"},
			numa: []int{0, 0, 1, 1}, source: "catalogue: H100 PCIe with NVLink bridges"},
		"A100 PCIe bridged": {product: "NVIDIA-A100-PCIE-40GB", count: 2, bridged: true, want: []string{"X NV12", "NV12 X"}, numa: []int{0, 1}, source: "catalogue: A100 PCIe with NVLink bridges"},
		"T4 as HAMi spells": {product: "NVIDIA-Tesla T4", count: 1, want: []string{"X"}, numa: []int{0}, source: "catalogue: PCIe cards without NVLink"},
		"L4 shared":         {product: "NVIDIA-L4-SHARED", count: 2, want: []string{"X SYS", "SYS X"}, numa: []int{0, 1}, source: "catalogue: PCIe cards without NVLink"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, ok := lookup(tc.product, tc.count, tc.bridged)
			if !ok {
				t.Fatal("not found")
			}
			var numa []int
			for i, c := range spec.Cards {
				numa = append(numa, c.NUMA)
				if c.Product != tc.product || !c.Healthy || c.UUID != "" || c.VRAMBytes != 0 {
					t.Errorf("card %d: %+v", i, c)
				}
			}
			if diff := cmp.Diff([]any{tc.want, tc.numa, tc.source}, []any{rowsOf(spec.Links), numa, spec.Source}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for name, tc := range map[string]struct {
		product string
		count   int
		bridged bool
	}{
		"empty":              {product: "", count: 8},
		"unknown":            {product: "NVIDIA Z9000", count: 8},
		"other maker":        {product: "AMD Instinct MI300X", count: 8},
		"a part of a word":   {product: "NVIDIA L40SX", count: 4},
		"which H100":         {product: "NVIDIA H100", count: 8},
		"no such count":      {product: h100, count: 7},
		"no card":            {product: h100, count: 0},
		"negative":           {product: "NVIDIA L4", count: -1},
		"many":               {product: "NVIDIA L4", count: 9},
		"bridge, odd":        {product: "NVIDIA A100 80GB PCIe", count: 3, bridged: true},
		"bridge, none such":  {product: "NVIDIA L4", count: 2, bridged: true},
		"bridge on a module": {product: h100, count: 8, bridged: true},
	} {
		t.Run(name, func(t *testing.T) {
			if spec, ok := lookup(tc.product, tc.count, tc.bridged); ok {
				t.Errorf("found %+v", spec)
			}
		})
	}
}

// TestCatalogueSpellings checks every entry and count: both spellings give one shape, the graph is valid, and every
// entry says what it assumes.
func TestCatalogueSpellings(t *testing.T) {
	for _, m := range Catalogue() {
		t.Run(m.Name, func(t *testing.T) {
			find := Lookup
			if m.Bridged {
				find = LookupBridged
			}
			if len(m.Counts) == 0 || !slices.IsSorted(m.Counts) || m.Assumes == "" {
				t.Errorf("entry %+v", m)
			}
			for _, count := range m.Counts {
				smi, ok := find(m.Product, count)
				gfd, okGFD := find(strings.ReplaceAll(m.Product, " ", "-"), count)
				if !ok || !okGFD {
					t.Fatalf("%d cards: found %v, as GPU Feature Discovery spells it %v", count, ok, okGFD)
				}
				if count > 1 && smi.Source != "catalogue: "+m.Name {
					t.Errorf("%d cards: found %q", count, smi.Source)
				}
				node := newNode(t, smi)
				if node.Len() != count || node.Usable().Len() != count || node.Shape().Fingerprint() != newNode(t, gfd).Shape().Fingerprint() {
					t.Errorf("%d cards: %d cards, usable %v, or shapes differ", count, node.Len(), node.Usable())
				}
				if diff := cmp.Diff(rowsOf(smi.Links), rowsOf(node.Spec().Links)); diff != "" {
					t.Errorf("%d cards: lopsided (-entry +node)\n%s", count, diff)
				}
				if modelOf(m.Product) == worstModel {
					t.Errorf("product %q has no rates", m.Product)
				}
			}
		})
	}
}

// TestCatalogueModels checks that the rates know every model that the catalogue knows.
func TestCatalogueModels(t *testing.T) {
	for _, e := range entries {
		for _, model := range e.models {
			if _, ok := models[model]; !ok {
				t.Errorf("%s: no rates for %s", e.name, model)
			}
		}
	}
}

// TestCatalogueReadouts compares the catalogue with readouts of real machines: the links between GPUs must agree.
func TestCatalogueReadouts(t *testing.T) {
	dir := sharedTopo(t)
	for file, product := range map[string]string{
		"a800-8gpu-9nic-gpurows.txt":            "NVIDIA A800-SXM4-80GB",
		"aws-p4d.24xlarge-8gpu.txt":             "NVIDIA A100-SXM4-40GB",
		"dgx-a100-8gpu-10nic.txt":               "NVIDIA A100-SXM4-40GB",
		"gb200-nvl72-computetray-4gpu-8nic.txt": "NVIDIA GB200",
		"hgx-a100-8gpu-1nic.txt":                "NVIDIA A100-SXM4-80GB",
		"hgx-h100-8gpu-10nic-gpurows.txt":       h100,
		"hgx-h100-8gpu-8nic-pix.txt":            h100,
		"l40s-4gpu-2nic-pcie.txt":               "NVIDIA L40S",
		"v100-dgx1-8gpu-hybridcubemesh.txt":     "Tesla V100-SXM2-16GB",
	} {
		t.Run(file, func(t *testing.T) {
			m := parseFile(t, filepath.Join(dir, file))
			spec, ok := Lookup(product, len(m.GPUs))
			if !ok {
				t.Fatalf("no entry for %d cards of %s", len(m.GPUs), product)
			}
			if diff := cmp.Diff(rowsOf(m.Links), rowsOf(spec.Links)); diff != "" {
				t.Errorf("(-readout +catalogue)\n%s", diff)
			}
		})
	}
}
