package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// occupied is a cluster of n nodes of 8 cards: two of three are empty, the others have random cards in use; every node
// has its own amounts of cpu and memory left.
func occupied(b *testing.B, n int, shares bool) []placement.Node {
	b.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	nodes := make([]placement.Node, n)
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		spec := n8s()
		if i%4 == 3 {
			spec = n8p()
		}
		free := topology.FirstN(8)
		if rnd.IntN(3) == 0 {
			free = topology.GPUSet(rnd.Uint64N(256))
		}
		v := viewOf(machine(b, name, spec), free)
		for k := range free.All() {
			if shares && rnd.IntN(4) == 0 {
				s := allocate.CardShare{Index: k, SliceMask: 0xffff, VRAMBytes: 20480 * mib}
				allocate.Occupy(&v.Use[k], s)
			}
		}
		v.Free = allocate.FreeCards(v.Topology, v.Use, v.Closed)
		nodes[i] = placement.Node{
			Name: ledger.NodeName(name), View: v, Roles: ^uint64(0),
			Free: []int64{128000 - int64(rnd.IntN(20000)), 1<<40 - rnd.Int64N(1<<38), 110 - int64(rnd.IntN(20))},
		}
	}
	return nodes
}

func BenchmarkPlan(b *testing.B) {
	launcher := placement.Role{Name: "launcher", Needs: []int64{1000, 1 << 30, 1}}
	role := func(r *allocate.Request) placement.Role {
		return placement.Role{Name: "worker", Request: r, Needs: []int64{8000, 32 << 30, 1}}
	}
	numa := whole(4)
	numa.NUMA = allocate.NUMARequire
	cases := []struct {
		members, nodes int
		what           string
		roles          []placement.Role
		reject         bool
	}{
		{1024, 5000, "x8GPU", []placement.Role{role(whole(8))}, false},
		{1024, 10000, "x8GPU", []placement.Role{role(whole(8))}, false},
		{4096, 10000, "x8GPU", []placement.Role{role(whole(8))}, false},
		{4096, 10000, "x4GPU", []placement.Role{role(whole(4))}, false},
		{4096, 10000, "x1GPU", []placement.Role{role(whole(1))}, false},
		{4096, 10000, "x4GPUonNUMA", []placement.Role{role(numa)}, false},
		{4096, 10000, "xShare", []placement.Role{role(share(20480*mib, 1))}, false},
		{4096, 10000, "xShareOf2", []placement.Role{role(share(20480*mib, 2))}, false},
		{1024, 5000, "x8GPU+launcher", []placement.Role{role(whole(8)), launcher}, false},
		{32, 5000, "x4GPU+launcher", []placement.Role{role(whole(4)), launcher}, false},
		{4096, 10000, "x8GPU+4GPU+launcher", []placement.Role{role(whole(8)), role(whole(4)), launcher}, false},
		{1024, 1000, "x8GPU+4GPU/refused", []placement.Role{role(whole(8)), role(whole(4))}, true},
		{1024, 1000, "x8GPU/refused", []placement.Role{role(whole(8))}, true},
		{4096, 5000, "x8GPU/refused", []placement.Role{role(whole(8))}, true},
	}
	for _, c := range cases {
		b.Run(fmt.Sprintf("%d%s/nodes=%d", c.members, c.what, c.nodes), func(b *testing.B) {
			p := &placement.Problem{
				Group: "ns/a", Resources: []string{"cpu", "memory", "pods"}, Roles: c.roles, Need: c.members,
				Members: membersOf("a", 0, c.members, 0), Nodes: occupied(b, c.nodes, len(c.what) > 5 && c.what[:6] == "xShare"),
			}
			for i := range p.Members[:len(c.roles)-1] {
				p.Members[i].Role = i + 1
			}
			planner := placement.NewPlanner(allocate.NewChooser())
			b.ReportAllocs()
			for b.Loop() {
				_, rej, err := planner.Plan(p)
				if err != nil || (rej != nil) != c.reject {
					b.Fatalf("rejection %v, error %v", rej, err)
				}
			}
		})
	}
}
