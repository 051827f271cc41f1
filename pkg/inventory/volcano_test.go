package inventory

import (
	"strings"
	"testing"
)

func TestVolcanoRegister(t *testing.T) {
	const card = "GPU-0,10,81920,NVIDIA-H100-80GB-HBM3,true,hami-core:"
	eight := ""
	for i := range 8 {
		eight += strings.Replace(card, "GPU-0", uuid(i), 1)
	}
	tests := map[string]struct {
		value       string
		wantSource  string
		wantUsable  string
		wantLink    string // of cards 0 and 1
		wantProblem []string
	}{
		"eight cards":     {value: eight, wantSource: SourceVolcano, wantUsable: "{0,1,2,3,4,5,6,7}", wantLink: "NV18"},
		"no final colon":  {value: strings.TrimSuffix(eight, ":"), wantSource: SourceVolcano, wantUsable: "{0,1,2,3,4,5,6,7}", wantLink: "NV18"},
		"unknown product": {value: strings.ReplaceAll(eight, "H100", "X9"), wantSource: SourceVolcano, wantUsable: "{0,1,2,3,4,5,6,7}", wantLink: "?"},
		"order unknown, machine not uniform": {
			value:      strings.ReplaceAll(eight, "NVIDIA-H100-80GB-HBM3", "Tesla-V100-SXM2-32GB"),
			wantSource: SourceVolcano, wantUsable: "{0,1,2,3,4,5,6,7}", wantLink: "?",
		},
		"sick card": {value: strings.Replace(eight, "true", "false", 1), wantSource: SourceVolcano, wantUsable: "{1,2,3,4,5,6,7}", wantLink: "NV18"},
		"no size": {
			value:      strings.Replace(eight, "81920", "0", 1),
			wantSource: SourceVolcano, wantUsable: "{1,2,3,4,5,6,7}", wantLink: "NV18", wantProblem: []string{`[0].memory: "0"`},
		},
		"no UUID": {
			value:      strings.Replace(eight, "GPU-0", "", 1),
			wantSource: SourceVolcano, wantUsable: "{1,2,3,4,5,6,7}", wantLink: "NV18", wantProblem: []string{"[0].uuid"},
		},
		"later field": {value: "GPU-0,10,81920,T4,true,hami-core,new:GPU-1,10,81920,T4,true,hami-core:", wantSource: SourceVolcano, wantUsable: "{0,1}", wantLink: "SYS"},
		"five fields": {value: "GPU-0,10,81920,T4,true:", wantSource: "", wantUsable: "none", wantProblem: []string{"5 fields"}},
		"bad size":    {value: "GPU-0,10,80Gi,T4,true,hami-core:", wantUsable: "none", wantProblem: []string{`field memory: "80Gi"`}},
		"bad health":  {value: "GPU-0,10,81920,T4,1,hami-core:", wantUsable: "none", wantProblem: []string{`field health: "1"`}},
		"empty":       {value: "", wantUsable: "none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(strs{annotationVolcanoRegister: tt.value}, nil, strs{"volcano.sh/vgpu-number": "80"}), nil, Options{})
			if res.Source != tt.wantSource || usable(res) != tt.wantUsable {
				t.Errorf("got source %q, usable %s; want %q, %s", res.Source, usable(res), tt.wantSource, tt.wantUsable)
			}
			if res.Topology != nil {
				if got := res.Topology.Link(0, 1).String(); got != tt.wantLink {
					t.Errorf("cards 0 and 1 are joined by %s, want %s", got, tt.wantLink)
				}
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}
