package inventory

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// topo builds a node with this value in gputopology.io/topology and eight cards in its status.
func topo(value string) *v1.Node {
	return newNode(strs{v1alpha1.TopologyAnnotation: value}, nil, strs{"nvidia.com/gpu": "8"})
}

func TestCaseB106CardsWithoutSize(t *testing.T) {
	node := newNode(strs{v1alpha1.TopologyAnnotation: `{"v":1,"cards":[
		{"uuid":"GPU-0","vramBytes":0},{"uuid":"GPU-1","vramBytes":-1},{"uuid":"GPU-2","vramBytes":85899345920}]}`}, nil, nil)
	res := Resolve(node, nil, Options{})
	if got, want := usable(res), "{2}"; got != want {
		t.Errorf("usable cards are %s, want %s", got, want)
	}
	if got := res.Topology.Card(1).VRAMBytes; got != 0 {
		t.Errorf("a negative size is kept as %d", got)
	}
	wantProblems(t, res.Problems, "cards[0]", "cards[1]")
	for i := range res.Topology.Len() {
		for j := range res.Topology.Len() {
			if b := res.Topology.Shape().Pair(i, j); b < 0 {
				t.Errorf("pair %d, %d has bandwidth %d", i, j, b)
			}
		}
	}
}

func TestCaseB110Annotation(t *testing.T) {
	rows := func(n, columns int) string {
		row := `"` + strings.TrimSpace(strings.Repeat("PIX ", columns)) + `"`
		return strings.TrimSuffix(strings.Repeat(row+",", n), ",")
	}
	cards := func(n int) string { return strings.TrimSuffix(strings.Repeat("{},", n), ",") }
	tests := map[string]struct {
		node        *v1.Node
		wantSource  string
		wantUsable  string
		wantProblem []string
	}{
		"missing": {
			node:       newNode(nil, nil, strs{"nvidia.com/gpu": "8"}),
			wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
		},
		"missing, and nothing else": {node: newNode(nil, nil, nil), wantUsable: "none"},
		"empty object": {
			node: topo("{}"), wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{`annotation: gputopology.io/topology: v: "{}"`},
		},
		"no cards": {
			node: topo(`{"v":1,"cards":[]}`), wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{"lists no cards"},
		},
		"truncated": {
			node: topo(`{"v":1,"cards":[{"uuid":"GPU-0"`), wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{"annotation: gputopology.io/topology: "},
		},
		"7 rows for 8 cards": {
			node:       topo(fmt.Sprintf(`{"v":1,"cards":[%s],"links":[%s]}`, cards(8), rows(7, 8))),
			wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{`annotation: gputopology.io/topology: links: "7"`},
		},
		"a link to a card that is not there": {
			node:       topo(`{"v":1,"cards":[{},{}],"links":["X PIX PIX","PIX X"]}`),
			wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{"annotation: gputopology.io/topology: links[0]"},
		},
		"200 cards": {
			node:       topo(fmt.Sprintf(`{"v":1,"cards":[%s]}`, cards(200))),
			wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{`annotation: gputopology.io/topology: cards: "200"`},
		},
		"one UUID twice": {
			node:       topo(`{"v":1,"cards":[{"uuid":"GPU-a"},{"uuid":"GPU-b"},{"uuid":"GPU-a"}]}`),
			wantSource: SourceAnnotation, wantUsable: "{1}",
			wantProblem: []string{"annotation: cards[0]: ", "annotation: cards[2]: "},
		},
		"another version": {
			node: topo(`{"v":2,"cards":[{}]}`), wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantProblem: []string{"version 2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(tt.node, nil, Options{})
			if res.Source != tt.wantSource {
				t.Errorf("source is %q, want %q", res.Source, tt.wantSource)
			}
			if got := usable(res); got != tt.wantUsable {
				t.Errorf("usable cards are %s, want %s", got, tt.wantUsable)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}

func TestCaseB110LopsidedLink(t *testing.T) {
	res := Resolve(topo(`{"v":1,"cards":[{},{},{}],"links":["X NV4 NV4","? X PIX","NV2 PIX X"]}`), nil, Options{})
	want := map[string]string{"0-1": "?", "0-2": "NV2", "1-2": "PIX"}
	got := map[string]string{}
	for i := range 3 {
		for j := i + 1; j < 3; j++ {
			got[fmt.Sprintf("%d-%d", i, j)] = res.Topology.Link(j, i).String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links differ from the weaker direction (-want +got):\n%s", diff)
	}
}

func TestCaseB114NVSwitch(t *testing.T) {
	switched := Resolve(annotated(t, n8s(), nil), nil, Options{})
	pairs := topo(`{"v":1,"cards":[{"product":"NVIDIA H100 80GB HBM3"},{"product":"NVIDIA H100 80GB HBM3"},{"product":"NVIDIA H100 80GB HBM3"}],
		"links":["X NV12 SYS","NV12 X SYS","SYS SYS X"]}`)
	paired := Resolve(pairs, nil, Options{})
	for i := range 8 {
		for j := range i {
			if got := switched.Topology.Link(i, j).String(); got != "NV18" {
				t.Errorf("NVSwitch node: cards %d and %d are joined by %s, want NV18", i, j, got)
			}
		}
	}
	if got := paired.Topology.Link(0, 1).String() + " " + paired.Topology.Link(1, 2).String(); got != "NV12 SYS" {
		t.Errorf("node with pairs: links are %s, want NV12 SYS", got)
	}
}

func TestCaseB104AnnotationLost(t *testing.T) {
	spec := n8s()
	with := Resolve(annotated(t, spec, strs{"nvidia.com/gpu": "8"}), nil, Options{})
	if with.Source != SourceAnnotation {
		t.Fatalf("source is %q", with.Source)
	}
	without := Resolve(newNode(nil, nil, strs{"nvidia.com/gpu": "8"}), nil, Options{})
	if without.Source != SourceAllocatable {
		t.Fatalf("source without annotation is %q", without.Source)
	}
	for i := range 8 {
		if c := without.Topology.Card(i); c.VRAMBytes != 0 {
			t.Errorf("card %d has a size of %d, so that a share could land on it", i, c.VRAMBytes)
		}
	}
	if bare := Resolve(newNode(nil, nil, nil), nil, Options{}); bare.Topology != nil {
		t.Errorf("a node that says nothing has cards: %s", dump(bare))
	}
	for i := range spec.Cards {
		spec.Cards[i].MIGEnabled = true
	}
	if mig := Resolve(annotated(t, spec, nil), nil, Options{}); mig.Topology.MIGCards() != mig.Topology.All() {
		t.Errorf("back in MIG mode, only %s are in it", mig.Topology.MIGCards())
	}
}

func TestCaseB092AnnotationReturnsInAnotherOrder(t *testing.T) {
	spec := n8s()
	spec.NVSwitch = false
	spec.Links = make([][]topology.Link, 8)
	for i := range spec.Links {
		spec.Links[i] = make([]topology.Link, 8)
		for j := range spec.Links[i] {
			if i != j && i/2 == j/2 {
				spec.Links[i][j] = topology.Link{Type: topology.LinkNVLink, NVLinks: 4}
			}
		}
	}
	before := Resolve(annotated(t, spec, nil), nil, Options{}).Topology
	order := []int{5, 2, 7, 0, 1, 6, 3, 4}
	moved := topology.Spec{Links: make([][]topology.Link, 8)}
	for i, from := range order {
		moved.Cards = append(moved.Cards, spec.Cards[from])
		for _, to := range order {
			moved.Links[i] = append(moved.Links[i], spec.Links[from][to])
		}
	}
	after := Resolve(annotated(t, moved, nil), nil, Options{}).Topology
	for i := range 8 {
		at := after.IndexOf(uuid(i))
		if at < 0 || after.Card(at).VRAMBytes != before.Card(i).VRAMBytes || after.Card(at).NUMA != before.Card(i).NUMA {
			t.Fatalf("card %s is at %d after the change", uuid(i), at)
		}
		for j := range 8 {
			if got, want := after.Link(at, after.IndexOf(uuid(j))), before.Link(i, j); got != want {
				t.Errorf("%s and %s are joined by %s, want %s", uuid(i), uuid(j), got, want)
			}
		}
	}
}

func TestCaseB098Staleness(t *testing.T) {
	observed := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	value, err := v1alpha1.FormatTopologyAt(n8s(), observed)
	if err != nil {
		t.Fatal(err)
	}
	node := topo(value)
	const maxAge = 15 * time.Minute
	tests := map[string]struct {
		now        time.Duration
		maxAge     time.Duration
		wantOpen   bool
		wantUntil  time.Duration // after observed; 0 for never
		wantReason string
	}{
		"fresh":                          {now: 10 * time.Minute, maxAge: maxAge, wantOpen: true, wantUntil: maxAge + 1},
		"node's clock 90 s ahead":        {now: -90 * time.Second, maxAge: maxAge, wantOpen: true, wantUntil: maxAge + 1},
		"at the limit":                   {now: maxAge, maxAge: maxAge, wantOpen: true, wantUntil: maxAge + 1},
		"stale":                          {now: maxAge + 1, maxAge: maxAge, wantReason: "more than 15m0s ago"},
		"rule off":                       {now: 1000 * time.Hour, wantOpen: true},
		"observed far ahead":             {now: -time.Hour, maxAge: maxAge, wantUntil: -maxAge, wantReason: "in the future"},
		"a day after heartbeats stopped": {now: 24 * time.Hour, maxAge: maxAge, wantReason: "more than 15m0s ago"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(node, nil, Options{Now: observed.Add(tt.now), MaxAge: tt.maxAge})
			if res.Source != SourceAnnotation || res.Topology == nil || res.Topology.Len() != 8 || res.Topology.IndexOf(uuid(5)) != 5 {
				t.Fatalf("cards are not listed any more:\n%s", dump(res))
			}
			if open := res.Topology.Usable().Len() == 8; open != tt.wantOpen || (!open && !res.Topology.Usable().Empty()) {
				t.Errorf("usable cards are %s, want all: %v", res.Topology.Usable(), tt.wantOpen)
			}
			wantUntil := time.Time{}
			if tt.wantUntil != 0 {
				wantUntil = observed.Add(tt.wantUntil)
			}
			if !res.Until.Equal(wantUntil) {
				t.Errorf("result holds until %s, want %s", res.Until, wantUntil)
			}
			if fault := res.Topology.Card(0).Fault; !strings.Contains(fault, tt.wantReason) || (tt.wantReason == "") != (fault == "") {
				t.Errorf("fault is %q, want %q in it", fault, tt.wantReason)
			}
			if !res.Until.IsZero() {
				again := Resolve(node, nil, Options{Now: res.Until, MaxAge: tt.maxAge})
				if usable(again) == usable(res) {
					t.Errorf("nothing changes at Until: %s", usable(again))
				}
			}
		})
	}
}
