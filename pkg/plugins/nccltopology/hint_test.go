package nccltopology

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestParseHint(t *testing.T) {
	tests := map[string]struct {
		text        string
		want        hint
		wantClamped string // what the note names, "" for no note
		wantErr     string // what the error names, "" for no error
	}{
		"both":           {`{"pciProximity":0.92,"nvlinkBandwidth":1.0}`, hint{0.92, 1}, "", ""},
		"one":            {` {"nvlinkBandwidth": 0.9} `, hint{0, 0.9}, "", ""},
		"none":           {`{}`, hint{}, "", ""},
		"ends of ranges": {`{"pciProximity":0.7,"nvlinkBandwidth":0.85}`, hint{0.7, 0.85}, "", ""},
		"below":          {`{"pciProximity":0}`, hint{0.7, 0}, "pciProximity: 0 is outside 0.7 to 1", ""},
		"negative":       {`{"pciProximity":-1e9}`, hint{0.7, 0}, "-1e+09", ""},
		"above":          {`{"nvlinkBandwidth":2}`, hint{0, 1}, "nvlinkBandwidth: 2 is outside 0.85 to 1", ""},
		"both outside":   {`{"pciProximity":2,"nvlinkBandwidth":0.1}`, hint{1, 0.85}, "; ", ""},
		"empty":          {``, hint{}, "", "not a JSON object"},
		"null":           {`null`, hint{}, "", "not a JSON object"},
		"array":          {`[0.9]`, hint{}, "", "not a JSON object"},
		"number":         {`0.9`, hint{}, "", "not a JSON object"},
		"text":           {`{"pciProximity":"0.9"}`, hint{}, "", `pciProximity: "0.9" is not a number`},
		"null value":     {`{"pciProximity":null}`, hint{}, "", "not a number"},
		"nested":         {`{"pciProximity":{}}`, hint{}, "", "not a number"},
		"too large":      {`{"pciProximity":1e999}`, hint{}, "", "cannot be read"},
		"NaN":            {`{"pciProximity":NaN}`, hint{}, "", "cannot be read"},
		"unknown":        {`{"pciproximity":0.9}`, hint{}, "", `"pciproximity" is unknown`},
		"twice":          {`{"pciProximity":0.9,"pciProximity":0.8}`, hint{}, "", "stands twice"},
		"more":           {`{"pciProximity":0.9}{}`, hint{}, "", "after the object"},
		"cut":            {`{"pciProximity":0.9`, hint{}, "", "does not end"},
		"comma":          {`{"pciProximity":0.9,}`, hint{}, "", ""},
		"long":           {strings.Repeat(" ", 300) + `{}`, hint{}, "", "bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, clamped, err := parseHint(tt.text)
			if name == "comma" {
				if err == nil {
					t.Error("a comma before the end is accepted")
				}
				return
			}
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("hint %+v, want %+v", got, tt.want)
			}
			if (clamped != "") != (tt.wantClamped != "") || !strings.Contains(clamped, tt.wantClamped) {
				t.Errorf("note %q, want %q", clamped, tt.wantClamped)
			}
		})
	}
}

// FuzzParseHint: whatever stands in the annotation, what comes out is in range, and everything accepted is JSON.
func FuzzParseHint(f *testing.F) {
	for _, seed := range []string{`{"pciProximity":0.92,"nvlinkBandwidth":1.0}`, `{}`, `{"pciProximity":1e999}`, `{"pciProximity":-0}`, `{"a":1}`, `{"pciProximity":0.9,`, `[`, "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, _, err := parseHint(text)
		if err != nil {
			if h != (hint{}) {
				t.Errorf("an error with hint %+v", h)
			}
			return
		}
		if h.pci != 0 && !(h.pci >= minPCI && h.pci <= maxPCI) || h.nvlink != 0 && !(h.nvlink >= minNVLink && h.nvlink <= maxNVLink) {
			t.Errorf("hint %+v is out of range", h)
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%q is accepted and not JSON", text)
		}
	})
}

func TestHintCacheForgetsNodes(t *testing.T) {
	var c hintCache
	for i := range 200 {
		c.nodes.Store(string(rune('a'+i)), readHint{})
		c.size.Add(1)
	}
	b := topology.NewFabricBuilder(nil)
	b.SetNode("a", nil)
	c.tidy(b.Fabric())
	left := 0
	c.nodes.Range(func(any, any) bool { left++; return true })
	if left != 1 || c.size.Load() != 1 {
		t.Errorf("%d nodes are remembered, counted as %d, want 1", left, c.size.Load())
	}
}
