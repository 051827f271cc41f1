package topology

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"
)

// layout is one way to print a matrix.
type layout struct {
	tabs, ansi, crlf, blankLines, comments, legend, prompt, nicRows, soc bool
	// columns and rows are permutations; nil keeps the order.
	columns, rows []int
	// dropRow is the device whose row is left out, -1 for none.
	dropRow int
}

// render prints the matrix as nvidia-smi would, in the given layout. The affinity columns come from the parsed values.
func render(m *Matrix, l layout) string {
	var names []string
	for i := range m.GPUs {
		names = append(names, "GPU"+strconv.Itoa(i))
	}
	for _, nic := range m.NICs {
		names = append(names, nic.Name)
	}
	head := append(slices.Clone(names), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
	var rows [][]string
	for r, name := range names {
		if r == l.dropRow || r >= len(m.GPUs) && !l.nicRows {
			continue
		}
		row := []string{name}
		for c := range names {
			row = append(row, cellOf(m, r, c, l.soc))
		}
		var cpu, numa string
		if r < len(m.GPUs) {
			cpu, numa = "N/A", "N/A"
			if m.GPUs[r].CPUAffinity != "" {
				cpu = m.GPUs[r].CPUAffinity
			}
			if m.GPUs[r].NUMA != NUMAUnknown {
				numa = strconv.Itoa(m.GPUs[r].NUMA)
			}
			row = append(row, cpu, numa, "N/A")
		}
		rows = append(rows, row)
	}
	return layOut(head, rows, l)
}

func cellOf(m *Matrix, r, c int, soc bool) string {
	n := len(m.GPUs)
	link := Link{Type: LinkSYS}
	switch {
	case r == c:
		return " X "
	case r < n && c < n:
		link = m.Links[r][c]
	case r < n:
		link = Link{Type: m.NICs[c-n].Links[r]}
	case c < n:
		link = Link{Type: m.NICs[r-n].Links[c]}
	}
	if soc && link.Type == LinkSYS {
		return "SOC"
	}
	return link.String()
}

// layOut writes the cells. A row shorter than the header is a row without affinities, which works in any layout
// only while those columns stand last.
func layOut(head []string, rows [][]string, l layout) string {
	permute := func(cells []string) []string {
		if l.columns == nil {
			return cells
		}
		out := make([]string, len(cells))
		for to, from := range l.columns[:len(cells)] {
			out[to] = cells[from]
		}
		return out
	}
	var b strings.Builder
	line := func(first string, cells []string, header bool) {
		switch {
		case l.tabs && l.ansi && header:
			b.WriteString(first + "\t\x1b[4m" + strings.Join(cells, "\t") + "\x1b[0m")
		case l.tabs:
			b.WriteString(first + "\t" + strings.Join(cells, "\t"))
		default:
			fmt.Fprintf(&b, "%-12s", first)
			for _, c := range cells {
				fmt.Fprintf(&b, "%-20s", c)
			}
		}
		if l.crlf {
			b.WriteString("\r")
		}
		b.WriteString("\n")
		if l.blankLines {
			b.WriteString("\n   \n")
		}
		if l.comments {
			b.WriteString("# GPU0 X NV1 is not a row\n")
		}
	}
	if l.prompt {
		b.WriteString("root@host:~# nvidia-smi topo -m\n\n")
	}
	line("", permute(head), true)
	for i := range rows {
		r := i
		if l.rows != nil {
			r = l.rows[i]
		}
		line(rows[r][0], permute(rows[r][1:]), false)
	}
	if l.legend {
		b.WriteString("\nLegend:\n\n  X    = Self\n  SYS  = far\n\nNIC Legend:\n\n  NIC0: mlx5_0\n")
	}
	return b.String()
}

// sorted orders the adapters by name, so that matrices of two column orders can be compared.
func sorted(m *Matrix) *Matrix {
	slices.SortFunc(m.NICs, func(a, b NIC) int { return cmp.Compare(a.Name, b.Name) })
	return m
}

func matrices(t testing.TB) map[string]*Matrix {
	t.Helper()
	out := make(map[string]*Matrix)
	files, err := filepath.Glob(filepath.Join(ownTopo, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		out[filepath.Base(f)] = parseFile(t, f)
	}
	return out
}

// TestParseMatrixLayouts prints each matrix in many layouts: the layout must not change what is read.
func TestParseMatrixLayouts(t *testing.T) {
	for name, want := range matrices(t) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			coin := func() bool { return rng.IntN(2) == 0 }
			want = sorted(want)
			for range 200 {
				l := layout{
					tabs: coin(), ansi: coin(), crlf: coin(), blankLines: coin(), comments: coin(), legend: coin(),
					prompt: coin(), nicRows: coin(), soc: coin(), dropRow: -1,
				}
				devices := len(want.GPUs) + len(want.NICs)
				if l.nicRows { // their rows have no affinities, so that those columns must stay last
					l.columns = append(rng.Perm(devices), devices, devices+1, devices+2)
				} else {
					l.columns = rng.Perm(devices + 3)
				}
				l.rows = rng.Perm(len(want.GPUs))
				if l.nicRows {
					l.rows = rng.Perm(devices)
				}
				text := render(want, l)
				got, err := ParseMatrix(strings.NewReader(text))
				if err != nil {
					t.Fatalf("%+v: %v\n%s", l, err, text)
				}
				if diff := gocmp.Diff(want, sorted(got)); diff != "" {
					t.Fatalf("%+v (-want +got)\n%s\n%s", l, diff, text)
				}
			}
		})
	}
}

// TestParseMatrixMissingRow leaves out one GPU's row: its links are in the other rows, its affinity is gone.
func TestParseMatrixMissingRow(t *testing.T) {
	for name, whole := range matrices(t) {
		if len(whole.GPUs) < 2 || name == "rows-cut-4gpu-2nic.txt" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for drop := range whole.GPUs {
				got, err := ParseMatrix(strings.NewReader(render(whole, layout{dropRow: drop, nicRows: true, tabs: true})))
				if err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(whole.Links, got.Links); diff != "" {
					t.Errorf("without GPU%d: links (-want +got)\n%s", drop, diff)
				}
				if diff := gocmp.Diff(whole.NICs, got.NICs); diff != "" {
					t.Errorf("without GPU%d: adapters (-want +got)\n%s", drop, diff)
				}
				if got.GPUs[drop].NUMA != NUMAUnknown {
					t.Errorf("without GPU%d: its NUMA id is %d", drop, got.GPUs[drop].NUMA)
				}
			}
		})
	}
}

func TestParseMatrixDetails(t *testing.T) {
	type want struct {
		links []string
		numa  []int
		nics  []string
	}
	for name, tc := range map[string]struct {
		in string
		want
	}{
		"lopsided: the weaker direction counts": {
			in:   "GPU0 GPU1\nGPU0 X NV12\nGPU1 NV4 X\n",
			want: want{links: []string{"X NV4", "NV4 X"}, numa: []int{-1, -1}},
		},
		"one direction unknown": {
			in:   "GPU0 GPU1\nGPU0 X NV12\nGPU1 N/A X\n",
			want: want{links: []string{"X ?", "? X"}, numa: []int{-1, -1}},
		},
		"lopsided adapter": {
			in:   "GPU0 mlx5_0\nGPU0 X PIX\nmlx5_0 SYS X\n",
			want: want{links: []string{"X"}, numa: []int{-1}, nics: []string{"mlx5_0: SYS"}},
		},
		"columns between the devices": {
			in:   "NIC0 NUMA Affinity GPU1 CPU Affinity GPU0\nGPU1 SYS 1 X 8-15 NODE\nGPU0 PIX 0 NODE 0-7 X\n",
			want: want{links: []string{"X NODE", "NODE X"}, numa: []int{0, 1}, nics: []string{"NIC0: PIX SYS"}},
		},
		"affinity columns without a value": {
			in:   "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{-1, -1}},
		},
		"blank CPU affinity told by tabs": {
			in:   "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tPIX\t\t0\nGPU1\tPIX\tX\t\t1\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{0, 1}},
		},
		"blank CPU affinity told by place": {
			in: "      GPU0  GPU1  CPU Affinity  NUMA Affinity\n" +
				"GPU0  X     PIX                 0\n" +
				"GPU1  PIX   X     8-15          1\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{0, 1}},
		},
		"affinity cells that belong to no column are not guessed": {
			in: "      GPU0  GPU1  CPU Affinity  NUMA Affinity\n" +
				"GPU0  X     PIX       0\n" +
				"GPU1  PIX   X         0\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{-1, -1}},
		},
		"one affinity cell that belongs to no column spoils the row's others": {
			in: "      GPU0  GPU1  CPU Affinity  NUMA Affinity  GPU NUMA ID\n" +
				"GPU0  X     PIX    0-7          0\n" +
				"GPU1  PIX   X                   1\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{-1, 1}},
		},
		"blank cell told by place, padded with tabs": {
			in:   "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\tX\tPIX\t0-7\t\t3\t\t\nGPU1\tPIX\tX\t8-15\t\t5\t\t\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{3, 5}},
		},
		"NUMA list shared with another text": {
			in: "GPU0 GPU1 GPU2 CPU Affinity NUMA Affinity\n" +
				"GPU0 X SYS SYS 0-7 0\nGPU1 SYS X SYS 0-15 0-1\nGPU2 SYS SYS X 8-15 1\n",
			want: want{links: []string{"X SYS SYS", "SYS X SYS", "SYS SYS X"}, numa: []int{0, -1, 1}},
		},
		"two NUMA lists with one first number": {
			in:   "GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X SYS 0-7 0,2\nGPU1 SYS X 8-15 0,3\n",
			want: want{links: []string{"X SYS", "SYS X"}, numa: []int{-1, -1}},
		},
		"NUMA known of some only: CPU affinity does not mix in": {
			in:   "GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X SYS 0-7 3\nGPU1 SYS X 8-15 N/A\n",
			want: want{links: []string{"X SYS", "SYS X"}, numa: []int{3, -1}},
		},
		"CPU groups are numbered by the lowest GPU, not by the first row": {
			in:   "GPU0 GPU1 CPU Affinity\nGPU1 SYS X 8-15\nGPU0 X SYS 0-7\n",
			want: want{links: []string{"X SYS", "SYS X"}, numa: []int{0, 1}},
		},
		"unknown columns of a later driver": {
			in:   "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\tFabric State\nGPU0\tX\tPIX\t0-7\t0\tN/A\tDone\nGPU1\tPIX\tX\t0-7\t0\tN/A\tDone\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{0, 0}},
		},
		"byte order mark, lost escape characters, a prompt behind": {
			in:   "\ufeff[4mGPU0 GPU1[0m\nGPU0 X PIX\nGPU1 PIX X\n\nroot@host:~# exit\n",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{-1, -1}},
		},
		"no line end at the end": {
			in:   "GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X",
			want: want{links: []string{"X PIX", "PIX X"}, numa: []int{-1, -1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseMatrix(strings.NewReader(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			f := factsOf(m)
			if diff := gocmp.Diff([]any{tc.links, tc.numa, tc.nics}, []any{f.Links, f.NUMA, f.NICs}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseMatrixErrors(t *testing.T) {
	var many strings.Builder
	for i := range MaxCards + 1 {
		many.WriteString("\tGPU" + strconv.Itoa(i))
	}
	for name, tc := range map[string]struct {
		in   string
		want ParseError
	}{
		"empty":          {in: "", want: ParseError{Line: 1, Reason: "no header line (GPU0 GPU1 ...) found"}},
		"only comments":  {in: "# a\n\n# b\n", want: ParseError{Line: 3, Reason: "no header line (GPU0 GPU1 ...) found"}},
		"other output":   {in: "NVIDIA-SMI has failed\n", want: ParseError{Line: 1, Reason: "no header line (GPU0 GPU1 ...) found"}},
		"header missing": {in: "\nGPU0 X NV1\nGPU1 NV1 X\n", want: ParseError{Line: 2, Value: "GPU0", Reason: "the header line, which names the columns, is missing"}},
		"no GPU":         {in: "# x\n\tNIC0\tCPU Affinity\nNIC0\t X \n", want: ParseError{Line: 2, Value: "NIC0\tCPU Affinity", Reason: "the header names no GPU"}},
		"no rows":        {in: "GPU0 GPU1\n\nLegend:\n X = Self\n", want: ParseError{Line: 4, Reason: "no row of a GPU follows the header"}},
		"too many GPUs":  {in: many.String() + "\n", want: ParseError{Line: 1, Column: "GPU64", Value: "GPU64", Reason: "a node has at most 64 GPUs"}},
		"GPU of a huge number": {in: "GPU0 GPU99999999999999999999\n",
			want: ParseError{Line: 1, Column: "GPU99999999999999999999", Value: "GPU99999999999999999999", Reason: "a node has at most 64 GPUs"}},
		"column twice":         {in: "GPU0 GPU1 GPU0\n", want: ParseError{Line: 1, Column: "GPU0", Value: "GPU0", Reason: "the column stands twice"}},
		"adapter column twice": {in: "GPU0 NIC0 NIC0\n", want: ParseError{Line: 1, Column: "NIC0", Value: "NIC0", Reason: "the column stands twice"}},
		"bad device name":      {in: "GPU0 nic(0)\n", want: ParseError{Line: 1, Column: "nic(0)", Value: "nic(0)", Reason: "not the name of a device"}},
		"a gap in the GPUs":    {in: "GPU0 GPU2\nGPU0 X PIX\n", want: ParseError{Line: 1, Column: "GPU1", Value: "GPU0 GPU2", Reason: "the header has 2 GPUs, but not GPU1"}},
		"unknown link": {in: "GPU0 GPU1\nGPU0 X NV0\n",
			want: ParseError{Line: 2, Column: "GPU1", Value: "NV0", Reason: "not a link: X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS"}},
		"unknown link, CRLF and comments count as lines": {in: "# c\r\n\r\nGPU0 GPU1\r\nGPU0 X PIX\r\n# c\r\nGPU1 OK X\r\n",
			want: ParseError{Line: 6, Column: "GPU0", Value: "OK", Reason: "not a link: X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS"}},
		"unknown link between adapters": {in: "GPU0 NIC0 NIC1\nGPU0 X PIX SYS\nNIC0 PIX X foo\n",
			want: ParseError{Line: 3, Column: "NIC1", Value: "foo", Reason: "not a link: X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS"}},
		"NVLink of an adapter": {in: "GPU0 NIC0\nGPU0 X NV2\n", want: ParseError{Line: 2, Column: "NIC0", Value: "NV2", Reason: "a network adapter has no NVLink"}},
		"X off the diagonal":   {in: "GPU0 GPU1\nGPU0 X X\n", want: ParseError{Line: 2, Column: "GPU1", Value: "X", Reason: "X stands where row and column are the same device, and only there"}},
		"no X on the diagonal": {in: "GPU0 GPU1\nGPU0 PIX PIX\n", want: ParseError{Line: 2, Column: "GPU0", Value: "PIX", Reason: "X stands where row and column are the same device, and only there"}},
		"too few cells":        {in: "GPU0 GPU1 GPU2\nGPU0 X PIX\n", want: ParseError{Line: 2, Value: "GPU0 X PIX", Reason: "the row has 2 cells, the header 3 columns, 3 of them devices"}},
		"too many cells":       {in: "GPU0 GPU1\nGPU0 X PIX SYS\n", want: ParseError{Line: 2, Value: "GPU0 X PIX SYS", Reason: "the row has 3 cells, the header 2 columns, 2 of them devices"}},
		"too few cells behind an affinity": {in: "CPU Affinity GPU0 GPU1\nGPU0 X PIX\n",
			want: ParseError{Line: 2, Value: "GPU0 X PIX", Reason: "the row has 2 cells, the header 3 columns, 2 of them devices"}},
		"row twice":         {in: "GPU0 GPU1\nGPU0 X PIX\nGPU0 X PIX\n", want: ParseError{Line: 3, Value: "GPU0", Reason: "the row stands twice"}},
		"adapter row twice": {in: "GPU0 NIC0\nGPU0 X PIX\nNIC0 PIX X\nNIC0 PIX X\n", want: ParseError{Line: 4, Value: "NIC0", Reason: "the row stands twice"}},
		"row of no column":  {in: "GPU0 GPU1\nGPU2 X PIX\n", want: ParseError{Line: 2, Value: "GPU2", Reason: "the header has no column of this GPU"}},
		"adapter row of no column": {in: "GPU0\nGPU0 X\nNIC0 PIX\n",
			want: ParseError{Line: 3, Value: "NIC0", Reason: "the header has no column of this device"}},
		"garbled row name": {in: "GPU0 GPU1\nGPU0 X PIX\nGPU 1 PIX X\n", want: ParseError{Line: 3, Value: "GPU", Reason: "the header has no column of this device"}},
		"second header":    {in: "GPU0 GPU1\nGPU0 X PIX\nGPU0 GPU1\n", want: ParseError{Line: 3, Value: "GPU0 GPU1", Reason: "a second header; the first one is line 1"}},
		"bad NUMA": {in: "GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 zero\n",
			want: ParseError{Line: 2, Column: "NUMA Affinity", Value: "zero", Reason: "neither a NUMA id of 0 to 1023, nor a list of them, nor N/A"}},
		"negative NUMA": {in: "GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 -1\n",
			want: ParseError{Line: 2, Column: "NUMA Affinity", Value: "-1", Reason: "neither a NUMA id of 0 to 1023, nor a list of them, nor N/A"}},
		"NUMA too large": {in: "GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 4294967296\n",
			want: ParseError{Line: 2, Column: "NUMA Affinity", Value: "4294967296", Reason: "neither a NUMA id of 0 to 1023, nor a list of them, nor N/A"}},
		"bad CPU affinity": {in: "GPU0 CPU Affinity NUMA Affinity\nGPU0 X 7-0 0\n",
			want: ParseError{Line: 2, Column: "CPU Affinity", Value: "7-0", Reason: "neither a list of CPU numbers, nor N/A"}},
		"not text": {in: "GPU0 GPU1\nGPU0 X \xff\n", want: ParseError{Line: 2, Value: "GPU0 X \xff\n", Reason: "not UTF-8 text"}},
		"UTF-16":   {in: "G\x00P\x00U\x000\x00\n\x00", want: ParseError{Line: 1, Value: "G\x00P\x00U\x000\x00\n", Reason: "not UTF-8 text"}},
		"long line": {in: "GPU0\nGPU0 " + strings.Repeat("X ", 40000) + "\n",
			want: ParseError{Line: 2, Value: "GPU0 " + strings.Repeat("X ", 40000)[:59], Reason: "the line is longer than 64 KiB"}},
		"long input": {in: strings.Repeat("# nothing\n", maxText/10+1), want: ParseError{Line: maxText/10 + 1, Reason: "the input is longer than 1 MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseMatrix(strings.NewReader(tc.in))
			var got *ParseError
			if !errors.As(err, &got) {
				t.Fatalf("got %+v, error %v, want a *ParseError", m, err)
			}
			if diff := gocmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseReadError(t *testing.T) {
	wantErr := errors.New("disk on fire")
	reader := func() io.Reader { return io.MultiReader(strings.NewReader("GPU0\n"), iotest.ErrReader(wantErr)) }
	if _, err := ParseMatrix(reader()); !errors.Is(err, wantErr) {
		t.Errorf("ParseMatrix: got %v, want %v", err, wantErr)
	}
	if _, err := ParseQuery(reader()); !errors.Is(err, wantErr) {
		t.Errorf("ParseQuery: got %v, want %v", err, wantErr)
	}
}

func TestParseErrorText(t *testing.T) {
	long := strings.Repeat("v", 1000)
	for name, tc := range map[string]struct {
		err  ParseError
		want string
	}{
		"column":    {err: ParseError{Line: 3, Column: "GPU1", Value: "NV0", Reason: "not a link"}, want: `line 3, column GPU1: "NV0": not a link`},
		"no column": {err: ParseError{Line: 1, Reason: "empty"}, want: `line 1: "": empty`},
		"cut":       {err: ParseError{Line: 1, Column: long, Value: long, Reason: "long"}, want: "line 1, column " + long[:64] + `: "` + long[:64] + `": long`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
