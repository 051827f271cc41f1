package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	uuid0 = "GPU-5baec991-de63-c196-1766-04c38407e133"
	uuid1 = "GPU-39fc2446-cb50-2067-2867-d95efd470a2c"
	h100  = "NVIDIA H100 80GB HBM3"
)

func TestParseQuery(t *testing.T) {
	rows := []QueryRow{
		{Index: 0, UUID: uuid0, Name: h100, VRAMBytes: 81559 << 20, BusID: "00000000:1B:00.0"},
		{Index: 1, UUID: uuid1, Name: h100, VRAMBytes: 81559 << 20, BusID: "00000000:43:00.0"},
	}
	line0 := "0, " + uuid0 + ", " + h100 + ", 81559 MiB, 00000000:1B:00.0\n"
	line1 := "1, " + uuid1 + ", " + h100 + ", 81559 MiB, 00000000:43:00.0\n"
	header := "index, uuid, name, memory.total [MiB], pci.bus_id\n"
	for name, tc := range map[string]struct {
		in   string
		want []QueryRow
	}{
		"header":            {in: header + line0 + line1, want: rows},
		"no header":         {in: line0 + line1, want: rows},
		"CRLF and blanks":   {in: "\ufeff\r\n# gpus\r\n" + strings.ReplaceAll(header+"\n"+line0+line1, "\n", "\r\n"), want: rows},
		"nounits":           {in: strings.ReplaceAll(header+line0+line1, " MiB", ""), want: rows},
		"no blanks":         {in: strings.ReplaceAll(header, ", ", ",") + strings.ReplaceAll(line0+line1, ", ", ","), want: rows},
		"order of the rows": {in: header + line1 + line0, want: []QueryRow{rows[1], rows[0]}},
		"order of the columns, other columns, second names": {
			in: "gpu_bus_id, memory.total [MiB], GPU_NAME, gpu_uuid, index, driver_version\n" +
				"00000000:1B:00.0, 81559 MiB, " + h100 + ", " + uuid0 + ", 0, 570.133.20\n",
			want: rows[:1],
		},
		"some columns": {in: "index, memory.total [MiB]\n0, 15360 MiB\n", want: []QueryRow{{VRAMBytes: 15360 << 20}}},
		"not available": {
			in:   header + "0, [N/A], [Not Supported], [N/A], [N/A]\n1, N/A, , , \n",
			want: []QueryRow{{Index: 0}, {Index: 1}},
		},
		"an error in place of a value": {
			in:   header + "0, " + uuid0 + ", " + h100 + ", [Unknown Error], [GPU is lost]\n",
			want: []QueryRow{{UUID: uuid0, Name: h100, Fault: "memory.total reads [Unknown Error]"}},
		},
		"memory of 0": {
			in:   header + "0, " + uuid0 + ", " + h100 + ", 0 MiB, 00000000:1B:00.0\n",
			want: []QueryRow{{UUID: uuid0, Name: h100, BusID: "00000000:1B:00.0", Fault: "memory.total is 0 MiB"}},
		},
		"lower-case unit in the header": {in: "index, memory.total [mib]\n0, 1 MiB\n", want: []QueryRow{{VRAMBytes: 1 << 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseQuery(strings.NewReader(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseQueryErrors(t *testing.T) {
	const header = "index, uuid, memory.total [MiB]\n"
	for name, tc := range map[string]struct {
		in   string
		want ParseError
	}{
		"empty":                {in: "", want: ParseError{Line: 1, Reason: "no line of a GPU found"}},
		"header only":          {in: header, want: ParseError{Line: 1, Reason: "no line of a GPU found"}},
		"no index":             {in: "uuid, name\nGPU-1, x\n", want: ParseError{Line: 1, Column: "index", Value: "uuid, name", Reason: "the column is missing"}},
		"column twice":         {in: "index, uuid, gpu_uuid\n", want: ParseError{Line: 1, Column: "uuid", Value: "gpu_uuid", Reason: "the column stands twice"}},
		"cells":                {in: header + "0, GPU-1\n", want: ParseError{Line: 2, Value: "0, GPU-1", Reason: "the line has 2 cells, 3 columns are expected"}},
		"cells without header": {in: "0, GPU-1, x, 1 MiB\n", want: ParseError{Line: 1, Value: "0, GPU-1, x, 1 MiB", Reason: "the line has 4 cells, 5 columns are expected"}},
		"other output":         {in: "No devices were found\n", want: ParseError{Line: 1, Value: "No devices were found", Reason: "the line has 1 cells, 5 columns are expected"}},
		"index":                {in: "\n" + header + "x, GPU-1, 1 MiB\n", want: ParseError{Line: 3, Column: "index", Value: "x", Reason: "not a GPU index of 0 to 63"}},
		"index not given":      {in: header + "[N/A], GPU-1, 1 MiB\n", want: ParseError{Line: 2, Column: "index", Value: "[N/A]", Reason: "not a GPU index of 0 to 63"}},
		"negative index":       {in: header + "-1, GPU-1, 1 MiB\n", want: ParseError{Line: 2, Column: "index", Value: "-1", Reason: "not a GPU index of 0 to 63"}},
		"index 64":             {in: header + "64, GPU-1, 1 MiB\n", want: ParseError{Line: 2, Column: "index", Value: "64", Reason: "not a GPU index of 0 to 63"}},
		"index twice":          {in: header + "0, GPU-1, 1 MiB\n0, GPU-2, 1 MiB\n", want: ParseError{Line: 3, Column: "index", Value: "0", Reason: "stands twice"}},
		"memory":               {in: header + "0, GPU-1, 1e9\n", want: ParseError{Line: 2, Column: "memory.total", Value: "1e9", Reason: "not a memory of 0 to 16777216 MiB"}},
		"memory in GiB":        {in: header + "0, GPU-1, 80 GiB\n", want: ParseError{Line: 2, Column: "memory.total", Value: "80 GiB", Reason: "not a memory of 0 to 16777216 MiB"}},
		"negative memory":      {in: header + "0, GPU-1, -1 MiB\n", want: ParseError{Line: 2, Column: "memory.total", Value: "-1 MiB", Reason: "not a memory of 0 to 16777216 MiB"}},
		"memory overflows":     {in: header + "0, GPU-1, 9223372036854775807 MiB\n", want: ParseError{Line: 2, Column: "memory.total", Value: "9223372036854775807 MiB", Reason: "not a memory of 0 to 16777216 MiB"}},
		"memory NaN":           {in: header + "0, GPU-1, NaN\n", want: ParseError{Line: 2, Column: "memory.total", Value: "NaN", Reason: "not a memory of 0 to 16777216 MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := ParseQuery(strings.NewReader(tc.in))
			var got *ParseError
			if !errors.As(err, &got) {
				t.Fatalf("got %+v, error %v, want a *ParseError", rows, err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMatrixSpec(t *testing.T) {
	m, err := ParseMatrix(strings.NewReader("GPU1 GPU0 NIC0 CPU Affinity NUMA Affinity\nGPU1 X PIX SYS 8-15 1\nGPU0 PIX X PIX 0-7 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	pix, self := Link{Type: LinkPIX}, Link{Type: LinkSelf}
	spec := func(cards ...Card) Spec {
		for i := range cards {
			cards[i].NUMA, cards[i].PCIeSwitch, cards[i].PCIeRoot = i, "switch0", "root0"
		}
		return Spec{
			Cards: cards, Links: [][]Link{{self, pix}, {pix, self}},
			NICs: []NIC{{Name: "NIC0", Links: []LinkType{LinkPIX, LinkSYS}}}, Source: "nvidia-smi topo -m",
		}
	}
	for name, tc := range map[string]struct {
		rows    []QueryRow
		product string
		vram    int64
		want    Spec
	}{
		"matrix alone": {want: spec(Card{Healthy: true}, Card{Healthy: true})},
		"flags": {product: h100, vram: 5, want: spec(
			Card{Product: h100, VRAMBytes: 5, Healthy: true}, Card{Product: h100, VRAMBytes: 5, Healthy: true})},
		"rows by index, flags fill in": {
			rows: []QueryRow{{Index: 1, UUID: uuid1, Name: "NVIDIA L4", VRAMBytes: 9, BusID: "b"}, {Index: 0, UUID: uuid0}}, product: h100, vram: 5,
			want: spec(
				Card{UUID: uuid0, Product: h100, VRAMBytes: 5, Healthy: true},
				Card{UUID: uuid1, Product: "NVIDIA L4", VRAMBytes: 9, BusID: "b", Healthy: true}),
		},
		"a fault": {
			rows: []QueryRow{{Index: 0, Fault: "lost"}, {Index: 1}},
			want: spec(Card{Fault: "lost"}, Card{Healthy: true}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := m.Spec(tc.rows, tc.product, tc.vram)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for name, tc := range map[string]struct {
		rows []QueryRow
		vram int64
		want SpecError
	}{
		"negative memory":  {vram: -1, want: SpecError{Field: "vramBytes", Value: "-1", Reason: "must be 0 to 17592186044416"}},
		"absurd memory":    {vram: MaxVRAMBytes + 1, want: SpecError{Field: "vramBytes", Value: "17592186044417", Reason: "must be 0 to 17592186044416"}},
		"index beyond":     {rows: []QueryRow{{Index: 0}, {Index: 2}}, want: SpecError{Field: "query.index", Value: "2", Reason: "the matrix has GPU0 to GPU1"}},
		"negative index":   {rows: []QueryRow{{Index: -1}}, want: SpecError{Field: "query.index", Value: "-1", Reason: "the matrix has GPU0 to GPU1"}},
		"index twice":      {rows: []QueryRow{{Index: 0}, {Index: 0}}, want: SpecError{Field: "query.index", Value: "0", Reason: "stands twice"}},
		"one row too few":  {rows: []QueryRow{{Index: 1}}, want: SpecError{Field: "query.index", Value: "0", Reason: "the matrix has this GPU, the query has no row for it"}},
		"rows, but no row": {rows: []QueryRow{}, want: SpecError{Field: "query.index", Value: "0", Reason: "the matrix has this GPU, the query has no row for it"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Spec(tc.rows, "", tc.vram)
			var got *SpecError
			if !errors.As(err, &got) {
				t.Fatalf("got %v, want a *SpecError", err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
