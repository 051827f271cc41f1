package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Placement is what became of one pod.
type Placement struct {
	Pod *Pod
	// Node is empty for a pod that is Pending. Reason is then what the scheduler says of all nodes, and Nearest the part
	// of it about the node that comes nearest to holding the pod.
	Node, Reason, Nearest string
	Cards                 topology.GPUSet
	// Instances names MIG instances, empty for anything else.
	Instances string
	// Ring is the slowest pair of the fastest ring over the cards, 0 for one card.
	Ring topology.Bandwidth
	// Links are the kinds of link of that ring, the best first.
	Links []topology.Link
}

// placementOf reads a bound pod's record.
func placementOf(pod *Pod, r *v1alpha1.Record, n Node, c *oracle.Cluster) Placement {
	p := Placement{Pod: pod, Node: r.Node}
	var instances []string
	for i := range r.Cards {
		p.Cards = p.Cards.With(r.Cards[i].Index)
		if r.Cards[i].MIG != "" {
			instances = append(instances, "slices "+r.Cards[i].SliceMask.String())
		}
	}
	if p.Instances = strings.Join(instances, ", "); instances != nil {
		return p // MIG instances have no path to one another
	}
	var order []int
	p.Ring, order = c.Ring(r.Node, p.Cards)
	p.Links = ringLinks(n.Topology, order)
	return p
}

// ringLinks lists the different links of a ring, the best first.
func ringLinks(n *topology.Node, order []int) []topology.Link {
	var links []topology.Link
	if len(order) < 2 {
		return nil
	}
	for i, card := range order {
		l := n.Link(card, order[(i+1)%len(order)])
		if !slices.Contains(links, l) {
			links = append(links, l)
		}
	}
	slices.SortFunc(links, func(a, b topology.Link) int {
		if topology.Weaker(a, b) == a {
			return 1
		}
		return -1
	})
	return links
}

// cards says which cards, for example "0-3" or "7 (slices 0x1)".
func (p *Placement) cards() string {
	text := ranges(p.Cards)
	switch {
	case p.Instances != "":
		text += " (" + p.Instances + ")"
	case p.Pod.Ask.Kind == oracle.Share:
		text += " (part)"
	}
	return text
}

// ranges writes a set as "0-3,6".
func ranges(set topology.GPUSet) string {
	var parts []string
	cards := set.Indices()
	for i := 0; i < len(cards); {
		j := i
		for j+1 < len(cards) && cards[j+1] == cards[j]+1 {
			j++
		}
		part := strconv.Itoa(cards[i])
		if j > i {
			part += "-" + strconv.Itoa(cards[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func (p *Placement) ring() string {
	if p.Ring == 0 {
		return "-"
	}
	return strconv.FormatFloat(p.Ring.GBps(), 'f', 1, 64)
}

func (p *Placement) links() string {
	if len(p.Links) == 0 {
		return "-"
	}
	names := make([]string, len(p.Links))
	for i, l := range p.Links {
		names[i] = l.String()
	}
	return strings.Join(names, " ")
}

// asks says what the pod wants and in whose words.
func (p *Placement) asks() string {
	text := p.Pod.Ask.String()
	if p.Pod.Dialect != "" {
		text += " (" + p.Pod.Dialect + ")"
	}
	if p.Pod.Machine != nil {
		text += " on " + strings.ToUpper(p.Pod.Machine.Name)
	}
	return text
}

// line is the placement in one line, for those who have no terminal.
func (p *Placement) line() string {
	if p.Node == "" {
		return fmt.Sprintf("%s, %s: stays Pending", p.Pod.Name, p.asks())
	}
	text := fmt.Sprintf("%s, %s: node %s, cards %s", p.Pod.Name, p.asks(), p.Node, p.cards())
	if p.Ring > 0 {
		text += fmt.Sprintf(", ring of %s GB/s over %s", p.ring(), p.links())
	}
	return text
}

// table draws all placements; keys are the letters of the board.
func table(placements []Placement) string {
	rows := [][]string{{"KEY", "POD", "ASKS FOR", "NODE", "CARDS", "RING GB/s", "LINKS"}}
	for i := range placements {
		p := &placements[i]
		if p.Node == "" {
			rows = append(rows, []string{key(i), p.Pod.Name, p.asks(), "Pending", "-", "-", "-"})
			continue
		}
		rows = append(rows, []string{key(i), p.Pod.Name, p.asks(), p.Node, p.cards(), p.ring(), p.links()})
	}
	return columns(rows)
}

// key is the letter of pod number i.
func key(i int) string {
	if i > 'Z'-'A' {
		return "#"
	}
	return string(rune('A' + i))
}

// columns aligns the cells of rows, two blanks apart; lines have no trailing blanks.
func columns(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
