package testkit

import (
	"fmt"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// MiB is 2^20 bytes.
const MiB = int64(1) << 20

// Link constants of the fixtures.
var (
	self   = topology.Link{Type: topology.LinkSelf}
	nv18   = topology.Link{Type: topology.LinkNVLink, NVLinks: 18}
	nv12   = topology.Link{Type: topology.LinkNVLink, NVLinks: 12}
	phb    = topology.Link{Type: topology.LinkPHB}
	pix    = topology.Link{Type: topology.LinkPIX}
	across = topology.Link{Type: topology.LinkSYS}
)

// cards returns n cards whose UUIDs start with the node's name; the first half sits on NUMA node 0 if split.
func cards(node string, n int, product string, vram int64, split bool) []topology.Card {
	out := make([]topology.Card, n)
	for i := range out {
		out[i] = topology.Card{
			UUID:      fmt.Sprintf("GPU-%s-%d", node, i),
			Product:   product,
			VRAMBytes: vram,
			Healthy:   true,
		}
		if split && i >= n/2 {
			out[i].NUMA = 1
		}
	}
	return out
}

func matrix(n int, link func(i, j int) topology.Link) [][]topology.Link {
	rows := make([][]topology.Link, n)
	for i := range rows {
		rows[i] = make([]topology.Link, n)
		for j := range rows[i] {
			if i == j {
				rows[i][j] = self
			} else {
				rows[i][j] = link(i, j)
			}
		}
	}
	return rows
}

// N8s is an 8-card NVSwitch machine.
func N8s(node string) topology.Spec {
	return topology.Spec{
		Cards: cards(node, 8, "NVIDIA H100 80GB HBM3", 81920*MiB, true),
		Links: matrix(8, func(int, int) topology.Link { return nv18 }),
	}
}

// N8p is an 8-card machine with NVLink bridges between neighbours.
func N8p(node string) topology.Spec {
	return topology.Spec{
		Cards: cards(node, 8, "NVIDIA A100 80GB PCIe", 81920*MiB, true),
		Links: matrix(8, func(i, j int) topology.Link {
			switch {
			case i/2 == j/2:
				return nv12
			case i/4 == j/4:
				return phb
			}
			return across
		}),
	}
}

// N2 is a small PCIe machine with two cards.
func N2(node string) topology.Spec {
	return topology.Spec{
		Cards: cards(node, 2, "NVIDIA L4", 24576*MiB, false),
		Links: matrix(2, func(int, int) topology.Link { return pix }),
	}
}

// N1 is a machine with one card.
func N1(node string) topology.Spec {
	return topology.Spec{Cards: cards(node, 1, "NVIDIA L4", 24576*MiB, false), Links: matrix(1, nil)}
}

// N8m is an 8-card machine in MIG mode with seven 1g.10gb instances a card.
func N8m(node string) topology.Spec {
	spec := N8s(node)
	for i := range spec.Cards {
		spec.Cards[i].MIGEnabled = true
		for start := range 7 {
			spec.Cards[i].MIG = append(spec.Cards[i].MIG, topology.MIGInstance{
				Profile: "1g.10gb", Start: start, Size: 1, VRAMBytes: 10240 * MiB,
				UUID: fmt.Sprintf("MIG-%s-%d-%d", node, i, start),
			})
		}
	}
	return spec
}
