package topology

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxText bounds the input of a parser; the largest real readout has a few kilobytes.
	maxText = 1 << 20
	// maxLine bounds one line of it.
	maxLine = 64 << 10
	// tabStop is the distance of the tab stops that nvidia-smi counts on.
	tabStop = 8
)

// ParseError says where a readout of nvidia-smi cannot be understood.
type ParseError struct {
	// Line is the line of the input, from 1; the last line where something is missing from the whole.
	Line int
	// Column names the column ("GPU3", "NUMA Affinity", "memory.total"), empty where the fault is in no single one.
	Column string
	// Value is what stands there, Reason what is wrong with it.
	Value, Reason string
}

// Error names line, column, value (its first 64 characters) and reason.
func (e *ParseError) Error() string {
	where := "line " + strconv.Itoa(e.Line)
	if e.Column != "" {
		where += fmt.Sprintf(", column %.64s", e.Column)
	}
	return fmt.Sprintf("%s: %.64q: %s", where, e.Value, e.Reason)
}

// clip cuts a text to its first 64 bytes.
func clip(s string) string { return s[:min(len(s), 64)] }

// textLine is one line with content: its number from 1 and its text without escape codes and line end.
type textLine struct {
	number int
	text   string
}

// readLines returns the lines that are neither blank nor a comment ("#"), and the number of the last line.
func readLines(r io.Reader) (lines []textLine, last int, err error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return nil, 0, fmt.Errorf("reading: %w", err)
	}
	text := strings.TrimPrefix(string(raw), "\ufeff")
	for line := range strings.Lines(text) {
		last++
		switch {
		case len(line) > maxLine:
			return nil, last, &ParseError{Line: last, Value: clip(line), Reason: "the line is longer than 64 KiB"}
		case !utf8.ValidString(line) || strings.ContainsRune(line, 0):
			return nil, last, &ParseError{Line: last, Value: clip(line), Reason: "not UTF-8 text"}
		}
		line = stripANSI(strings.TrimRight(line, "\r\n"))
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
			lines = append(lines, textLine{number: last, text: line})
		}
	}
	last = max(last, 1)
	if len(raw) > maxText {
		return nil, last, &ParseError{Line: last, Reason: "the input is longer than 1 MiB"}
	}
	return lines, last, nil
}

// stripANSI removes terminal escape sequences, and the rest of a colour sequence that lost its escape character on
// the way through a clipboard ("[4m").
func stripANSI(s string) string {
	if !strings.ContainsRune(s, '[') {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if n := ansiLen(s[i:]); n > 0 {
			i += n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// ansiLen returns the length of the escape sequence at the start of s, 0 if there is none.
func ansiLen(s string) int {
	start := strings.TrimPrefix(s, "\x1b")
	escaped := len(start) < len(s)
	if !strings.HasPrefix(start, "[") {
		return 0
	}
	for i := 1; i < len(start); i++ {
		switch c := start[i]; {
		case c >= '0' && c <= '9', c == ';', c == '?':
			continue
		case c == 'm' && (escaped || i > 1), escaped && (c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'):
			return len(s) - len(start) + i + 1
		}
		return 0
	}
	return 0
}

// word is a run of characters without white space, the terminal column where it starts, and the number of tabs
// before it.
type word struct {
	text string
	at   int
	cell int
}

// words splits a line at white space.
func words(line string) []word {
	var out []word
	at, cell, inWord := 0, 0, false
	for i, r := range line {
		if unicode.IsSpace(r) {
			inWord = false
			if r == '\t' {
				cell++
				at += tabStop - at%tabStop
			} else {
				at++
			}
			continue
		}
		if !inWord {
			inWord = true
			out = append(out, word{at: at, cell: cell})
		}
		w := &out[len(out)-1]
		w.text = line[i-len(w.text) : i+utf8.RuneLen(r)]
		at++
	}
	return out
}

// notGiven reports whether nvidia-smi says that it has no value.
func notGiven(s string) bool {
	switch strings.ToUpper(strings.Trim(s, "[]")) {
	case "", "N/A", "NOT SUPPORTED", "NOT AVAILABLE":
		return true
	}
	return false
}
