package inventory

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// with returns a copy of labels with changes; an empty value deletes.
func with(labels strs, pairs ...string) strs {
	out := maps.Clone(labels)
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(out, pairs[i])
		}
	}
	return out
}

func TestGFD(t *testing.T) {
	full := gfdLabels(h100Label, 8)
	tests := map[string]struct {
		labels      strs
		status      strs
		wantSource  string
		wantUsable  string
		wantCard0   string // product, MiB, NUMA
		wantLink    string // of cards 0 and 1
		wantCount   int    // Result.Allocatable
		wantProblem []string
	}{
		"HGX H100": {
			labels: full, status: strs{"nvidia.com/gpu": "8"}, wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantCard0: h100Label + " 81920 0", wantLink: "NV18", wantCount: 8,
		},
		"labels without a device plugin": {
			labels: full, wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7}", wantCard0: h100Label + " 81920 0", wantLink: "NV18", wantCount: -1,
		},
		"time slicing": {
			labels: with(full, labelProduct, h100Label+"-SHARED", labelReplicas, "4"), status: strs{"nvidia.com/gpu": "32"},
			wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7}", wantCard0: h100Label + " 81920 0", wantLink: "NV18", wantCount: 8,
		},
		"time slicing, one card sick": {
			labels: with(full, labelProduct, h100Label+"-SHARED", labelReplicas, "4"), status: strs{"nvidia.com/gpu": "28"},
			wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7}", wantCard0: h100Label + " 81920 0", wantLink: "NV18", wantCount: 7,
			wantProblem: []string{"offers 7 of 8"},
		},
		"unknown product": {
			labels: gfdLabels("Foo-1", 3), wantSource: SourceGFD, wantUsable: "{0,1,2}", wantCard0: "Foo-1 81920 -1", wantLink: "?", wantCount: -1,
		},
		"unknown count for the product": {
			labels: gfdLabels(h100Label, 7), wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6}", wantCard0: h100Label + " 81920 -1", wantLink: "?", wantCount: -1,
		},
		"no memory": {
			labels: with(full, labelMemory, ""), wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7}", wantCard0: h100Label + " 0 0", wantLink: "NV18", wantCount: -1,
		},
		"memory of 0": {
			labels: with(full, labelMemory, "0"), wantSource: SourceGFD, wantUsable: "{}", wantCard0: h100Label + " 0 0", wantLink: "NV18", wantCount: -1,
			wantProblem: []string{`nvidia.com/gpu.memory: "0"`},
		},
		"memory is no number": {
			labels: with(full, labelMemory, "80GB"), wantSource: SourceGFD, wantUsable: "{}", wantCard0: h100Label + " 0 0", wantLink: "NV18", wantCount: -1,
			wantProblem: []string{`nvidia.com/gpu.memory: "80GB"`},
		},
		"memory beyond": {
			labels: with(full, labelMemory, "9223372036854775807"), wantSource: SourceGFD, wantUsable: "{}", wantCard0: h100Label + " 0 0", wantLink: "NV18", wantCount: -1,
			wantProblem: []string{"nvidia.com/gpu.memory"},
		},
		"no count": {
			labels: with(full, labelCount, ""), status: strs{"nvidia.com/gpu": "8"}, wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7}",
			wantCard0: h100Label + " 81920 0", wantLink: "NV18", wantCount: 8,
		},
		"no count, shared": {
			labels: with(full, labelCount, "", labelProduct, h100Label+"-SHARED"), status: strs{"nvidia.com/gpu": "16"},
			wantSource: SourceAllocatable, wantUsable: "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}", wantCard0: " 0 -1", wantLink: "?", wantCount: 16,
			wantProblem: []string{"nvidia.com/gpu.count"},
		},
		"count is no number": {labels: with(full, labelCount, "eight"), wantUsable: "none", wantCount: -1, wantProblem: []string{`nvidia.com/gpu.count: "eight"`}},
		"count of 0":         {labels: with(full, labelCount, "0"), wantUsable: "none", wantCount: -1, wantProblem: []string{`nvidia.com/gpu.count: "0"`}},
		"200 cards": {
			labels: with(full, labelCount, "200"), status: strs{"nvidia.com/gpu": "200"}, wantUsable: "none", wantCount: -1,
			wantProblem: []string{`nvidia.com/gpu.count: "200"`, "counts shares of cards"},
		},
		"MIG, strategy single": {
			labels: strs{labelProduct: h100Label + "-MIG-1g.10gb", labelCount: "14", labelMemory: "9728", "nvidia.com/mig.strategy": "single"},
			status: strs{"nvidia.com/gpu": "14"}, wantSource: SourceGFD, wantUsable: "{0,1,2,3,4,5,6,7,8,9,10,11,12,13}",
			wantCard0: h100Label + "-MIG-1g.10gb 0 -1", wantLink: "?", wantCount: 14,
		},
		"MIG, strategy single, does not suit": {
			labels: strs{labelProduct: h100Label + "-MIG-INVALID", labelCount: "0", labelMemory: "0"},
			status: strs{"nvidia.com/gpu": "0"}, wantUsable: "none", wantCount: -1, wantProblem: []string{"gpu.product"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, tt.labels, tt.status), nil, Options{})
			if res.Source != tt.wantSource || usable(res) != tt.wantUsable || res.Allocatable != tt.wantCount {
				t.Errorf("got source %q, usable %s, allocatable %d; want %q, %s, %d", res.Source, usable(res), res.Allocatable, tt.wantSource, tt.wantUsable, tt.wantCount)
			}
			if res.Topology != nil {
				c := res.Topology.Card(0)
				if got := fmt.Sprintf("%s %d %d", c.Product, c.VRAMBytes/mib, c.NUMA); got != tt.wantCard0 {
					t.Errorf("card 0 is %q, want %q", got, tt.wantCard0)
				}
				if got := res.Topology.Link(0, 1).String(); got != tt.wantLink {
					t.Errorf("cards 0 and 1 are joined by %s, want %s", got, tt.wantLink)
				}
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}

// instances writes the instances of every card, cards divided by " | ".
func instances(res Result) string {
	var cards []string
	for i := range res.Topology.Len() {
		c := res.Topology.Card(i)
		var list []string
		for _, m := range c.MIG {
			list = append(list, fmt.Sprintf("%s@%d", m.Profile, m.Start))
		}
		switch {
		case c.Fault != "":
			cards = append(cards, "closed")
		case !c.MIGEnabled:
			cards = append(cards, "whole")
		default:
			cards = append(cards, strings.Join(list, " "))
		}
	}
	return strings.Join(cards, " | ")
}

func TestGFDMixedMIG(t *testing.T) {
	mixed := func(n int, counts ...string) strs {
		labels := gfdLabels(h100Label, n)
		labels["nvidia.com/mig.strategy"] = "mixed"
		for i := 0; i < len(counts); i += 2 {
			labels["nvidia.com/mig-"+counts[i]+".count"] = counts[i+1]
		}
		return labels
	}
	const seven = "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6"
	tests := map[string]struct {
		labels      strs
		status      strs
		want        string
		wantProblem []string
	}{
		"no instances": {labels: mixed(2), status: strs{"nvidia.com/gpu": "2"}, want: "whole | whole"},
		"every card, one layout": {
			labels: mixed(2, "1g.10gb", "4", "2g.20gb", "2", "3g.40gb", "2"), status: strs{"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-2g.20gb": "2", "nvidia.com/mig-3g.40gb": "2"},
			want: "2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4 | 2g.20gb@0 1g.10gb@2 1g.10gb@3 3g.40gb@4",
		},
		"labels without status": {labels: mixed(2, "7g.80gb", "2"), want: "7g.80gb@0 | 7g.80gb@0"},
		"status without labels": {labels: mixed(2), status: strs{"nvidia.com/mig-4g.40gb": "2", "nvidia.com/mig-3g.40gb": "2"}, want: "4g.40gb@0 3g.40gb@4 | 4g.40gb@0 3g.40gb@4"},
		"some cards whole":      {labels: mixed(4, "1g.10gb", "7"), status: strs{"nvidia.com/gpu": "3", "nvidia.com/mig-1g.10gb": "7"}, want: "whole | whole | whole | " + seven},
		"a whole card is sick, the layout stays": {
			labels: mixed(4, "1g.10gb", "7"), status: strs{"nvidia.com/gpu": "2", "nvidia.com/gpu^": "3", "nvidia.com/mig-1g.10gb": "7"},
			want: "whole | whole | whole | " + seven, wantProblem: []string{"offers 2 of 3"},
		},
		"an instance is sick, the layout stays": {
			labels: mixed(1, "1g.10gb", "7"), status: strs{"nvidia.com/mig-1g.10gb": "6", "nvidia.com/mig-1g.10gb^": "7"},
			want: seven, wantProblem: []string{"offers 6 of 7 instances"},
		},
		"whole cards shared under another name": {
			labels: with(mixed(4, "1g.10gb", "7"), labelReplicas, "4"), status: strs{"nvidia.com/gpu.shared": "12", "nvidia.com/mig-1g.10gb": "7"},
			want: "whole | whole | whole | " + seven,
		},
		"a card in MIG mode without instances": {labels: mixed(3, "1g.10gb", "14"), want: " | " + seven + " | " + seven},
		"media engines":                        {labels: mixed(2, "1g.10gb.me", "2"), want: "1g.10gb+me@0 | 1g.10gb+me@0"},
		"wide small ones":                      {labels: mixed(1, "1g.20gb", "1", "1g.10gb", "6"), want: "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.20gb@6"},
		"uneven":                               {labels: mixed(2, "4g.40gb", "1", "3g.40gb", "1", "7g.80gb", "1"), want: "4g.40gb@0 3g.40gb@4 | 7g.80gb@0"},
		"too many": {
			labels: mixed(2, "1g.10gb", "15"), want: "closed | closed", wantProblem: []string{"2 of 2 cards are closed: MIG instances do not fit the cards"},
		},
		"too many beside whole cards": {
			labels: mixed(3, "1g.10gb", "8"), status: strs{"nvidia.com/gpu": "2"}, want: "whole | whole | closed", wantProblem: []string{"1 of 3 cards are closed"},
		},
		"no card left for them": {
			labels: mixed(2, "1g.10gb", "7"), status: strs{"nvidia.com/gpu": "2"}, want: "closed | closed", wantProblem: []string{"2 of 2 cards are closed"},
		},
		"no such profile": {labels: mixed(1, "5g.50gb", "1"), want: "closed", wantProblem: []string{"1 of 1 cards are closed"}},
		"bad counts": {
			labels: mixed(1, "1g.10gb", "-1", "2g.20gb", "x", "3g.40gb", "2"), want: "closed",
			wantProblem: []string{"mig-1g.10gb.count", "mig-2g.20gb.count", "1 of 1 cards are closed"},
		},
		"bad count, good status": {
			labels: mixed(1, "3g.40gb", "x"), status: strs{"nvidia.com/mig-3g.40gb": "2"}, want: "3g.40gb@0 3g.40gb@4", wantProblem: []string{"mig-3g.40gb.count"},
		},
		"bad status": {
			labels: mixed(2), status: strs{"nvidia.com/gpu": "1", "nvidia.com/mig-3g.40gb": "-2"}, want: "whole | closed",
			wantProblem: []string{"status.allocatable[nvidia.com/mig-3g.40gb]", "1 of 2 cards are closed"},
		},
		"bad profile":  {labels: mixed(1, "big", "1", "7g.80gb", "1"), want: "closed", wantProblem: []string{"mig-big", "1 of 1 cards"}},
		"absurd count": {labels: mixed(1, "1g.10gb", "1000000"), want: "closed", wantProblem: []string{"1000000", "1 of 1 cards"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, tt.labels, tt.status), nil, Options{})
			if got := instances(res); got != tt.want {
				t.Errorf("instances are\n%s, want\n%s", got, tt.want)
			}
			wantProblems(t, res.Problems, tt.wantProblem...)
		})
	}
}

func TestCaseB065FourteenInstances(t *testing.T) {
	for name, node := range map[string]struct{ labels, status strs }{
		"labels and status": {with(gfdLabels(h100Label, 2), "nvidia.com/mig-1g.10gb.count", "14"), strs{"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-1g.10gb^": "14"}},
		"status alone":      {nil, strs{"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "14", "nvidia.com/mig-1g.10gb^": "14"}},
	} {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, node.labels, node.status), nil, Options{})
			total := 0
			for i := range res.Topology.Len() {
				total += len(res.Topology.Card(i).MIG)
			}
			if got, want := fmt.Sprintf("%d on %d cards, usable %s", total, res.Topology.Len(), usable(res)), "14 on 2 cards, usable {0,1}"; got != want {
				t.Errorf("instances: %s, want %s", got, want)
			}
			wantProblems(t, res.Problems)
		})
	}
}

// TestCaseB136MIGNode is the part of B136 that concerns the inventory: the profile total is right whichever source tells it.
func TestCaseB136MIGNode(t *testing.T) {
	status := strs{"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "3", "nvidia.com/mig-3g.40gb": "1"}
	for name, labels := range map[string]strs{"gfd": gfdLabels(h100Label, 2), "allocatable": nil} {
		t.Run(name, func(t *testing.T) {
			res := Resolve(newNode(nil, labels, status), nil, Options{})
			if got, want := instances(res), "whole | 1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4"; got != want {
				t.Errorf("instances are %s, want %s", got, want)
			}
		})
	}
}
