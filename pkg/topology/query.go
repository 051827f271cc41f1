package topology

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// QueryRow is one GPU of `nvidia-smi --query-gpu=index,uuid,name,memory.total,pci.bus_id --format=csv`.
type QueryRow struct {
	Index int
	// UUID, Name and BusID are empty where nvidia-smi had no value.
	UUID, Name, BusID string
	// VRAMBytes is memory.total; 0 where nvidia-smi had no value.
	VRAMBytes int64
	// Fault is set where nvidia-smi reports an error in place of a value, or a memory of 0: such a card is unusable.
	Fault string
}

// fill puts what the row says onto the card.
func (r *QueryRow) fill(c *Card) {
	c.UUID, c.BusID, c.Fault = r.UUID, r.BusID, r.Fault
	if r.Name != "" {
		c.Product = r.Name
	}
	if r.VRAMBytes != 0 {
		c.VRAMBytes = r.VRAMBytes
	}
	if r.Fault != "" {
		c.Healthy = false
	}
}

// queryColumns are the columns in the order that counts where there is no header line. The second name is the one
// that nvidia-smi takes as well.
var queryColumns = [...][2]string{
	{"index"}, {"uuid", "gpu_uuid"}, {"name", "gpu_name"}, {"memory.total"}, {"pci.bus_id", "gpu_bus_id"},
}

const (
	queryIndex = iota
	queryUUID
	queryName
	queryMemory
	queryBusID
)

// ParseQuery reads the csv output of the query, in the order of its lines.
//
// With a header line the columns may stand in any order, some may be missing (but not index), and unknown ones are
// read past. Without one (--format=csv,noheader) each line has the five columns in the order index, uuid, name,
// memory.total, pci.bus_id. Memory is in MiB, with or without the unit (nounits). "[N/A]" and "[Not Supported]" mean
// that there is no value; any other bracketed text, such as "[Unknown Error]" or "[GPU is lost]", becomes a Fault.
// Blank lines, comment lines ("#") and CRLF are accepted.
//
// The error is a *ParseError, except when r itself fails.
func ParseQuery(r io.Reader) ([]QueryRow, error) {
	lines, last, err := readLines(r)
	if err != nil {
		return nil, err
	}
	order := []int{queryIndex, queryUUID, queryName, queryMemory, queryBusID}
	if len(lines) > 0 {
		found, err := queryHeader(lines[0])
		if err != nil {
			return nil, err
		}
		if found != nil {
			order, lines = found, lines[1:]
		}
	}
	if len(lines) == 0 {
		return nil, &ParseError{Line: last, Reason: "no line of a GPU found"}
	}
	var rows []QueryRow
	var seen GPUSet
	for _, l := range lines {
		row, err := queryRow(l, order)
		if err != nil {
			return nil, err
		}
		if seen.Has(row.Index) {
			return nil, &ParseError{Line: l.number, Column: "index", Value: strconv.Itoa(row.Index), Reason: "stands twice"}
		}
		seen = seen.With(row.Index)
		rows = append(rows, row)
	}
	return rows, nil
}

// splitCSV splits a line at commas. nvidia-smi quotes nothing, and no value has a comma.
func splitCSV(line string) []string {
	cells := strings.Split(line, ",")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// queryColumn returns the number of a column by its name in the header ("memory.total [MiB]"), -1 for an unknown one.
func queryColumn(name string) int {
	name, _, _ = strings.Cut(strings.ToLower(name), "[")
	name = strings.TrimSpace(name)
	if name == "" {
		return -1
	}
	return slices.IndexFunc(queryColumns[:], func(names [2]string) bool { return slices.Contains(names[:], name) })
}

// queryHeader returns the columns of a header line, nil if the line is none.
func queryHeader(l textLine) ([]int, error) {
	var order []int
	known := 0
	for _, name := range splitCSV(l.text) {
		c := queryColumn(name)
		if c >= 0 {
			known++
			if slices.Contains(order, c) {
				return nil, &ParseError{Line: l.number, Column: queryColumns[c][0], Value: name, Reason: "the column stands twice"}
			}
		}
		order = append(order, c)
	}
	if known == 0 {
		return nil, nil
	}
	if !slices.Contains(order, queryIndex) {
		return nil, &ParseError{Line: l.number, Column: "index", Value: clip(strings.TrimSpace(l.text)), Reason: "the column is missing"}
	}
	return order, nil
}

// queryRow reads one line.
func queryRow(l textLine, order []int) (QueryRow, error) {
	cells := splitCSV(l.text)
	if len(cells) != len(order) {
		return QueryRow{}, &ParseError{Line: l.number, Value: clip(strings.TrimSpace(l.text)),
			Reason: fmt.Sprintf("the line has %d cells, %d columns are expected", len(cells), len(order))}
	}
	var row QueryRow
	for i, c := range order {
		if c < 0 {
			continue
		}
		if reason := row.set(c, cells[i]); reason != "" {
			return QueryRow{}, &ParseError{Line: l.number, Column: queryColumns[c][0], Value: cells[i], Reason: reason}
		}
	}
	return row, nil
}

// set reads one cell; it returns what is wrong with it, "" if nothing is.
func (r *QueryRow) set(column int, value string) (reason string) {
	if column == queryIndex {
		index, err := strconv.ParseUint(value, 10, 32)
		if err != nil || index >= MaxCards {
			return fmt.Sprintf("not a GPU index of 0 to %d", MaxCards-1)
		}
		r.Index = int(index)
		return ""
	}
	if notGiven(value) {
		return ""
	}
	if strings.HasPrefix(value, "[") {
		if r.Fault == "" {
			r.Fault = fmt.Sprintf("%s reads %.64s", queryColumns[column][0], value)
		}
		return ""
	}
	switch column {
	case queryUUID:
		r.UUID = value
	case queryName:
		r.Name = value
	case queryBusID:
		r.BusID = value
	case queryMemory:
		return r.setMemory(value)
	}
	return ""
}

func (r *QueryRow) setMemory(value string) (reason string) {
	digits := strings.TrimSpace(strings.TrimSuffix(value, "MiB"))
	mib, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || mib > uint64(MaxVRAMBytes>>20) {
		return fmt.Sprintf("not a memory of 0 to %d MiB", MaxVRAMBytes>>20)
	}
	if mib == 0 && r.Fault == "" {
		r.Fault = "memory.total is 0 MiB"
	}
	r.VRAMBytes = int64(mib) << 20
	return ""
}
