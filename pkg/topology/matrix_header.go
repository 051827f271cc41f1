package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// columnKind says what stands in a column of topo -m.
type columnKind uint8

const (
	columnGPU columnKind = iota
	columnNIC
	columnCPUAffinity
	columnNUMAAffinity
	// columnOther is read past: "GPU NUMA ID" and whatever a later driver adds.
	columnOther
)

// column is one column: its name, the terminal column where the name starts, the number of tabs before it and, for a
// GPU or an adapter, the device's place among its kind.
type column struct {
	name     string
	at, cell int
	kind     columnKind
	device   int
}

// header is the first line of the matrix.
type header struct {
	line    textLine
	columns []column
	// gpus and nics count the devices; names finds an adapter by name.
	gpus, nics int
	names      map[string]int
}

// phrases are the column names of more than one word.
var phrases = [...]struct {
	words []string
	kind  columnKind
}{
	{[]string{"CPU", "Affinity"}, columnCPUAffinity},
	{[]string{"NUMA", "Affinity"}, columnNUMAAffinity},
	{[]string{"GPU", "NUMA", "ID"}, columnOther},
}

// gpuIndex reads "GPU12"; ok is false for anything that is not GPU and digits. An index of MaxCards or more
// comes back as MaxCards.
func gpuIndex(name string) (index int, ok bool) {
	digits, found := strings.CutPrefix(name, "GPU")
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > MaxCards {
		n = MaxCards
	}
	return n, true
}

// findHeader returns the header and the lines after it. Lines before it that are no part of a matrix are skipped.
func findHeader(lines []textLine, last int) (*header, []textLine, error) {
	for i, l := range lines {
		w := words(l.text)
		if hasLink(w) {
			if _, ok := gpuIndex(w[0].text); ok {
				return nil, nil, &ParseError{Line: l.number, Value: w[0].text, Reason: "the header line, which names the columns, is missing"}
			}
			continue
		}
		columns := splitHeader(l.text)
		if !isHeader(columns) {
			continue
		}
		h := &header{line: l, columns: columns, names: make(map[string]int)}
		if err := h.number(); err != nil {
			return nil, nil, err
		}
		return h, lines[i+1:], nil
	}
	return nil, nil, &ParseError{Line: last, Reason: "no header line (GPU0 GPU1 ...) found"}
}

// hasLink reports whether a cell of the line is a link, which no header has.
func hasLink(line []word) bool {
	for _, w := range line {
		if _, err := ParseLink(w.text); err == nil {
			return true
		}
	}
	return false
}

// isHeader reports whether the columns are those of a matrix: some GPU, or an affinity.
func isHeader(columns []column) bool {
	for _, c := range columns {
		if c.kind == columnGPU || c.kind == columnCPUAffinity || c.kind == columnNUMAAffinity {
			return true
		}
	}
	return false
}

// splitHeader finds the columns. A column name of several words that is not in phrases can be told only where tabs
// stand between the columns.
func splitHeader(line string) []column {
	all := words(line)
	tabs := strings.Contains(line, "\t")
	var columns []column
	for len(all) > 0 {
		kind, n := matchPhrase(all)
		if n == 0 {
			kind, n = columnOther, 1
			switch {
			case isGPU(all[0].text):
				kind = columnGPU
			case strings.ContainsAny(all[0].text, "0123456789"):
				kind = columnNIC
			default:
				for tabs && n < len(all) && all[n].cell == all[0].cell {
					n++
				}
			}
		}
		name := all[0].text
		for _, w := range all[1:n] {
			name += " " + w.text
		}
		columns = append(columns, column{name: name, at: all[0].at, cell: all[0].cell, kind: kind})
		all = all[n:]
	}
	return columns
}

func isGPU(name string) bool {
	_, ok := gpuIndex(name)
	return ok
}

// isDeviceName reports whether the name can be that of a network adapter: letters, digits and "_.:-", at most 64.
func isDeviceName(name string) bool {
	return len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("_.:-", r)
	})
}

// matchPhrase returns the phrase at the start of the words and its length, 0 for none.
func matchPhrase(all []word) (columnKind, int) {
	for _, p := range phrases {
		if len(all) < len(p.words) {
			continue
		}
		match := true
		for i, w := range p.words {
			match = match && strings.EqualFold(all[i].text, w)
		}
		if match {
			return p.kind, len(p.words)
		}
	}
	return columnOther, 0
}

// number gives every device its place and checks that the GPUs are 0 to n-1.
func (h *header) number() error {
	var seen GPUSet
	for i := range h.columns {
		c := &h.columns[i]
		switch c.kind {
		case columnGPU:
			index, _ := gpuIndex(c.name)
			if index >= MaxCards {
				return &ParseError{Line: h.line.number, Column: c.name, Value: c.name, Reason: fmt.Sprintf("a node has at most %d GPUs", MaxCards)}
			}
			if seen.Has(index) {
				return &ParseError{Line: h.line.number, Column: c.name, Value: c.name, Reason: "the column stands twice"}
			}
			seen = seen.With(index)
			c.device = index
			h.gpus++
		case columnNIC:
			if !isDeviceName(c.name) {
				return &ParseError{Line: h.line.number, Column: c.name, Value: c.name, Reason: "not the name of a device"}
			}
			if _, ok := h.names[c.name]; ok {
				return &ParseError{Line: h.line.number, Column: c.name, Value: c.name, Reason: "the column stands twice"}
			}
			c.device = h.nics
			h.names[c.name] = h.nics
			h.nics++
		case columnCPUAffinity, columnNUMAAffinity, columnOther:
		}
	}
	if h.gpus == 0 {
		return &ParseError{Line: h.line.number, Value: clip(strings.TrimSpace(h.line.text)), Reason: "the header names no GPU"}
	}
	if missing := FirstN(h.gpus) &^ seen; !missing.Empty() {
		name := "GPU" + strconv.Itoa(missing.Lowest())
		return &ParseError{Line: h.line.number, Column: name, Value: clip(strings.TrimSpace(h.line.text)), Reason: fmt.Sprintf("the header has %d GPUs, but not %s", h.gpus, name)}
	}
	return nil
}
