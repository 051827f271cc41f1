package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestParseHAMiText(t *testing.T) {
	tests := map[string]struct {
		value   string
		want    []hamiDevice
		wantErr string
	}{
		"seven fields": {
			value: "GPU-a,10,16384,100,NVIDIA-Tesla V100,1,true:GPU-b,10,16384,100,NVIDIA-Tesla V100,0,false:",
			want: []hamiDevice{
				{ID: "GPU-a", Devmem: 16384, Type: "NVIDIA-Tesla V100", NUMA: 1, Health: true},
				{ID: "GPU-b", Devmem: 16384, Type: "NVIDIA-Tesla V100"},
			},
		},
		"nine fields, no colon at the end": {
			value: "GPU-a,10,16384,100,NVIDIA-Tesla V100,0,true,3,mig",
			want:  []hamiDevice{{ID: "GPU-a", Devmem: 16384, Type: "NVIDIA-Tesla V100", Health: true, Index: 3, Mode: "mig"}},
		},
		"eight fields":   {value: "GPU-a,10,1,100,T4,0,true,2:", want: []hamiDevice{{ID: "GPU-a", Devmem: 1, Type: "T4", Health: true, Index: 2}}},
		"empty":          {value: " : ", want: []hamiDevice{}},
		"six fields":     {value: "GPU-a,10,1,100,T4,0:", wantErr: "6 fields"},
		"ten fields":     {value: "GPU-a,10,1,100,T4,0,true,1,mig,x:", wantErr: "10 fields"},
		"group missing":  {value: "GPU-a,10,1,100,T4,0,true::", wantErr: "1 fields"},
		"memory":         {value: "GPU-a,10,1e3,100,T4,0,true:", wantErr: `field mem: "1e3"`},
		"memory NaN":     {value: "GPU-a,10,NaN,100,T4,0,true:", wantErr: `field mem: "NaN"`},
		"memory beyond":  {value: "GPU-a,10,9223372036854775808,100,T4,0,true:", wantErr: "field mem"},
		"numa":           {value: "GPU-a,10,1,100,T4,0x1,true:", wantErr: `field numa: "0x1"`},
		"health":         {value: "GPU-a,10,1,100,T4,0,yes:", wantErr: `field health: "yes"`},
		"index":          {value: "GPU-a,10,1,100,T4,0,true,1_0:", wantErr: `field index: "1_0"`},
		"too many cards": {value: strings.Repeat("GPU-a,10,1,100,T4,0,true:", 65), wantErr: "at most 64"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseHAMiRegister(tt.value)
			if (err == nil) != (tt.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error is %v, want %q", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); err == nil && diff != "" && len(tt.want)+len(got) > 0 {
				t.Errorf("devices differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHAMiRegister checks what becomes of whole registers.
func TestHAMiRegister(t *testing.T) {
	tests := map[string]struct {
		value       string
		wantSource  string
		wantUsable  string
		wantCards   int
		wantProblem []string
	}{
		"eight cards":  {value: hamiJSON(8, nil), wantSource: SourceHAMi, wantUsable: "{0,1,2,3,4,5,6,7}", wantCards: 8},
		"empty list":   {value: "[]", wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2},
		"blank":        {value: " ", wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2},
		"not a list":   {value: `{"id":"GPU-0"}`, wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{"hami.io/node-nvidia-register"}},
		"cut off":      {value: hamiJSON(8, nil)[:100], wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{"unexpected end"}},
		"wrong type":   {value: `[{"id":"GPU-0","devmem":"8192"}]`, wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{"devmem"}},
		"null entries": {value: `[null,null]`, wantSource: SourceHAMi, wantUsable: "{}", wantCards: 2, wantProblem: []string{"[0].devmem", "[0].id", "[1].devmem", "[1].id"}},
		"sizes of 0 and below, and a huge one": {
			value: hamiJSON(4, func(i int, e string) string {
				return strings.Replace(e, `"devmem":81920`, `"devmem":`+[]string{"81920", "0", "-1", "9223372036854775807"}[i], 1)
			}),
			wantSource: SourceHAMi, wantUsable: "{0}", wantCards: 4,
			wantProblem: []string{`[1].devmem: "0"`, `[2].devmem: "-1"`, `[3].devmem: "9223372036854775807"`},
		},
		"no size": {
			value:      hamiJSON(2, func(i int, e string) string { return strings.Replace(e, `"devmem":81920,`, "", 1-i) }),
			wantSource: SourceHAMi, wantUsable: "{1}", wantCards: 2, wantProblem: []string{"[0].devmem"},
		},
		"sick card": {
			value: hamiJSON(4, func(i int, e string) string {
				return strings.Replace(e, `"health":true`, fmt.Sprintf(`"health":%v`, i != 2), 1)
			}),
			wantSource: SourceHAMi, wantUsable: "{0,1,3}", wantCards: 4,
		},
		"health left out": {
			value:      hamiJSON(2, func(i int, e string) string { return strings.Replace(e, `"health":true,`, "", i) }),
			wantSource: SourceHAMi, wantUsable: "{0}", wantCards: 2,
		},
		"one UUID twice": {
			value:      hamiJSON(3, func(_ int, e string) string { return strings.Replace(e, "GPU-2", "GPU-0", 1) }),
			wantSource: SourceHAMi, wantUsable: "{1}", wantCards: 3, wantProblem: []string{"cards[0]", "cards[2]"},
		},
		"index left out": {
			value:      strings.Replace(hamiJSON(3, nil), `"index":1`, `"index":4`, 1),
			wantSource: SourceHAMi, wantUsable: "{0,2,4}", wantCards: 5,
		},
		"index twice": {
			value:      strings.Replace(hamiJSON(3, nil), `"index":1`, `"index":2`, 1),
			wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{`index: "2"`},
		},
		"index beyond": {
			value:      strings.Replace(hamiJSON(3, nil), `"index":1`, `"index":64`, 1),
			wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{`index: "64"`},
		},
		"index below 0": {
			value:      strings.Replace(hamiJSON(3, nil), `"index":1`, `"index":-1`, 1),
			wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{`index: "-1"`},
		},
		"no indices at all": {
			value:      hamiJSON(3, func(i int, e string) string { return strings.Replace(e, fmt.Sprintf(`"index":%d,`, i), "", 1) }),
			wantSource: SourceHAMi, wantUsable: "{0,1,2}", wantCards: 3,
		},
		"200 cards": {
			value:      hamiJSON(200, nil),
			wantSource: SourceAllocatable, wantUsable: "{0,1}", wantCards: 2, wantProblem: []string{"hami.io/node-nvidia-register"},
		},
		"numa below 0": {
			value:      strings.Replace(hamiJSON(2, nil), `"numa":0`, `"numa":-7`, 2),
			wantSource: SourceHAMi, wantUsable: "{0,1}", wantCards: 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(strs{annotationHAMiRegister: tt.value}, nil, strs{"nvidia.com/gpu": "2"}), nil, Options{})
			if res.Source != tt.wantSource || usable(res) != tt.wantUsable || res.Topology.Len() != tt.wantCards {
				t.Errorf("got source %s, usable %s of %d; want %s, %s of %d",
					res.Source, usable(res), res.Topology.Len(), tt.wantSource, tt.wantUsable, tt.wantCards)
			}
			var problems []Problem
			for _, p := range res.Problems {
				if p.Source != SourceKubelet {
					problems = append(problems, p)
				}
			}
			wantProblems(t, problems, tt.wantProblem...)
		})
	}
}

func TestHAMiMIGMode(t *testing.T) {
	value := strings.Replace(hamiJSON(2, nil), `"mode":"hami-core"`, `"mode":"mig"`, 1)
	res := Resolve(newNode(strs{annotationHAMiRegister: value}, nil, strs{"nvidia.com/gpu": "0"}), nil, Options{})
	if got, want := res.Topology.MIGCards().String()+" "+usable(res), "{0} {0}"; got != want {
		t.Errorf("cards in MIG mode and usable are %s, want %s", got, want)
	}
}

// scores writes pair scores for n cards.
func scores(n int, score func(i, j int) int) string {
	var rows []string
	for i := range n {
		var cells []string
		for j := range n {
			if i != j {
				cells = append(cells, fmt.Sprintf(`"GPU-%d":%d`, j, score(i, j)))
			}
		}
		rows = append(rows, fmt.Sprintf(`{"uuid":"GPU-%d","score":{%s}}`, i, strings.Join(cells, ",")))
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func TestHAMiScore(t *testing.T) {
	old := func(i, j int) int { return map[bool]int{true: 20, false: 10}[i/4 == j/4] }
	tests := map[string]struct {
		cards       int
		product     string // of every card
		score       string // "" for no annotation
		wantLinks   string // row of card 0
		wantProblem []string
	}{
		"PCIe paths":           {cards: 8, product: "Tesla T4", score: scores(8, func(i, j int) int { return 10 * (max(i, j) - 1) }), wantLinks: "X ? SYS NODE PHB PXB PIX PIX"},
		"NVLinks beside paths": {cards: 3, product: "Tesla V100", score: scores(3, func(i, j int) int { return 100*max(i, j) + 50 }), wantLinks: "X NV1 NV2"},
		"one direction only": {
			cards: 3, product: "Tesla V100", wantLinks: "X ? NV2",
			score: `[{"uuid":"GPU-0","score":{"GPU-1":200,"GPU-2":200}},{"uuid":"GPU-2","score":{"GPU-0":210}}]`,
		},
		"unknown cards and odd values": {
			cards: 2, product: "Tesla V100", wantLinks: "X ?",
			score:       `[{"uuid":"GPU-42","score":{"GPU-0":100}},{"uuid":"GPU-0","score":{"GPU-1":-100,"GPU-42":100}},{"uuid":"GPU-1","score":{"GPU-0":77}}]`,
			wantProblem: []string{`"GPU-42"`, `"-100"`, `"GPU-42"`, `"77"`},
		},
		"too many links": {
			cards: 2, product: "Tesla V100", wantLinks: "X ?",
			score: scores(2, func(int, int) int { return 25600 }), wantProblem: []string{"25600", "25600"},
		},
		"card and itself":            {cards: 2, product: "Tesla V100", score: `[{"uuid":"GPU-0","score":{"GPU-0":1800}}]`, wantLinks: "X ?"},
		"broken scores":              {cards: 8, product: h100, score: "{", wantLinks: "X NV18 NV18 NV18 NV18 NV18 NV18 NV18", wantProblem: []string{annotationHAMiScore}},
		"no scores":                  {cards: 8, product: h100, wantLinks: "X NV18 NV18 NV18 NV18 NV18 NV18 NV18"},
		"no scores, unknown machine": {cards: 3, product: "Foo 1", wantLinks: "X ? ?"},
		"HAMi that sees no NVSwitch": {cards: 8, product: h100, score: scores(8, old), wantLinks: "X NV18 NV18 NV18 NV18 NV18 NV18 NV18"},
		"PCIe machine":               {cards: 8, product: "NVIDIA L40S", score: scores(8, old), wantLinks: "X NODE NODE NODE SYS SYS SYS SYS"},
		"one NVLink broken": {
			cards: 8, product: h100, wantLinks: "X NV18 NV18 NV18 NV18 NV18 NV18 SYS",
			score: scores(8, func(i, j int) int {
				if i+j == 7 {
					return 10
				}
				return 1810
			}),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			annotations := strs{annotationHAMiRegister: strings.ReplaceAll(hamiJSON(tt.cards, nil), h100, tt.product)}
			if tt.score != "" {
				annotations[annotationHAMiScore] = tt.score
			}
			res := Resolve(newNode(annotations, nil, nil), nil, Options{})
			if res.Source != SourceHAMi {
				t.Fatalf("source is %q: %v", res.Source, res.Problems)
			}
			var row []string
			for j := range tt.cards {
				row = append(row, res.Topology.Link(0, j).String())
			}
			if got := strings.Join(row, " "); got != tt.wantLinks {
				t.Errorf("links of card 0 are %q, want %q", got, tt.wantLinks)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}

// TestCaseB114HAMiScores is B114 for the source it was reported of.
func TestCaseB114HAMiScores(t *testing.T) {
	for score := 0; score <= 1860; score += 10 {
		l, err := scoreLink(score)
		switch path := score % 100; {
		case path > 60:
			if err == nil {
				t.Errorf("score %d is read as %s", score, l)
			}
		case score >= 100:
			if want := (topology.Link{Type: topology.LinkNVLink, NVLinks: uint8(score / 100)}); l != want || err != nil {
				t.Errorf("score %d is %s, %v, want %s", score, l, err, want)
			}
		default:
			if l.Type == topology.LinkNVLink || l.NVLinks != 0 || err != nil {
				t.Errorf("score %d is %s, %v, want a PCIe path", score, l, err)
			}
		}
	}
}
