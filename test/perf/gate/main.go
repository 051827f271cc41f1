package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// The highest ratio of HEAD to BASE that passes, by unit.
var bounds = map[string]float64{"allocs/op": 1.10, "sec/op": 1.25}

// alpha is the probability below which noise is no explanation; benchstat's own default.
const alpha = 0.05

func main() {
	if err := gate(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// row is one benchmark with one unit.
type row struct {
	pkg, name, unit string
	// base and head are the medians; known says which side has the benchmark.
	base, head float64
	known      struct{ base, head bool }
	p          float64
}

// gate prints what is compared and returns an error that counts what is worse.
func gate(in io.Reader, out io.Writer) error {
	rows, err := parse(in)
	if err != nil {
		return err
	}
	compared, worse := 0, 0
	for i := range rows {
		r := &rows[i]
		bound, ok := bounds[r.unit]
		if !ok {
			continue
		}
		line := ""
		switch {
		case !r.known.base || !r.known.head:
			line = fmt.Sprintf("only on one side: %s %s (%s)\n", r.pkg, r.name, r.unit)
		case r.exceeds(bound):
			worse++
			line = fmt.Sprintf("worse: %s %s: %s %.4g, was %.4g (at most %.2f times; p=%.3f)\n", r.pkg, r.name, r.unit, r.head, r.base, bound, r.p)
			fallthrough
		default:
			compared++
		}
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	if compared == 0 {
		return errors.New("nothing was compared")
	}
	if worse > 0 {
		return fmt.Errorf("%d of %d figures are worse than they may be", worse, compared)
	}
	_, err = fmt.Fprintf(out, "none of %d figures is worse than it may be\n", compared)
	return err
}

// exceeds says that HEAD is worse than bound times BASE, and that noise does not explain it.
func (r *row) exceeds(bound float64) bool { return r.p < alpha && r.head > bound*r.base }

// parse reads benchstat's tables: a line "pkg: NAME" for each package, a line of the sides, one of the units, then the benchmarks
// as NAME, BASE, CI, HEAD, CI, DELTA, P.
func parse(in io.Reader) ([]row, error) {
	reader := csv.NewReader(in)
	reader.FieldsPerRecord = -1
	var rows []row
	pkg, unit := "", ""
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		switch {
		case len(record) == 1:
			if name, ok := strings.CutPrefix(record[0], "pkg: "); ok {
				pkg = name
			}
		case record[0] == "" && len(record) > 2 && record[2] == "CI":
			unit = record[1]
		case record[0] == "" || record[0] == "geomean":
		default:
			r, err := parseRow(record)
			if err != nil {
				return nil, fmt.Errorf("benchmark %.64q: %w", record[0], err)
			}
			r.pkg, r.unit = pkg, unit
			rows = append(rows, r)
		}
	}
}

func parseRow(record []string) (row, error) {
	field := func(i int) string {
		if i < len(record) {
			return record[i]
		}
		return ""
	}
	r := row{name: record[0], p: 1}
	var err error
	if r.known.base = field(1) != ""; r.known.base {
		if r.base, err = strconv.ParseFloat(field(1), 64); err != nil {
			return r, err
		}
	}
	if r.known.head = field(3) != ""; r.known.head {
		if r.head, err = strconv.ParseFloat(field(3), 64); err != nil {
			return r, err
		}
	}
	if text, ok := strings.CutPrefix(field(6), "p="); ok {
		text, _, _ = strings.Cut(text, " ")
		r.p, err = strconv.ParseFloat(text, 64)
	}
	return r, err
}
