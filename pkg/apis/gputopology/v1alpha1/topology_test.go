package v1alpha1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// eightCards is a node of eight cards; extra stands in each of them.
func eightCards(extra string) string {
	cards := make([]string, 8)
	for i := range cards {
		cards[i] = fmt.Sprintf(`{"uuid":"GPU-%d",%s}`, i, extra)
	}
	return nodeOf(cards, rows(8, 8))
}

func nodeOf(cards, links []string) string {
	quoted := make([]string, len(links))
	for i, l := range links {
		quoted[i] = `"` + l + `"`
	}
	return `{"v":1,"cards":[` + strings.Join(cards, ",") + `],"links":[` + strings.Join(quoted, ",") + `]}`
}

// rows is a matrix of n rows with m cells, NV18 everywhere but on the diagonal.
func rows(n, m int) []string {
	out := make([]string, n)
	for i := range out {
		cells := make([]string, m)
		for j := range cells {
			cells[j] = "NV18"
			if i == j {
				cells[j] = "X"
			}
		}
		out[i] = strings.Join(cells, " ")
	}
	return out
}

func healthy(uuid string, vram int64) topology.Card {
	return topology.Card{UUID: uuid, VRAMBytes: vram, NUMA: topology.NUMAUnknown, Healthy: true}
}

func TestParseTopology(t *testing.T) {
	nv := topology.Link{Type: topology.LinkNVLink, NVLinks: 4}
	self := topology.Link{Type: topology.LinkSelf}
	tests := map[string]struct {
		value string
		want  topology.Spec
	}{
		"no cards": {value: `{"v":1,"cards":[]}`},
		"nothing known of a card": {
			value: `{"v":1,"cards":[{}]}`,
			want:  topology.Spec{Cards: []topology.Card{healthy("", 0)}},
		},
		"everything": {
			value: `{"v":1,"cards":[
				{"uuid":"GPU-a","product":"NVIDIA H100 80GB HBM3","vramBytes":85899345920,"numa":0,"busID":"00000000:1B:00.0","pcieSwitch":"s","pcieRoot":"r"},
				{"uuid":"GPU-b","numa":1,"healthy":false,"mig":{"enabled":true,"instances":[
					{"profile":"1g.10gb.me","uuid":"MIG-c","start":2,"size":1,"vramBytes":10737418240}]}}],
				"links":["X NV4"," ?   X "],"nvswitch":true,"nics":[{"name":"mlx5_0","links":"PIX SYS"}],
				"observedAt":"2026-01-02T15:04:05Z","later":{}}`,
			want: topology.Spec{
				Cards: []topology.Card{
					{UUID: "GPU-a", Product: "NVIDIA H100 80GB HBM3", VRAMBytes: 80 * gib, NUMA: 0, BusID: "00000000:1B:00.0", PCIeSwitch: "s", PCIeRoot: "r", Healthy: true},
					{UUID: "GPU-b", NUMA: 1, MIGEnabled: true, MIG: []topology.MIGInstance{{Profile: "1g.10gb+me", UUID: "MIG-c", Start: 2, Size: 1, VRAMBytes: 10 * gib}}},
				},
				Links:    [][]topology.Link{{self, nv}, {{}, self}},
				NVSwitch: true,
				NICs:     []topology.NIC{{Name: "mlx5_0", Links: []topology.LinkType{topology.LinkPIX, topology.LinkSYS}}},
			},
		},
		"a fault that the writer found": {
			value: `{"v":1,"cards":[{"fault":"Xid 79","vramBytes":85899345920}]}`,
			want:  topology.Spec{Cards: []topology.Card{{VRAMBytes: 80 * gib, NUMA: topology.NUMAUnknown, Fault: "Xid 79"}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.want.Source = "annotation gputopology.io/topology"
			got, err := ParseTopology(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseTopology (-want +got):\n%s", diff)
			}
			again, err := FormatTopology(got)
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseTopology(again)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, back); diff != "" {
				t.Errorf("ParseTopology(FormatTopology) (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCaseB106 holds that a card of 0 MiB or of negative size closes itself, not the node.
func TestCaseB106(t *testing.T) {
	cards := make([]string, 8)
	for i := range cards {
		cards[i] = `{"vramBytes":85899345920}`
	}
	cards[2], cards[5] = `{"vramBytes":0}`, `{"vramBytes":-1}`
	cards[6] = `{"mig":{"enabled":true,"instances":[{"profile":"1g.10gb","start":0,"size":1,"vramBytes":0}]}}`
	spec, err := ParseTopology(nodeOf(cards, rows(8, 8)))
	if err != nil {
		t.Fatal(err)
	}
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	if want := topology.SetOf(0, 1, 3, 4, 7); node.Usable() != want {
		t.Errorf("usable cards %v, want %v", node.Usable(), want)
	}
	got := map[int]string{2: node.Card(2).Fault, 5: node.Card(5).Fault, 6: node.Card(6).Fault}
	want := map[int]string{2: "vramBytes is 0", 5: "vramBytes is -1", 6: "MIG instance 0 has vramBytes 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// TestCaseB110 holds that a malformed node is refused with field and value, or degraded as documented.
func TestCaseB110(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = `{}`
	}
	refused := map[string]struct{ value, wantField, wantValue string }{
		"{}":                         {`{}`, "v", `{}`},
		"empty":                      {``, TopologyAnnotation, ``},
		"truncated":                  {eightCards(`"numa":0`)[:100], TopologyAnnotation, eightCards(`"numa":0`)[:64]},
		"no cards":                   {`{"v":1}`, "cards", ``},
		"7 rows for 8 cards":         {nodeOf(many[:8], rows(7, 8)), "links", `7`},
		"no rows for 8 cards":        {nodeOf(many[:8], nil), "links", `0`},
		"a link to a ninth card":     {nodeOf(many[:8], rows(8, 9)), "links[0]", `X` + strings.Repeat(" NV18", 8)},
		"200 cards":                  {nodeOf(many, rows(200, 200)), "cards", `200`},
		"a link that is none":        {nodeOf(many[:2], []string{"X NV0", "NV1 X"}), "links[0][1]", `NV0`},
		"X between two cards":        {nodeOf(many[:2], []string{"X X", "NV1 X"}), "links[0][1]", `X`},
		"a card by NVLink to itself": {nodeOf(many[:2], []string{"NV1 NV1", "NV1 X"}), "links[0][0]", `NV1`},
		"an adapter by NVLink":       {`{"v":1,"cards":[{}],"nics":[{"name":"mlx5_0","links":"NV1"}]}`, "nics[0].links[0]", `NV1`},
		"an adapter without links":   {`{"v":1,"cards":[{}],"nics":[{"name":"mlx5_0"}]}`, "nics[0].links", ``},
		"an adapter without name":    {`{"v":1,"cards":[{}],"nics":[{"links":"PIX"}]}`, "nics[0].name", ``},
		"NUMA -2":                    {`{"v":1,"cards":[{"numa":-2}]}`, "cards[0].numa", `-2`},
		"memory as text":             {eightCards(`"vramBytes":"80GB"`), "cards.vramBytes", `string`},
		"memory past 64 bits":        {eightCards(`"vramBytes":1e19`), "cards.vramBytes", `number 1e19`},
		"memory NaN":                 {`{"v":1,"cards":[{"vramBytes":NaN}]}`, TopologyAnnotation, `{"v":1,"cards":[{"vramBytes":NaN}]}`},
		"nine instances":             {`{"v":1,"cards":[{"mig":{"enabled":true,"instances":[{},{},{},{},{},{},{},{},{}]}}]}`, "cards[0].mig.instances", `9`},
		"no time":                    {`{"v":1,"cards":[],"observedAt":"yesterday"}`, "observedAt", `yesterday`},
		"300 KB":                     {strings.Repeat(" ", 300<<10), TopologyAnnotation, `307200 bytes`},
		"invalid UTF-8":              {"{\"v\":1,\"cards\":[{\"uuid\":\"\xff\"}]}", TopologyAnnotation, "{\"v\":1,\"cards\":[{\"uuid\":\"\xff\"}]}"},
	}
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := ParseTopology(tt.value)
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("error %v (%T), want a *FieldError", err, err)
			}
			if diff := cmp.Diff([]string{tt.wantField, tt.wantValue}, []string{field.Field, field.Value}); diff != "" {
				t.Errorf("field and value (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("lopsided link is its weaker direction", func(t *testing.T) {
		node := build(t, nodeOf([]string{`{}`, `{}`}, []string{"X NV4", "? X"}))
		if got := node.Link(0, 1); got != (topology.Link{}) {
			t.Errorf("link %v, want an unknown one", got)
		}
	})
	t.Run("the same UUID twice closes both cards", func(t *testing.T) {
		node := build(t, `{"v":1,"cards":[{"uuid":"GPU-a"},{"uuid":"GPU-b"},{"uuid":"GPU-a"}]}`)
		if want := topology.SetOf(1); node.Usable() != want {
			t.Errorf("usable %v, want %v", node.Usable(), want)
		}
	})
	t.Run("other version", func(t *testing.T) {
		_, err := ParseTopology(`{"v":2,"cards":7}`)
		var version *VersionError
		if !errors.As(err, &version) || version.Got != 2 {
			t.Errorf("error %v (%T), want a *VersionError for 2", err, err)
		}
	})
}

func build(t *testing.T, value string) *topology.Node {
	t.Helper()
	spec, err := ParseTopology(value)
	if err != nil {
		t.Fatal(err)
	}
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestFormatTopologyRefuses(t *testing.T) {
	tests := map[string]struct {
		spec      topology.Spec
		wantField string
	}{
		"65 cards":         {topology.Spec{Cards: make([]topology.Card, 65)}, "cards"},
		"ragged matrix":    {topology.Spec{Cards: make([]topology.Card, 2), Links: make([][]topology.Link, 2)}, "links[0]"},
		"NVLink of 0":      {topology.Spec{Cards: make([]topology.Card, 1), Links: [][]topology.Link{{{Type: topology.LinkNVLink}}}}, "links[0][0]"},
		"unnamed adapter":  {topology.Spec{NICs: []topology.NIC{{}}}, "nics[0].name"},
		"UUID not UTF-8":   {topology.Spec{Cards: []topology.Card{{UUID: "\xff"}}}, "cards[0].uuid"},
		"NUMA -2":          {topology.Spec{Cards: []topology.Card{{NUMA: -2}}}, "cards[0].numa"},
		"9 MIG instances":  {topology.Spec{Cards: []topology.Card{{MIG: make([]topology.MIGInstance, 9)}}}, "cards[0].mig.instances"},
		"too long a fault": {topology.Spec{Cards: []topology.Card{{Fault: strings.Repeat("x", 600)}}}, "cards[0].fault"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			value, err := FormatTopology(tt.spec)
			var field *FieldError
			if !errors.As(err, &field) || field.Field != tt.wantField {
				t.Errorf("FormatTopology = %q, %v, want a *FieldError for %s", value, err, tt.wantField)
			}
		})
	}
}

func TestFormatTopologyAt(t *testing.T) {
	at := time.Date(2026, 1, 2, 16, 4, 5, 999, time.FixedZone("CET", 3600))
	value, err := FormatTopologyAt(topology.Spec{}, at)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"v":1,"cards":[],"observedAt":"2026-01-02T15:04:05Z"}`; value != want {
		t.Errorf("FormatTopologyAt = %s, want %s", value, want)
	}
	got, err := ParseNodeTopology(value)
	if err != nil {
		t.Fatal(err)
	}
	if got.ObservedAt != "2026-01-02T15:04:05Z" {
		t.Errorf("ObservedAt = %q", got.ObservedAt)
	}
}

func TestProfile(t *testing.T) {
	for in, want := range map[string]string{
		"1g.10gb": "1g.10gb", "1g.10gb.me": "1g.10gb+me", "1g.10gb+me": "1g.10gb+me", "1g.24gb.me.all": "1g.24gb+me.all",
		"1c.3g.40gb": "1c.3g.40gb", "": "",
	} {
		if got := Profile(in); got != want {
			t.Errorf("Profile(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestRealMachines holds that the matrix of every machine in ../shared/topo survives the annotation.
func TestRealMachines(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sharedDir(t), "topo", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Skipf("no matrices beside the repository (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}()
			m, err := topology.ParseMatrix(f)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := m.Spec(nil, "NVIDIA H100 80GB HBM3", 80*gib)
			if err != nil {
				t.Fatal(err)
			}
			value, err := FormatTopology(spec)
			if err != nil {
				t.Fatal(err)
			}
			want, err := topology.New(spec, topology.DefaultRates())
			if err != nil {
				t.Fatal(err)
			}
			got := build(t, value)
			if got.Shape().Fingerprint() != want.Shape().Fingerprint() {
				t.Errorf("the shape changed through %s", value)
			}
		})
	}
}

// sharedDir finds the folder of fixtures beside the repository.
func sharedDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(checkout.Root(t), "..", "shared")
}
