package topology

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// sharedTopo returns the folder with readouts of real machines, which stands beside the repository and not in it.
func sharedTopo(t testing.TB) string {
	t.Helper()
	shared := filepath.Join(filepath.Dir(checkout.Root(t)), "shared", "topo")
	if _, err := os.Stat(shared); err != nil {
		t.Skipf("readouts of real machines are not here: %v", err)
	}
	return shared
}

const ownTopo = "testdata/topo"

func parseFile(t testing.TB, path string) *Matrix {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMatrix(f)
	if closeErr := f.Close(); closeErr != nil {
		t.Fatal(closeErr)
	}
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
	return m
}

// facts is what a readout says, in a form that can be read against the file by eye.
type facts struct {
	Links      []string // one row a GPU
	NUMA       []int
	NICs       []string // "name: link to GPU0, GPU1, ..."
	PCIeSwitch string   // one word a GPU, "-" for none
	PCIeRoot   string
}

func factsOf(m *Matrix) facts {
	var f facts
	var switches, roots []string
	for i, g := range m.GPUs {
		var row []string
		for j := range m.GPUs {
			row = append(row, m.Links[i][j].String())
		}
		f.Links = append(f.Links, strings.Join(row, " "))
		f.NUMA = append(f.NUMA, g.NUMA)
		switches = append(switches, shown(strings.TrimPrefix(g.PCIeSwitch, "switch")))
		roots = append(roots, shown(strings.TrimPrefix(g.PCIeRoot, "root")))
	}
	for _, nic := range m.NICs {
		row := []string{nic.Name + ":"}
		for _, l := range nic.Links {
			row = append(row, Link{Type: l}.String())
		}
		f.NICs = append(f.NICs, strings.Join(row, " "))
	}
	f.PCIeSwitch, f.PCIeRoot = strings.Join(switches, " "), strings.Join(roots, " ")
	return f
}

// allPairs is a matrix of n GPUs with one link everywhere.
func allPairs(n int, link string) []string {
	var rows []string
	for i := range n {
		row := slices.Repeat([]string{link}, n)
		row[i] = "X"
		rows = append(rows, strings.Join(row, " "))
	}
	return rows
}

var hybridCubeMeshRows = []string{
	"X NV1 NV1 NV2 NV2 SYS SYS SYS",
	"NV1 X NV2 NV1 SYS NV2 SYS SYS",
	"NV1 NV2 X NV2 SYS SYS NV1 SYS",
	"NV2 NV1 NV2 X SYS SYS SYS NV1",
	"NV2 SYS SYS SYS X NV1 NV1 NV2",
	"SYS NV2 SYS SYS NV1 X NV2 NV1",
	"SYS SYS NV1 SYS NV1 NV2 X NV2",
	"SYS SYS SYS NV1 NV2 NV1 NV2 X",
}

var sharedFacts = map[string]facts{
	"a800-8gpu-9nic-gpurows.txt": { // no row of GPU7: its links come from its column, the rest is unknown
		Links: allPairs(8, "NV8"),
		NUMA:  []int{0, 0, 0, 0, 1, 1, 1, NUMAUnknown},
		NICs: []string{
			"NIC0: NODE NODE NODE NODE SYS SYS SYS ?", "NIC1: SYS SYS SYS SYS PIX NODE NODE ?",
			"NIC2: PIX NODE NODE NODE SYS SYS SYS ?", "NIC3: SYS SYS SYS SYS NODE PIX NODE ?",
			"NIC4: NODE PIX NODE NODE SYS SYS SYS ?", "NIC5: SYS SYS SYS SYS NODE NODE PIX ?",
			"NIC6: NODE NODE PIX NODE SYS SYS SYS ?", "NIC7: SYS SYS SYS SYS NODE NODE NODE ?",
			"NIC8: NODE NODE NODE PIX SYS SYS SYS ?",
		},
		PCIeSwitch: "0 1 2 3 4 5 6 -", PCIeRoot: "0 1 2 3 4 5 6 -",
	},
	"aws-p4d.24xlarge-8gpu.txt": {
		Links: allPairs(8, "NV12"), NUMA: []int{0, 0, 0, 0, 1, 1, 1, 1},
		PCIeSwitch: "- - - - - - - -", PCIeRoot: "- - - - - - - -",
	},
	"dgx-a100-8gpu-10nic.txt": {
		Links: allPairs(8, "NV12"), NUMA: []int{3, 3, 1, 1, 7, 7, 5, 5},
		NICs: []string{
			"NIC0: PXB PXB SYS SYS SYS SYS SYS SYS", "NIC1: PXB PXB SYS SYS SYS SYS SYS SYS",
			"NIC2: SYS SYS PXB PXB SYS SYS SYS SYS", "NIC3: SYS SYS PXB PXB SYS SYS SYS SYS",
			"NIC4: SYS SYS SYS SYS PXB PXB SYS SYS", "NIC5: SYS SYS SYS SYS PXB PXB SYS SYS",
			"NIC6: SYS SYS SYS SYS SYS SYS PXB PXB", "NIC7: SYS SYS SYS SYS SYS SYS PXB PXB",
			"NIC8: SYS SYS SYS SYS SYS SYS SYS SYS", "NIC9: SYS SYS SYS SYS SYS SYS SYS SYS",
		},
		PCIeSwitch: "- - - - - - - -", PCIeRoot: "0 0 1 1 2 2 3 3",
	},
	"gb200-nvl72-computetray-4gpu-8nic.txt": {
		Links: allPairs(4, "NV18"), NUMA: []int{0, 0, 1, 1},
		NICs: []string{
			"NIC0: SYS SYS SYS SYS", "NIC1: SYS SYS SYS SYS", "NIC2: SYS SYS SYS SYS", "NIC3: SYS SYS SYS SYS",
			"NIC4: SYS SYS SYS SYS", "NIC5: SYS SYS SYS SYS", "NIC6: SYS SYS SYS SYS", "NIC7: SYS SYS SYS SYS",
		},
		PCIeSwitch: "- - - -", PCIeRoot: "- - - -",
	},
	"hgx-a100-8gpu-1nic.txt": {
		Links: allPairs(8, "NV12"), NUMA: []int{3, 3, 1, 1, 7, 7, 5, 5},
		NICs:       []string{"mlx5_0: SYS SYS PXB PXB SYS SYS SYS SYS"},
		PCIeSwitch: "- - - - - - - -", PCIeRoot: "- - 0 0 - - - -",
	},
	"hgx-h100-8gpu-10nic-gpurows.txt": {
		Links: allPairs(8, "NV18"), NUMA: []int{0, 0, 0, 0, 1, 1, 1, 1},
		NICs: []string{
			"NIC0: PIX SYS SYS SYS SYS SYS SYS SYS", "NIC1: SYS PIX SYS SYS SYS SYS SYS SYS",
			"NIC2: SYS SYS PIX SYS SYS SYS SYS SYS", "NIC3: SYS SYS SYS SYS SYS SYS SYS SYS",
			"NIC4: SYS SYS SYS SYS SYS SYS SYS SYS", "NIC5: SYS SYS SYS PIX SYS SYS SYS SYS",
			"NIC6: SYS SYS SYS SYS PIX SYS SYS SYS", "NIC7: SYS SYS SYS SYS SYS PIX SYS SYS",
			"NIC8: SYS SYS SYS SYS SYS SYS PIX SYS", "NIC9: SYS SYS SYS SYS SYS SYS SYS PIX",
		},
		PCIeSwitch: "0 1 2 3 4 5 6 7", PCIeRoot: "0 1 2 3 4 5 6 7",
	},
	"hgx-h100-8gpu-8nic-pix.txt": {
		Links: allPairs(8, "NV18"), NUMA: []int{0, 0, 0, 0, 1, 1, 1, 1},
		NICs: []string{
			"NIC0: PIX NODE NODE NODE SYS SYS SYS SYS", "NIC1: NODE PIX NODE NODE SYS SYS SYS SYS",
			"NIC2: NODE NODE PIX NODE SYS SYS SYS SYS", "NIC3: NODE NODE NODE PIX SYS SYS SYS SYS",
			"NIC4: SYS SYS SYS SYS PIX NODE NODE NODE", "NIC5: SYS SYS SYS SYS NODE PIX NODE NODE",
			"NIC6: SYS SYS SYS SYS NODE NODE PIX NODE", "NIC7: SYS SYS SYS SYS NODE NODE NODE PIX",
		},
		PCIeSwitch: "0 1 2 3 4 5 6 7", PCIeRoot: "0 1 2 3 4 5 6 7",
	},
	"l40s-4gpu-2nic-pcie.txt": {
		Links:      []string{"X NODE SYS SYS", "NODE X SYS SYS", "SYS SYS X NODE", "SYS SYS NODE X"},
		NUMA:       []int{0, 0, 1, 1},
		NICs:       []string{"NIC0: SYS SYS NODE NODE", "NIC1: SYS SYS NODE NODE"},
		PCIeSwitch: "- - - -", PCIeRoot: "- - - -",
	},
	"pcie-8gpu-pairs-pix-phb.txt": {
		Links: []string{
			"X PIX PHB PHB SYS SYS SYS SYS", "PIX X PHB PHB SYS SYS SYS SYS",
			"PHB PHB X PIX SYS SYS SYS SYS", "PHB PHB PIX X SYS SYS SYS SYS",
			"SYS SYS SYS SYS X PIX PHB PHB", "SYS SYS SYS SYS PIX X PHB PHB",
			"SYS SYS SYS SYS PHB PHB X PIX", "SYS SYS SYS SYS PHB PHB PIX X",
		},
		NUMA:       []int{0, 0, 0, 0, 1, 1, 1, 1},
		PCIeSwitch: "0 0 1 1 2 2 3 3", PCIeRoot: "0 0 0 0 1 1 1 1",
	},
	"v100-dgx1-8gpu-hybridcubemesh.txt": { // no NUMA column: grouped by CPU affinity
		Links: hybridCubeMeshRows, NUMA: []int{0, 0, 0, 0, 1, 1, 1, 1},
		NICs:       []string{"mlx5_0: NODE NODE PIX PIX SYS SYS SYS SYS"},
		PCIeSwitch: "- - 0 0 - - - -", PCIeRoot: "- - 0 0 - - - -",
	},
}

var ownFacts = map[string]facts{
	"dgx2-16gpu-8nic-tabs.txt": {
		Links: allPairs(16, "NV6"), NUMA: []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
		NICs: []string{
			"NIC0: PIX PIX NODE NODE NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS SYS SYS",
			"NIC1: NODE NODE PIX PIX NODE NODE NODE NODE SYS SYS SYS SYS SYS SYS SYS SYS",
			"NIC2: NODE NODE NODE NODE PIX PIX NODE NODE SYS SYS SYS SYS SYS SYS SYS SYS",
			"NIC3: NODE NODE NODE NODE NODE NODE PIX PIX SYS SYS SYS SYS SYS SYS SYS SYS",
			"NIC4: SYS SYS SYS SYS SYS SYS SYS SYS PIX PIX NODE NODE NODE NODE NODE NODE",
			"NIC5: SYS SYS SYS SYS SYS SYS SYS SYS NODE NODE PIX PIX NODE NODE NODE NODE",
			"NIC6: SYS SYS SYS SYS SYS SYS SYS SYS NODE NODE NODE NODE PIX PIX NODE NODE",
			"NIC7: SYS SYS SYS SYS SYS SYS SYS SYS NODE NODE NODE NODE NODE NODE PIX PIX",
		},
		PCIeSwitch: "0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7", PCIeRoot: "0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7",
	},
	"old-driver-4gpu-soc.txt": {
		Links: []string{"X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X PXB", "SYS SYS PXB X"}, NUMA: []int{0, 0, 1, 1},
		NICs:       []string{"mlx5_bond_0: PHB PHB SYS SYS", "ibp12s0: SYS SYS PIX PXB"},
		PCIeSwitch: "0 0 1 -", PCIeRoot: "0 0 1 1",
	},
	"one-gpu-tabs.txt": {Links: []string{"X"}, NUMA: []int{0}, PCIeSwitch: "-", PCIeRoot: "-"},
	"reversed-4gpu-crlf.txt": {
		Links: []string{"X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X PIX", "SYS SYS PIX X"}, NUMA: []int{0, 0, 1, 1},
		PCIeSwitch: "0 0 1 1", PCIeRoot: "0 0 1 1",
	},
	"rows-cut-4gpu-2nic.txt": { // GPU2 and GPU3 have columns and the adapters' rows only
		Links:      []string{"X NV4 NV4 NV4", "NV4 X NV4 NV4", "NV4 NV4 X ?", "NV4 NV4 ? X"},
		NUMA:       []int{0, 0, NUMAUnknown, NUMAUnknown},
		NICs:       []string{"NIC0: PIX PXB SYS SYS", "NIC1: SYS SYS PXB PIX"},
		PCIeSwitch: "0 - - 1", PCIeRoot: "0 0 1 1",
	},
	"vm-4gpu-blank-numa-tabs.txt": {
		Links: []string{"X NV1 NV1 NV2", "NV1 X NV2 NV1", "NV1 NV2 X NV2", "NV2 NV1 NV2 X"},
		NUMA:  []int{0, 0, 0, 0}, PCIeSwitch: "- - - -", PCIeRoot: "- - - -",
	},
}

func TestParseMatrixFiles(t *testing.T) {
	for name, set := range map[string]struct {
		dir  func(testing.TB) string
		want map[string]facts
	}{
		"shared": {dir: sharedTopo, want: sharedFacts},
		"own":    {dir: func(testing.TB) string { return ownTopo }, want: ownFacts},
	} {
		t.Run(name, func(t *testing.T) {
			dir := set.dir(t)
			files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
			if err != nil {
				t.Fatal(err)
			}
			found := make(map[string]bool)
			for _, path := range files {
				file := filepath.Base(path)
				found[file] = true
				t.Run(file, func(t *testing.T) {
					m := parseFile(t, path)
					if want, ok := set.want[file]; !ok {
						t.Logf("no expectation for this file, it need only parse; it says\n%+v", factsOf(m))
					} else if diff := cmp.Diff(want, factsOf(m)); diff != "" {
						t.Errorf("(-want +got)\n%s", diff)
					}
					spec, err := m.Spec(nil, "NVIDIA H100 80GB HBM3", 80<<30)
					if err != nil {
						t.Fatal(err)
					}
					node, err := New(spec, DefaultRates())
					if err != nil {
						t.Fatal(err)
					}
					if node.Usable() != node.All() {
						t.Errorf("usable %v of %v", node.Usable(), node.All())
					}
				})
			}
			for file := range set.want {
				if !found[file] {
					t.Errorf("file %s is gone", file)
				}
			}
		})
	}
}
