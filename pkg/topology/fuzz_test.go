package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzParseLink(f *testing.F) {
	for _, s := range []string{"X", "NV1", "NV18", "NV255", "NV256", "NV0", "NV+1", "NV 1", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "?", "", "nv1", "N/A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLink(s)
		if err != nil {
			if l != (Link{}) {
				t.Errorf("%q: error and link %v", s, l)
			}
			return
		}
		again, err := ParseLink(l.String())
		if err != nil || again != l {
			t.Errorf("%q: read as %v, printed and read again as %v, %v", s, l, again, err)
		}
		if (l.Type == LinkNVLink) != (l.NVLinks > 0) {
			t.Errorf("%q: type %d with %d NVLinks", s, l.Type, l.NVLinks)
		}
	})
}

// checkParseError reports an error that is not a *ParseError with a line of the input.
func checkParseError(t *testing.T, in string, err error) {
	t.Helper()
	var pe *ParseError
	if !errors.As(err, &pe) {
		t.Fatalf("got %v, want a *ParseError", err)
	}
	if lines := strings.Count(in, "\n") + 1; pe.Line < 1 || pe.Line > lines || pe.Reason == "" || len(pe.Error()) > 2000 {
		t.Fatalf("%d lines, error %#v", lines, pe)
	}
}

func FuzzParseMatrix(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(ownTopo, "*.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("GPU0 GPU1 CPU Affinity\nGPU1 NV2 X 0-3\nGPU0 X ? N/A\n")
	f.Add("GPU0\nGPU0 SYS\n")
	f.Fuzz(func(t *testing.T, in string) {
		m, err := ParseMatrix(strings.NewReader(in))
		if err != nil {
			checkParseError(t, in, err)
			return
		}
		spec, err := m.Spec(nil, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		node, err := New(spec, DefaultRates())
		if err != nil {
			t.Fatalf("a parsed matrix is refused: %v", err)
		}
		if got, want := node.Usable(), FirstN(len(m.GPUs)); got != want {
			t.Fatalf("usable %v, want %v", got, want)
		}
		for _, l := range []layout{{tabs: true, ansi: true, nicRows: true, dropRow: -1}, {crlf: true, legend: true, dropRow: -1}} {
			again, err := ParseMatrix(strings.NewReader(render(m, l)))
			if err != nil {
				t.Fatalf("printed again: %v\n%s", err, render(m, l))
			}
			if diff := cmp.Diff(m, again); diff != "" {
				t.Fatalf("printed and read again (-want +got)\n%s", diff)
			}
		}
	})
}

func FuzzParseQuery(f *testing.F) {
	f.Add("index, uuid, name, memory.total [MiB], pci.bus_id\n0, GPU-1, NVIDIA L4, 23034 MiB, 00000000:1B:00.0\n")
	f.Add("0, GPU-1, NVIDIA L4, 23034, 00000000:1B:00.0\r\n1, [N/A], [GPU is lost], 0 MiB, [N/A]\r\n")
	f.Add("name, index\nA, 3\n# c\nB, 2\n")
	f.Fuzz(func(t *testing.T, in string) {
		rows, err := ParseQuery(strings.NewReader(in))
		if err != nil {
			checkParseError(t, in, err)
			return
		}
		if len(rows) == 0 || len(rows) > MaxCards {
			t.Fatalf("%d rows", len(rows))
		}
		var b strings.Builder
		b.WriteString("memory.total [MiB], index, pci.bus_id, name, uuid\n")
		for i, r := range rows {
			if r.VRAMBytes < 0 || r.VRAMBytes > MaxVRAMBytes || r.Index < 0 || r.Index >= MaxCards {
				t.Fatalf("row %+v", r)
			}
			rows[i].Fault = "" // what was read in its place is not kept
			memory := "[N/A]"
			if r.VRAMBytes > 0 {
				memory = fmt.Sprintf("%d MiB", r.VRAMBytes>>20)
			}
			fmt.Fprintf(&b, "%s, %d, %s, %s, %s\n", memory, r.Index, r.BusID, r.Name, r.UUID)
		}
		again, err := ParseQuery(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("printed again: %v\n%s", err, b.String())
		}
		if diff := cmp.Diff(rows, again); diff != "" {
			t.Fatalf("printed and read again (-want +got)\n%s", diff)
		}
	})
}
