package placement_test

import (
	"fmt"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// inFabric puts the nodes into a fabric of 16 nodes a leaf and 8 leaves a spine.
func inFabric(p *placement.Problem, nvlink bool) {
	labels := make([]map[string]string, len(p.Nodes))
	for i := range labels {
		labels[i] = map[string]string{
			"network.topology.nvidia.com/leaf":  fmt.Sprintf("leaf-%04d", i/16),
			"network.topology.nvidia.com/spine": fmt.Sprintf("spine-%03d", i/128),
			"topology.kubernetes.io/zone":       "zone-a",
		}
		if nvlink && i < 512 {
			labels[i]["network.topology.nvidia.com/accelerator"] = fmt.Sprintf("nvl-%04d", i/16)
		}
	}
	fabricOf(p, labels, func(int) bool { return false })
}

func BenchmarkPlanFabric(b *testing.B) {
	launcher := placement.Role{Name: "launcher", Needs: []int64{1000, 1 << 30, 1}}
	role := func(r *allocate.Request) placement.Role {
		return placement.Role{Name: "worker", Request: r, Needs: []int64{8000, 32 << 30, 1}}
	}
	cases := []struct {
		members, nodes int
		what           string
		roles          []placement.Role
		change         func(p *placement.Problem)
		reject         bool
	}{
		{members: 8, nodes: 512, what: "x4GPU", roles: []placement.Role{role(whole(4))}},
		{members: 30, nodes: 5000, what: "x8GPU", roles: []placement.Role{role(whole(8))}},
		{members: 128, nodes: 5000, what: "x8GPU", roles: []placement.Role{role(whole(8))}},
		{members: 1024, nodes: 5000, what: "x8GPU", roles: []placement.Role{role(whole(8))}},
		{members: 4096, nodes: 10000, what: "x8GPU", roles: []placement.Role{role(whole(8))}},
		{members: 4096, nodes: 10000, what: "x8GPU/NVLink", roles: []placement.Role{role(whole(8))}, change: func(p *placement.Problem) { inFabric(p, true) }},
		{members: 4096, nodes: 10000, what: "x4GPU", roles: []placement.Role{role(whole(4))}},
		{members: 4096, nodes: 10000, what: "x1GPU", roles: []placement.Role{role(whole(1))}},
		{members: 4096, nodes: 10000, what: "xShare", roles: []placement.Role{role(share(20480*mib, 1))}},
		{members: 1024, nodes: 5000, what: "x8GPU/slices", roles: []placement.Role{role(whole(8))}, change: func(p *placement.Problem) {
			p.Slice = placement.Slice{Size: 8, Level: topology.LevelLeaf}
		}},
		{members: 1024, nodes: 5000, what: "x8GPU+launcher", roles: []placement.Role{role(whole(8)), launcher}},
		{members: 4096, nodes: 10000, what: "x8GPU+4GPU+launcher", roles: []placement.Role{role(whole(8)), role(whole(4)), launcher}},
		{members: 32, nodes: 5000, what: "x4GPU+launcher", roles: []placement.Role{role(whole(4)), launcher}},
		{members: 60, nodes: 5000, what: "x5GPU+3GPU+2GPU", roles: []placement.Role{role(whole(5)), role(whole(3)), role(whole(2))}, change: func(p *placement.Problem) {
			for i := range p.Members {
				p.Members[i].Role = i % 3
			}
		}},
		{members: 32, nodes: 5000, what: "x8GPU/refused", roles: []placement.Role{role(whole(8))}, reject: true, change: func(p *placement.Problem) {
			p.Required, p.HasRequired = topology.LevelLeaf, true
		}},
	}
	for _, c := range cases {
		b.Run(fmt.Sprintf("%d%s/nodes=%d", c.members, c.what, c.nodes), func(b *testing.B) {
			p := &placement.Problem{
				Group: "ns/a", Resources: []string{"cpu", "memory", "pods"}, Roles: c.roles, Need: c.members,
				Members: membersOf("a", 0, c.members, 0), Nodes: occupied(b, c.nodes, c.what == "xShare"),
			}
			for i := range p.Members[:len(c.roles)-1] {
				p.Members[i].Role = i + 1
			}
			inFabric(p, false)
			if c.change != nil {
				c.change(p)
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

// BenchmarkPlanNext plans one small gang after the other on a large cluster: between two plans four nodes have changed, as
// those of the last gang have.
func BenchmarkPlanNext(b *testing.B) {
	const members, changed = 8, 4
	for _, nodes := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("%dx4GPU/nodes=%d", members, nodes), func(b *testing.B) {
			p := &placement.Problem{
				Group: "ns/a", Resources: []string{"cpu", "memory", "pods"}, Need: members, Members: membersOf("a", 0, members, 0),
				Roles: []placement.Role{{Name: "worker", Request: whole(4), Needs: []int64{8000, 32 << 30, 1}}},
				Nodes: occupied(b, nodes, false),
			}
			inFabric(p, false)
			planner := placement.NewPlanner(allocate.NewChooser())
			at := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, rej, err := planner.Plan(p); err != nil || rej != nil {
					b.Fatalf("rejection %v, error %v", rej, err)
				}
				for range changed {
					view := *p.Nodes[at].View
					p.Nodes[at].View = &view
					at = (at + 1) % nodes
				}
			}
		})
	}
}
