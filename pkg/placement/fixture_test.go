package placement_test

import (
	"fmt"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// fataler is what building needs of *testing.T, *testing.B and *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// machine builds a node; every card gets a UUID of its own by the prefix.
func machine(t fataler, prefix string, spec topology.Spec) *topology.Node {
	t.Helper()
	for i := range spec.Cards {
		spec.Cards[i].UUID = fmt.Sprintf("%s-%d", prefix, i)
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cards returns n healthy cards, the first half on NUMA node 0, the rest on 1.
func cards(n int, vram int64) []topology.Card {
	out := make([]topology.Card, n)
	for i := range out {
		out[i] = topology.Card{Product: "NVIDIA H100 80GB HBM3", VRAMBytes: vram, NUMA: i / max(1, (n+1)/2), Healthy: true}
	}
	return out
}

// n8s is the fixture N8s: 8 cards of 81920 MiB joined by NVSwitch, NUMA nodes of 0-3 and 4-7.
func n8s() topology.Spec { return topology.Spec{Cards: cards(8, 81920*mib), NVSwitch: true} }

// n8p is the fixture N8p: NVLink in pairs, PCIe inside a NUMA node, SYS between them. Cards 0 to 3 have a near NIC.
func n8p() topology.Spec {
	spec := topology.Spec{Cards: cards(8, 81920*mib), Links: make([][]topology.Link, 8)}
	nic := topology.NIC{Name: "mlx5_0", Links: make([]topology.LinkType, 8)}
	for i := range 8 {
		spec.Links[i] = make([]topology.Link, 8)
		nic.Links[i] = topology.LinkSYS
		if i < 4 {
			nic.Links[i] = topology.LinkPIX
		}
		for j := range 8 {
			l := topology.Link{Type: topology.LinkSYS}
			switch {
			case i == j:
				l.Type = topology.LinkSelf
			case i/2 == j/2:
				l = topology.Link{Type: topology.LinkNVLink, NVLinks: 12}
			case i/4 == j/4:
				l.Type = topology.LinkNODE
			}
			spec.Links[i][j] = l
		}
	}
	spec.NICs = []topology.NIC{nic}
	return spec
}

// a100 is N8s with the slower cards of the generation before; nics is N8s with a near NIC for every two cards.
func a100() topology.Spec {
	spec := n8s()
	for i := range spec.Cards {
		spec.Cards[i].Product = "NVIDIA A100-SXM4-80GB"
	}
	return spec
}

func nics() topology.Spec {
	spec := n8s()
	for k := range 4 {
		nic := topology.NIC{Name: fmt.Sprintf("mlx5_%d", k), Links: make([]topology.LinkType, 8)}
		for i := range nic.Links {
			nic.Links[i] = topology.LinkSYS
			if i/2 == k {
				nic.Links[i] = topology.LinkPIX
			}
		}
		spec.NICs = append(spec.NICs, nic)
	}
	return spec
}

// n2 is the fixture N2: 2 cards of 24576 MiB, PCIe only, NUMA node 0.
func n2() topology.Spec {
	c := cards(2, 24576*mib)
	c[1].NUMA = 0
	return topology.Spec{Cards: c}
}

// migs is a node of two cards with seven instances 1g.10gb each.
func migs() topology.Spec {
	c := cards(2, 81920*mib)
	for i := range c {
		c[i].MIGEnabled = true
		for k := range 7 {
			c[i].MIG = append(c[i].MIG, topology.MIGInstance{Profile: "1g.10gb", Start: k, Size: 1, VRAMBytes: 9728 * mib})
		}
	}
	return topology.Spec{Cards: c}
}

// viewOf is the machine where other pods hold all cards but those of free whole.
func viewOf(n *topology.Node, free topology.GPUSet) *allocate.View {
	v := &allocate.View{Topology: n, Use: make([]allocate.CardUse, n.Len())}
	for i := range (n.All() &^ free).All() {
		c := n.Card(i)
		allocate.Occupy(&v.Use[i], allocate.CardShare{
			Index: i, UUID: c.UUID, SliceMask: allocate.WholeCard, VRAMBytes: c.VRAMBytes, ComputeMilli: allocate.MilliPerCard,
		})
	}
	v.Free = allocate.FreeCards(n, v.Use, v.Closed)
	return v
}

func whole(n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindWhole, Count: n}}}
}

func share(bytes int64, cards int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindShare, Count: cards, VRAMBytes: bytes}}}
}

func mig(n int) *allocate.Request {
	return &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindMIG, Count: n, Profile: "1g.10gb"}}}
}

// gang is n members of one role.
func gang(n int, r *allocate.Request) *placement.Problem {
	return &placement.Problem{
		Group: "ns/a", Roles: []placement.Role{{Request: r}}, Members: membersOf("a", 0, n, 0), Need: n,
	}
}

// membersOf are n members of a role with ranks from the given one on.
func membersOf(prefix string, role, n, rank int) []placement.Member {
	out := make([]placement.Member, n)
	for i := range out {
		out[i] = placement.Member{UID: ledger.PodUID(fmt.Sprintf("%s-%d", prefix, i)), Role: role, Rank: rank + i}
	}
	return out
}

// fleet adds N8s nodes n0, n1, ... with so many free cards to the problem; every node admits every role.
func fleet(t testing.TB, p *placement.Problem, free ...int) *placement.Problem {
	t.Helper()
	for i, n := range free {
		name := fmt.Sprintf("n%d", i)
		p.Nodes = append(p.Nodes, placement.Node{
			Name: ledger.NodeName(name), View: viewOf(machine(t, name, n8s()), topology.FirstN(n)), Roles: ^uint64(0),
			Free: make([]int64, len(p.Resources)),
		})
	}
	return p
}

// mustPlan returns the plan or fails the test.
func mustPlan(t fataler, p *placement.Problem) *placement.Plan {
	t.Helper()
	plan, rej, err := placement.NewPlanner(allocate.NewChooser()).Plan(p)
	if err != nil || rej != nil {
		t.Fatalf("got rejection %v, error %v", rej, err)
	}
	return plan
}

// mustReject returns the rejection or fails the test.
func mustReject(t fataler, p *placement.Problem) *placement.Rejection {
	t.Helper()
	plan, rej, err := placement.NewPlanner(allocate.NewChooser()).Plan(p)
	if err != nil || rej == nil {
		t.Fatalf("got plan %+v, error %v; want a rejection", plan, err)
	}
	return rej
}

// where lists the nodes of the members in rank order.
func where(plan *placement.Plan) []ledger.NodeName {
	var out []ledger.NodeName
	for i := range plan.Assignments {
		out = append(out, plan.Assignments[i].Node)
	}
	return out
}
