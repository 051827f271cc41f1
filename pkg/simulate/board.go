package simulate

import (
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
)

// boardLegend explains the letters of the board.
const boardLegend = ". free   A held by pod A   2 shared by two pods   - in MIG mode, unused   = in MIG mode, in use   x unusable"

// board draws the cards of every node, one letter a card. keys gives the letter of a pod by name.
func board(nodes []Node, c *oracle.Cluster, keys map[string]string) []string {
	rows := [][]string{{"NODE", "CARDS", "MACHINE"}}
	for i := range nodes {
		n := &nodes[i]
		var cells strings.Builder
		for card := range n.Topology.Len() {
			cells.WriteString(cell(n, card, c.Holders(n.Object.Name, card), keys))
		}
		rows = append(rows, []string{n.Object.Name, cells.String(), n.Machine.Title})
	}
	lines := strings.Split(strings.TrimRight(columns(rows), "\n"), "\n")
	return append(lines, boardLegend)
}

func cell(n *Node, card int, holders []oracle.Holder, keys map[string]string) string {
	switch {
	case !n.Topology.Usable().Has(card):
		return "x"
	case n.Topology.MIGCards().Has(card):
		if len(holders) > 0 {
			return "="
		}
		return "-"
	case len(holders) == 0:
		return "."
	case len(holders) == 1:
		return keys[holders[0].Pod]
	case len(holders) > 9:
		return "9"
	}
	return strconv.Itoa(len(holders))
}
