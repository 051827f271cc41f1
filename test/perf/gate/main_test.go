package main

import (
	"strings"
	"testing"
)

// table is what benchstat prints for benchmark A, which got slower and allocates more, B, which did neither significantly, Zero,
// which begins to allocate, and one that each side has alone.
const table = `goos: linux
pkg: example.com/x
,base,,head,,,
,sec/op,CI,sec/op,CI,vs base,P
A-2,1e-07,1%,1.3e-07,2%,+30.00%,p=0.002 n=6
B-2,1e-07,1%,2e-07,90%,~,p=0.240 n=6
Zero-2,1e-07,1%,1.2e-07,2%,+20.00%,p=0.002 n=6
Old-2,1e-07,1%
New-2,,,1e-07,1%
geomean,1e-07,,1.9e-07,,+90%,

,base,,head,,,
,B/op,CI,B/op,CI,vs base,P
A-2,16,0%,1600,0%,+9900.00%,p=0.002 n=6

,base,,head,,,
,allocs/op,CI,allocs/op,CI,vs base,P
A-2,10,0%,11,0%,+10.00%,p=0.002 n=6
B-2,10,0%,12,0%,+20.00%,p=0.002 n=6
Zero-2,0,0%,1,0%,?,p=0.002 n=6
`

func TestGate(t *testing.T) {
	var out strings.Builder
	err := gate(strings.NewReader(table), &out)
	if err == nil || !strings.HasPrefix(err.Error(), "3 of 6 figures") {
		t.Errorf("got %v, want 3 of 6 figures to be worse", err)
	}
	for _, want := range []string{
		"worse: example.com/x A-2: sec/op 1.3e-07, was 1e-07",
		"worse: example.com/x B-2: allocs/op 12, was 10",
		"worse: example.com/x Zero-2: allocs/op 1, was 0",
		"only on one side: example.com/x Old-2 (sec/op)",
		"only on one side: example.com/x New-2 (sec/op)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q in it", out.String(), want)
		}
	}
	if n := strings.Count(out.String(), "worse:"); n != 3 {
		t.Errorf("%d lines say worse, want 3", n)
	}
}

func TestGatePasses(t *testing.T) {
	kept := strings.NewReplacer("1.3e-07", "1.2e-07", "12,0%,+20", "11,0%,+10", "Zero-2,0,0%,1", "Zero-2,1,0%,1").Replace(table)
	var out strings.Builder
	if err := gate(strings.NewReader(kept), &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestGateWithoutInput(t *testing.T) {
	var out strings.Builder
	if err := gate(strings.NewReader(""), &out); err == nil {
		t.Error("nothing was compared, and the gate passed")
	}
}

func TestGateMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"base": "A-2,x,1%,2,1%,~,p=1.000 n=6\n",
		"head": "A-2,1,1%,x,1%,~,p=1.000 n=6\n",
		"p":    "A-2,1,1%,2,1%,~,p=x n=6\n",
	} {
		if _, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
