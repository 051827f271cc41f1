package topology

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// WriteMatrix draws the node for a reader: the source, the link matrix with each pair's bandwidth in GB/s (one
// direction), the adapters' links, and one line a card with NUMA node, memory, product, UUID and state. The error is
// that of w.
func (n *Node) WriteMatrix(w io.Writer) error {
	var b strings.Builder
	b.WriteString(strconv.Itoa(n.Len()) + " GPUs, source: " + shown(n.Source()) + "; link and GB/s, one direction\n\n")
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append(n.linkRows(), n.cardRows()...) {
		if _, err := io.WriteString(table, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

// linkRows is the matrix: a header and one row a card.
func (n *Node) linkRows() [][]string {
	head := []string{""}
	for i := range n.Len() {
		head = append(head, "GPU"+strconv.Itoa(i))
	}
	for _, nic := range n.NICs() {
		head = append(head, shown(nic.Name))
	}
	rows := [][]string{head}
	for i := range n.Len() {
		row := []string{"GPU" + strconv.Itoa(i)}
		for j := range n.Len() {
			cell := n.Link(i, j).String()
			if i != j {
				cell += " " + strconv.FormatFloat(n.Shape().Pair(i, j).GBps(), 'f', 1, 64)
			}
			row = append(row, cell)
		}
		for _, nic := range n.NICs() {
			row = append(row, Link{Type: nic.Links[i]}.String())
		}
		rows = append(rows, row)
	}
	return rows
}

// cardRows is the list of cards: a blank line, a header and one row a card.
func (n *Node) cardRows() [][]string {
	rows := [][]string{{""}, {"", "NUMA", "Memory", "Product", "UUID", "State"}}
	for i := range n.Len() {
		c := n.Card(i)
		numa, memory, state := "?", "?", "ok"
		if c.NUMA != NUMAUnknown {
			numa = strconv.Itoa(c.NUMA)
		}
		if c.VRAMBytes > 0 {
			memory = strconv.FormatInt(c.VRAMBytes>>20, 10) + " MiB"
		}
		switch {
		case c.Fault != "":
			state = shown(c.Fault)
		case !c.Healthy:
			state = "unhealthy"
		case c.MIGEnabled:
			state = fmt.Sprintf("MIG mode, %d instances", len(c.MIG))
		}
		rows = append(rows, []string{"GPU" + strconv.Itoa(i), numa, memory, shown(c.Product), shown(c.UUID), state})
	}
	return rows
}

// shown makes a text from outside fit for a terminal: control characters become "?", and an empty text "-".
func shown(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
