package placement_test

import (
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func TestRejectionSentence(t *testing.T) {
	tests := map[string]struct {
		problem func(t *testing.T) *placement.Problem
		wantGap placement.Gap
		want    string
	}{
		"B03 fragmentation, not total capacity": {
			problem: func(t *testing.T) *placement.Problem { return fleet(t, gang(3, whole(4)), 6, 2, 2, 2) },
			wantGap: placement.GapFragments,
			want: "gang ns/a: 1 of 3 pods can be placed; the free GPUs are fragmented: 12 of 32 are free and 12 are needed, " +
				"but only 1 of 4 nodes has the 4 free GPUs that each pod needs, the largest free block on a node is 6",
		},
		"several nodes have some": {
			problem: func(t *testing.T) *placement.Problem { return fleet(t, gang(4, whole(4)), 6, 4, 3, 3) },
			wantGap: placement.GapFragments,
			want: "gang ns/a: 2 of 4 pods can be placed; the free GPUs are fragmented: 16 of 32 are free and 16 are needed, " +
				"but only 2 pods can have, on 2 of 4 nodes, the 4 free GPUs that each pod needs, the largest free block on a node is 6",
		},
		"too few and no block": {
			problem: func(t *testing.T) *placement.Problem {
				p := fleet(t, gang(8, whole(8)), 4, 4, 4)
				p.Group, p.Roles[0].Name = "train/llama", "worker"
				return p
			},
			wantGap: placement.GapTotal,
			want: "gang train/llama: 0 of 8 pods can be placed; too few free GPUs: 12 of 24 are free, 64 are needed, " +
				"the largest free block on a node is 4 of the 8 free GPUs that each worker pod needs",
		},
		"B02 nine of ten": {
			problem: func(t *testing.T) *placement.Problem {
				p := gang(10, whole(1))
				for i, free := range []int{2, 2, 2, 2, 1} {
					name := string(rune('a' + i))
					p.Nodes = append(p.Nodes, placement.Node{Name: ledger.NodeName("n-" + name), Roles: 1, View: viewOf(machine(t, name, n2()), topology.FirstN(free))})
				}
				return p
			},
			wantGap: placement.GapTotal,
			want:    "gang ns/a: 9 of 10 pods can be placed; too few free GPUs: 9 of 10 are free, 10 are needed",
		},
		"excluded nodes": {
			problem: func(t *testing.T) *placement.Problem {
				p := fleet(t, gang(2, whole(8)), 8, 8, 8, 8, 8)
				p.Bars = []string{"cordoned", "tainted"}
				for i, bar := range []uint8{0, 2, 1, 2, 0} {
					if i > 0 {
						p.Nodes[i].Roles, p.Nodes[i].Bars = 0, []uint8{bar}
					}
				}
				return p
			},
			wantGap: placement.GapTotal,
			want: "gang ns/a: 1 of 2 pods can be placed; too few free GPUs: 8 of 8 are free, 16 are needed; " +
				"4 of 5 nodes are excluded (2 tainted, 1 cordoned)",
		},
		"all nodes excluded": {
			problem: func(t *testing.T) *placement.Problem {
				p := fleet(t, gang(2, whole(8)), 8, 8)
				p.Bars = []string{"tainted"}
				p.Nodes[0].Roles, p.Nodes[0].Bars, p.Nodes[1].Roles = 0, []uint8{1}, 0
				return p
			},
			wantGap: placement.GapNodes,
			want:    "gang ns/a: 0 of 2 pods can be placed; none of the 2 nodes admits its pods (1 tainted)",
		},
		"no nodes": {
			problem: func(*testing.T) *placement.Problem { return gang(2, whole(8)) },
			wantGap: placement.GapNodes,
			want:    "gang ns/a: 0 of 2 pods can be placed; there is no node to place them on",
		},
		"cpu beside the GPUs": {
			problem: func(t *testing.T) *placement.Problem {
				p := gang(3, whole(4))
				p.Resources, p.Roles[0].Needs = []string{"cpu", "memory"}, []int64{4, 1}
				fleet(t, p, 8, 8, 0)
				p.Nodes[0].Free, p.Nodes[1].Free, p.Nodes[2].Free = []int64{4, 9}, []int64{7, 9}, []int64{0, 9}
				return p
			},
			wantGap: placement.GapResource,
			want: "gang ns/a: 2 of 3 pods can be placed; too little cpu: the free GPUs would hold 4 pods, " +
				"but 2 of the 2 nodes with room on their GPUs have too little cpu beside them",
		},
		"too few GPUs and too little cpu": {
			problem: func(t *testing.T) *placement.Problem {
				p := gang(3, whole(8))
				p.Resources, p.Roles[0].Needs = []string{"cpu"}, []int64{4}
				fleet(t, p, 8, 8)
				p.Nodes[0].Free[0] = 9
				return p
			},
			wantGap: placement.GapTotal,
			want: "gang ns/a: 1 of 3 pods can be placed; too few free GPUs: 16 of 16 are free, 24 are needed; " +
				"cpu is short too, on 1 node with free GPUs",
		},
		"no GPUs asked": {
			problem: func(t *testing.T) *placement.Problem {
				p := gang(3, nil)
				p.Resources, p.Roles[0].Needs, p.Roles[0].Name = []string{"cpu"}, []int64{4}, "launcher"
				fleet(t, p, 8, 8)
				p.Nodes[0].Free[0] = 9
				return p
			},
			wantGap: placement.GapResource,
			want: "gang ns/a: 2 of 3 pods can be placed; too little cpu: it runs short on 2 of 2 nodes, " +
				"in all there are places for 2 launcher pods",
		},
		"one NUMA node": {
			problem: func(t *testing.T) *placement.Problem {
				r := whole(4)
				r.NUMA = allocate.NUMARequire
				p := fleet(t, gang(1, r))
				p.Nodes = append(p.Nodes, placement.Node{Name: "x", Roles: 1, View: viewOf(machine(t, "x", n8s()), topology.SetOf(0, 1, 2, 4, 5, 6))})
				return p
			},
			wantGap: placement.GapFragments,
			want: "gang ns/a: 0 of 1 pod can be placed; the free GPUs are fragmented: 6 of 8 are free and 4 are needed, " +
				"but no node has the 4 free GPUs on one NUMA node that each pod needs, the largest free block on a node is 6",
		},
		"shares": {
			problem: func(t *testing.T) *placement.Problem { return fleet(t, gang(3, share(50*gib, 1)), 2) },
			wantGap: placement.GapFragments,
			want: "gang ns/a: 2 of 3 pods can be placed; the free GPU memory is fragmented: 160.0 GiB of 640.0 GiB is free and 150.0 GiB is needed, " +
				"but only 1 of 1 node has the 50.0 GiB of 1 GPU that each pod needs, the largest free part of a GPU is 80.0 GiB",
		},
		"shares, too little memory": {
			problem: func(t *testing.T) *placement.Problem { return fleet(t, gang(5, share(40*gib, 1)), 2) },
			wantGap: placement.GapTotal,
			want:    "gang ns/a: 4 of 5 pods can be placed; too little free GPU memory: 160.0 GiB of 640.0 GiB is free, 200.0 GiB is needed",
		},
		"MIG": {
			problem: func(t *testing.T) *placement.Problem {
				p := gang(3, mig(5))
				p.Nodes = []placement.Node{{Name: "x", Roles: 1, View: viewOf(machine(t, "x", migs()), 3)}}
				return p
			},
			wantGap: placement.GapTotal,
			want:    "gang ns/a: 2 of 3 pods can be placed; too few free MIG instances 1g.10gb: 14 of 14 are free, 15 are needed",
		},
		"roles together, too few": {
			problem: func(t *testing.T) *placement.Problem { return pair(t, 6, 6, 2) },
			wantGap: placement.GapTotal,
			want:    "gang ns/a: 1 of 2 pods can be placed; too few free GPUs: 6 of 8 are free, 8 are needed",
		},
		"roles together, fragments": {
			problem: func(t *testing.T) *placement.Problem {
				p := pair(t, 6, 5, 2)
				p.Members, p.Need = append(p.Members, membersOf("c", 1, 1, 3)...), 3
				p.Nodes = append(p.Nodes, placement.Node{Name: "x", Roles: 3, View: viewOf(machine(t, "x", n8s()), topology.FirstN(3))})
				return p
			},
			wantGap: placement.GapTogether,
			want: "gang ns/a: 2 of 3 pods can be placed; each role alone finds its places, but not beside the others: " +
				"each big pod needs 5 free GPUs; 9 of 16 are free and 9 are needed",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rej := mustReject(t, tt.problem(t))
			if rej.Gap != tt.wantGap {
				t.Errorf("gap %d, want %d", rej.Gap, tt.wantGap)
			}
			if got := rej.String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// pair is a gang of a big and a small member on one node with so many free cards.
func pair(t *testing.T, free, big, small int) *placement.Problem {
	p := fleet(t, gang(0, nil), free)
	p.Roles = []placement.Role{{Name: "big", Request: whole(big)}, {Name: "small", Request: whole(small)}}
	p.Members = append(membersOf("b", 0, 1, 0), membersOf("s", 1, 1, 1)...)
	p.Need = 2
	return p
}
