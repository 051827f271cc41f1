package v1alpha1

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const gib = int64(1) << 30

func whole(i int, uuid string) CardRecord {
	return CardRecord{Index: i, UUID: uuid, SliceMask: math.MaxUint64, VRAMBytes: 80 * gib, ComputeMilli: 1000}
}

func rank(n int32) *int32 { return &n }

func TestRecordFormat(t *testing.T) {
	tests := map[string]struct {
		record Record
		want   string
	}{
		"one whole card": {
			record: Record{V: 1, Node: "n1", Cards: []CardRecord{whole(0, "GPU-a")}},
			want:   `{"v":1,"node":"n1","cards":[{"index":0,"uuid":"GPU-a","sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}]}`,
		},
		"member of a gang, rank 0 is a rank": {
			record: Record{V: 1, Node: "n1", Cards: []CardRecord{whole(3, "")}, Gang: "ns/llama", Rank: rank(0), Plan: "p7"},
			want:   `{"v":1,"node":"n1","cards":[{"index":3,"sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}],"gang":"ns/llama","rank":0,"plan":"p7"}`,
		},
		"two MIG instances of one card and a share": {
			record: Record{V: 1, Node: "n1", Cards: []CardRecord{
				{Index: 1, UUID: "GPU-b", SliceMask: 0x1, VRAMBytes: 10 * gib, ComputeMilli: 142, MIG: "1g.10gb"},
				{Index: 1, UUID: "GPU-b", SliceMask: 0xc, VRAMBytes: 20 * gib, ComputeMilli: 285, MIG: "2g.20gb"},
				{Index: 2, UUID: "GPU-c", SliceMask: 0xff, VRAMBytes: 10 * gib},
			}},
			want: `{"v":1,"node":"n1","cards":[` +
				`{"index":1,"uuid":"GPU-b","sliceMask":"0x1","vramBytes":10737418240,"computeMilli":142,"mig":"1g.10gb"},` +
				`{"index":1,"uuid":"GPU-b","sliceMask":"0xc","vramBytes":21474836480,"computeMilli":285,"mig":"2g.20gb"},` +
				`{"index":2,"uuid":"GPU-c","sliceMask":"0xff","vramBytes":10737418240,"computeMilli":0}]}`,
		},
		"a share too small for a slice": {
			record: Record{V: 1, Node: "n1", Cards: []CardRecord{{Index: 2, SliceMask: 0, VRAMBytes: 1 << 20}}},
			want:   `{"v":1,"node":"n1","cards":[{"index":2,"sliceMask":"0x0","vramBytes":1048576,"computeMilli":0}]}`,
		},
		"two containers": {
			record: Record{V: 1, Node: "n1", Cards: []CardRecord{whole(0, ""), whole(1, "")}, Containers: []ContainerRecord{
				{Name: "x", Cards: []CardRecord{whole(0, "")}}, {Name: "y", Cards: []CardRecord{whole(1, "")}},
			}},
			want: `{"v":1,"node":"n1","cards":[{"index":0,"sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000},` +
				`{"index":1,"sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}],"containers":[` +
				`{"name":"x","cards":[{"index":0,"sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}]},` +
				`{"name":"y","cards":[{"index":1,"sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}]}]}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.record.Format()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Format (-want +got):\n%s", diff)
			}
			back, err := ParseRecord(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.record, back); diff != "" {
				t.Errorf("ParseRecord(Format) (-want +got):\n%s", diff)
			}
		})
	}
}

// card is a valid card of the wire with one part replaced.
func card(old, replacement string) string {
	const valid = `{"index":0,"uuid":"GPU-a","sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}`
	if old != "" && !strings.Contains(valid, old) {
		panic("the valid card has no " + old)
	}
	return strings.Replace(valid, old, replacement, 1)
}

func record(cards ...string) string {
	return `{"v":1,"node":"n1","cards":[` + strings.Join(cards, ",") + `]}`
}

func TestParseRecordRefuses(t *testing.T) {
	mig := func(index, mask string) string {
		return `{"index":` + index + `,"sliceMask":"` + mask + `","vramBytes":1,"computeMilli":0,"mig":"1g.10gb"}`
	}
	tests := map[string]struct {
		value     string
		wantField string
		wantValue string
	}{
		"empty":                      {``, AllocationAnnotation, ``},
		"not an object":              {`[]`, AllocationAnnotation, `array`},
		"truncated":                  {`{"v":1,"node":"n1","cards":[{"ind`, AllocationAnnotation, `{"v":1,"node":"n1","cards":[{"ind`},
		"something follows":          {record(card("", "")) + "x", AllocationAnnotation, (record(card("", "")) + "x")[:64]},
		"invalid UTF-8":              {"{\"v\":1,\"node\":\"\xff\"}", AllocationAnnotation, "{\"v\":1,\"node\":\"\xff\"}"},
		"300 KB":                     {strings.Repeat(" ", 300<<10), AllocationAnnotation, `307200 bytes`},
		"no version":                 {`{"node":"n1"}`, "v", `{"node":"n1"}`},
		"null version":               {`{"v":null}`, "v", `{"v":null}`},
		"version 0":                  {`{"v":0}`, "v", `{"v":0}`},
		"version past 64 bits":       {`{"v":1e19}`, "v", `number 1e19`},
		"version as text":            {`{"v":"1"}`, "v", `string`},
		"fractional version":         {`{"v":1.5}`, "v", `number 1.5`},
		"no node":                    {`{"v":1,"cards":[` + card("", "") + `]}`, "node", ``},
		"empty node":                 {`{"v":1,"node":"","cards":[` + card("", "") + `]}`, "node", ``},
		"no cards":                   {`{"v":1,"node":"n1"}`, "cards", ``},
		"zero cards":                 {record(), "cards", ``},
		"null card":                  {record("null"), "cards[0].index", ``},
		"no index":                   {record(card(`"index":0,`, ``)), "cards[0].index", ``},
		"negative index":             {record(card(`"index":0`, `"index":-1`)), "cards[0].index", `-1`},
		"index 64":                   {record(card(`"index":0`, `"index":64`)), "cards[0].index", `64`},
		"fractional index":           {record(card(`"index":0`, `"index":0.5`)), "cards.index", `number 0.5`},
		"the same index twice":       {record(card("", ""), card("", "")), "cards[1].index", `0`},
		"no mask":                    {record(card(`"sliceMask":"0xffffffffffffffff",`, ``)), "cards[0].sliceMask", ``},
		"mask as a number":           {record(card(`"0xffffffffffffffff"`, `15`)), "cards.sliceMask", `number`},
		"mask without 0x":            {record(card(`0xffffffffffffffff`, `ff`)), "cards[0].sliceMask", `ff`},
		"mask of 17 digits":          {record(card(`0xffffffffffffffff`, `0x10000000000000000`)), "cards[0].sliceMask", `0x10000000000000000`},
		"mask with a sign":           {record(card(`0xffffffffffffffff`, `0x-1`)), "cards[0].sliceMask", `0x-1`},
		"mask with _":                {record(card(`0xffffffffffffffff`, `0x1_0`)), "cards[0].sliceMask", `0x1_0`},
		"no bytes":                   {record(card(`"vramBytes":85899345920,`, ``)), "cards[0].vramBytes", ``},
		"negative bytes":             {record(card(`85899345920`, `-1`)), "cards[0].vramBytes", `-1`},
		"1e19 bytes":                 {record(card(`85899345920`, `1e19`)), "cards.vramBytes", `number 1e19`},
		"more bytes than any card":   {record(card(`85899345920`, `9223372036854775807`)), "cards[0].vramBytes", `9223372036854775807`},
		"NaN bytes":                  {record(card(`85899345920`, `NaN`)), AllocationAnnotation, record(card(`85899345920`, `NaN`))[:64]},
		"a share without memory":     {record(card(`"0xffffffffffffffff","vramBytes":85899345920`, `"0x1","vramBytes":0`)), "cards[0].vramBytes", `0`},
		"no compute":                 {record(card(`,"computeMilli":1000`, ``)), "cards[0].computeMilli", ``},
		"negative compute":           {record(card(`:1000`, `:-1`)), "cards[0].computeMilli", `-1`},
		"compute 1001":               {record(card(`:1000`, `:1001`)), "cards[0].computeMilli", `1001`},
		"compute past 32 bits":       {record(card(`:1000`, `:4294967296`)), "cards.computeMilli", `number 4294967296`},
		"one UUID on two cards":      {record(card("", ""), card(`"index":0`, `"index":1`)), "cards[1].uuid", `GPU-a`},
		"UUID of 508 characters":     {record(card(`GPU-a`, strings.Repeat("é", 508))), "cards[0].uuid", strings.Repeat("é", 64)},
		"MIG without slices":         {record(mig("0", "0x0")), "cards[0].sliceMask", `0x0`},
		"MIG with a ninth slice":     {record(mig("0", "0x100")), "cards[0].sliceMask", `0x100`},
		"MIG with a hole":            {record(mig("0", "0x5")), "cards[0].sliceMask", `0x5`},
		"MIG instances overlap":      {record(mig("0", "0x3"), mig("0", "0x6")), "cards[1].index", `0`},
		"MIG and whole on one card":  {record(mig("0", "0x3"), card("", "")), "cards[1].index", `0`},
		"two UUIDs on one card":      {record(mig("0", "0x1"), strings.Replace(mig("0", "0x2"), `{`, `{"uuid":"GPU-b",`, 1)), "cards[1].uuid", `GPU-b`},
		"negative rank":              {strings.Replace(record(card("", "")), `{"v":1`, `{"v":1,"rank":-1`, 1), "rank", `-1`},
		"container without name":     {strings.Replace(record(card("", "")), `{"v":1`, `{"v":1,"containers":[{"cards":[`+card("", "")+`]}]`, 1), "containers[0].name", ``},
		"container without cards":    {strings.Replace(record(card("", "")), `{"v":1`, `{"v":1,"containers":[{"name":"x","cards":[]}]`, 1), "containers[0].cards", ``},
		"container on a card beside": {strings.Replace(record(card("", "")), `{"v":1`, `{"v":1,"containers":[{"name":"x","cards":[`+card(`"index":0`, `"index":7`)+`]}]`, 1), "containers[0].cards[0].index", `7`},
		"container twice": {strings.Replace(record(card("", "")), `{"v":1`,
			`{"v":1,"containers":[{"name":"x","cards":[`+card("", "")+`]},{"name":"x","cards":[`+card("", "")+`]}]`, 1), "containers[1].name", `x`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRecord(tt.value)
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("ParseRecord = %+v, error %v (%T), want a *FieldError", got, err, err)
			}
			if diff := cmp.Diff([]string{tt.wantField, tt.wantValue}, []string{field.Field, field.Value}); diff != "" {
				t.Errorf("field and value (-want +got):\n%s\n%v", diff, err)
			}
			if len(err.Error()) > 1024 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestParseRecordVersions(t *testing.T) {
	tests := map[string]struct {
		value   string
		wantGot int
	}{
		"newer, of another shape": {`{"v":2,"node":7,"cards":"all"}`, 2},
		"negative":                {`{"v":-3}`, -3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRecord(tt.value)
			var version *VersionError
			if !errors.As(err, &version) {
				t.Fatalf("error %v (%T), want a *VersionError", err, err)
			}
			if diff := cmp.Diff(&VersionError{Key: AllocationAnnotation, Got: tt.wantGot}, version); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRecordIgnoresUnknownFields(t *testing.T) {
	value := `{"later":{"x":[1]},` + record(card(`"index":0`, `"index":0,"later":true`))[1:]
	got, err := ParseRecord(value)
	if err != nil {
		t.Fatal(err)
	}
	want := &Record{V: 1, Node: "n1", Cards: []CardRecord{whole(0, "GPU-a")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecordFormatRefuses(t *testing.T) {
	many := make([]CardRecord, 513)
	tests := map[string]struct {
		record    Record
		wantField string
	}{
		"no cards":           {Record{V: 1, Node: "n1"}, "cards"},
		"too many shares":    {Record{V: 1, Node: "n1", Cards: many}, "cards"},
		"text not in UTF-8":  {Record{V: 1, Node: "n1", Cards: []CardRecord{whole(0, "GPU-\xff")}}, "cards[0].uuid"},
		"plan far too long":  {Record{V: 1, Node: "n1", Cards: []CardRecord{whole(0, "")}, Plan: strings.Repeat("x", 600)}, "plan"},
		"container unnamed":  {Record{V: 1, Node: "n1", Cards: []CardRecord{whole(0, "")}, Containers: []ContainerRecord{{}}}, "containers[0].name"},
		"negative VRAM":      {Record{V: 1, Node: "n1", Cards: []CardRecord{{VRAMBytes: -1}}}, "cards[0].vramBytes"},
		"a share of nothing": {Record{V: 1, Node: "n1", Cards: []CardRecord{{}}}, "cards[0].vramBytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.record.Format()
			var field *FieldError
			if !errors.As(err, &field) || field.Field != tt.wantField {
				t.Errorf("Format = %q, error %v, want a *FieldError for %s", got, err, tt.wantField)
			}
		})
	}
	var version *VersionError // of a Record that nobody gave a version
	if _, err := (&Record{Node: "n1", Cards: []CardRecord{whole(0, "")}}).Format(); !errors.As(err, &version) {
		t.Errorf("Format of version 0: %v, want a *VersionError", err)
	}
}

func TestSliceMask(t *testing.T) {
	for want, mask := range map[string]SliceMask{"0x0": 0, "0x1": 1, "0xff": 255, "0xffffffffffffffff": math.MaxUint64} {
		if got := mask.String(); got != want {
			t.Errorf("String of %d = %q, want %q", mask, got, want)
		}
		var back SliceMask
		if err := back.UnmarshalText([]byte(want)); err != nil || back != mask {
			t.Errorf("UnmarshalText(%q) = %v, %v, want %v", want, back, err, mask)
		}
	}
	if got, err := ParseSliceMask("0x00FF"); err != nil || got != 255 {
		t.Errorf("ParseSliceMask with leading zeros and capitals = %v, %v", got, err)
	}
}
