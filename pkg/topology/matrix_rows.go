package topology

import (
	"fmt"
	"strings"
)

// table collects the cells of a matrix, row by row.
type table struct {
	header *header
	// gpu[i][j] is the cell of row GPUi, column GPUj; nil where there is none.
	gpu [][]*Link
	// gpuNIC[i][k] is the cell of row GPUi, column NICk; nicGPU[k][i] the one of row NICk, column GPUi.
	gpuNIC, nicGPU [][]*Link
	gpuSeen        []bool
	nicSeen        []bool
	// cpu and numa are the affinity cells of the GPU rows, lines the rows' lines.
	cpu, numa []string
	lines     []int
}

func newTable(h *header) *table {
	grid := func(rows, columns int) [][]*Link {
		g := make([][]*Link, rows)
		for i := range g {
			g[i] = make([]*Link, columns)
		}
		return g
	}
	return &table{
		header: h, gpu: grid(h.gpus, h.gpus), gpuNIC: grid(h.gpus, h.nics), nicGPU: grid(h.nics, h.gpus),
		gpuSeen: make([]bool, h.gpus), nicSeen: make([]bool, h.nics),
		cpu: make([]string, h.gpus), numa: make([]string, h.gpus), lines: make([]int, h.gpus),
	}
}

// isLegend reports whether the line starts what nvidia-smi prints after the matrix ("Legend:", "NIC Legend:").
func isLegend(line string) bool {
	return strings.Contains(strings.ToUpper(line), "LEGEND:")
}

// startsHeader reports whether a line that begins with a GPU goes on like a header: with another GPU or an affinity.
func startsHeader(line string) bool {
	columns := splitHeader(line)
	return len(columns) > 1 && isHeader(columns[1:2])
}

// add reads one line after the header.
func (t *table) add(l textLine) error {
	row := words(l.text)
	name := row[0].text
	if index, ok := gpuIndex(name); ok {
		switch {
		case startsHeader(l.text):
			return &ParseError{Line: l.number, Value: clip(strings.TrimSpace(l.text)), Reason: fmt.Sprintf("a second header; the first one is line %d", t.header.line.number)}
		case index >= t.header.gpus:
			return &ParseError{Line: l.number, Value: name, Reason: "the header has no column of this GPU"}
		case t.gpuSeen[index]:
			return &ParseError{Line: l.number, Value: name, Reason: "the row stands twice"}
		}
		t.gpuSeen[index] = true
		t.lines[index] = l.number
		return t.fill(l, row, columnGPU, index)
	}
	index, ok := t.header.names[name]
	switch {
	case ok && t.nicSeen[index]:
		return &ParseError{Line: l.number, Value: name, Reason: "the row stands twice"}
	case ok:
		t.nicSeen[index] = true
		return t.fill(l, row, columnNIC, index)
	case hasLink(row):
		return &ParseError{Line: l.number, Value: name, Reason: "the header has no column of this device"}
	}
	return nil // text below the matrix, for example a shell prompt
}

// fill reads the cells of the row of one device.
func (t *table) fill(l textLine, row []word, kind columnKind, index int) error {
	cells, err := t.header.align(l, row)
	if err != nil {
		return err
	}
	for i, c := range t.header.columns {
		switch c.kind {
		case columnGPU, columnNIC:
			link, err := readCell(l.number, c, cells[i], kind == c.kind && index == c.device, kind == columnGPU && c.kind == columnGPU)
			if err != nil {
				return err
			}
			switch {
			case kind == columnGPU && c.kind == columnGPU:
				t.gpu[index][c.device] = &link
			case kind == columnGPU:
				t.gpuNIC[index][c.device] = &link
			case c.kind == columnGPU:
				t.nicGPU[index][c.device] = &link
			}
		case columnCPUAffinity:
			if kind == columnGPU && !notGiven(cells[i]) {
				t.cpu[index] = cells[i]
			}
		case columnNUMAAffinity:
			if kind == columnGPU && !notGiven(cells[i]) {
				t.numa[index] = cells[i]
			}
		case columnOther:
		}
	}
	return nil
}

// readCell reads one link; self says that row and column are one device, gpus that both are GPUs.
func readCell(line int, c column, text string, self, gpus bool) (Link, error) {
	if notGiven(text) && text != "" {
		text = "?"
	}
	l, err := ParseLink(text)
	switch {
	case err != nil:
		return Link{}, &ParseError{Line: line, Column: c.name, Value: text, Reason: "not a link: X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS"}
	case self != (l.Type == LinkSelf):
		return Link{}, &ParseError{Line: line, Column: c.name, Value: text, Reason: "X stands where row and column are the same device, and only there"}
	case !gpus && l.Type == LinkNVLink:
		return Link{}, &ParseError{Line: line, Column: c.name, Value: text, Reason: "a network adapter has no NVLink"}
	}
	return l, nil
}

// align returns the text of every column for one row, "" for a blank cell. Only affinity cells may be blank:
//   - as many cells as columns: in order;
//   - else, with tabs and as many of them as the header has: by the number of tabs before the cell;
//   - else, with the device columns first: links in order, and each other cell goes to the column whose name starts
//     at the same place of the line. Where one cell has no such column, no affinity of the row is used.
func (h *header) align(l textLine, row []word) ([]string, error) {
	cells, rest := make([]string, len(h.columns)), row[1:]
	if len(rest) == len(h.columns) {
		for i, w := range rest {
			cells[i] = w.text
		}
		return cells, nil
	}
	if len(rest) > len(h.columns) {
		return nil, h.miscount(l, rest)
	}
	if h.byTabs(l, rest, cells) {
		return cells, nil
	}
	devices := h.gpus + h.nics
	for _, c := range h.columns[:min(devices, len(h.columns))] {
		if c.kind != columnGPU && c.kind != columnNIC {
			return nil, h.miscount(l, rest)
		}
	}
	if len(rest) < devices {
		return nil, h.miscount(l, rest)
	}
	for i := range devices {
		cells[i] = rest[i].text
	}
	h.byPlace(rest[devices:], cells)
	return cells, nil
}

func (h *header) miscount(l textLine, rest []word) error {
	return &ParseError{Line: l.number, Value: clip(strings.TrimSpace(l.text)),
		Reason: fmt.Sprintf("the row has %d cells, the header %d columns, %d of them devices", len(rest), len(h.columns), h.gpus+h.nics)}
}

// byTabs fills cells by the number of tabs before each; false if the row has not the header's number of tabs, or if
// a device's cell would stay blank.
func (h *header) byTabs(l textLine, rest []word, cells []string) bool {
	first, last := h.columns[0].cell, h.columns[len(h.columns)-1].cell
	if last-first+1 != len(h.columns) || strings.Count(l.text, "\t") != len(h.columns) {
		return false
	}
	at := make([]string, len(h.columns)+1)
	for _, w := range rest {
		if w.cell < 1 || at[w.cell] != "" {
			return false
		}
		at[w.cell] = w.text
	}
	for i, c := range h.columns {
		if at[i+1] == "" && (c.kind == columnGPU || c.kind == columnNIC) {
			return false
		}
	}
	copy(cells, at[1:])
	return true
}

// byPlace gives each word to the column that starts where the word does; all of them, or none.
func (h *header) byPlace(rest []word, cells []string) {
	found := make(map[int]string, len(rest))
	for _, w := range rest {
		for i, c := range h.columns {
			if c.at == w.at && c.kind != columnGPU && c.kind != columnNIC {
				found[i] = w.text
			}
		}
	}
	if len(found) != len(rest) {
		return
	}
	for i := range cells {
		if text, ok := found[i]; ok {
			cells[i] = text
		}
	}
}
