package simulate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestScreenWithoutTerminalWritesLinesAlone(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, 0)
	s.Area([]string{"area"})
	s.Line("one %d", 1)
	s.Area([]string{"area"})
	s.Keep()
	s.Line("two")
	if got, want := out.String(), "one 1\ntwo\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

// terminal shows what a terminal with these writes would.
func terminal(t *testing.T, text string) string {
	t.Helper()
	lines := []string{""}
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			n := strings.IndexAny(text, "AJ")
			if text[n] == 'A' {
				up := 0
				for _, digit := range text[2:n] {
					up = up*10 + int(digit-'0')
				}
				if up >= len(lines) {
					t.Fatalf("moved up %d lines of %d", up, len(lines)-1)
				}
				lines = lines[:len(lines)-up]
				lines[len(lines)-1] = ""
			}
			text = text[n+1:]
		case text[0] == '\n':
			lines = append(lines, "")
			text = text[1:]
		case text[0] == '\r':
			text = text[1:]
		default:
			lines[len(lines)-1] += text[:1]
			text = text[1:]
		}
	}
	return strings.Join(lines, "\n")
}

func TestScreenRedrawsItsArea(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, 8)
	s.Line("first")
	s.Area([]string{"a", "b"})
	s.Line("second")
	s.Area([]string{"c", "too long for it", "d"})
	s.Area([]string{"e"})
	if got, want := terminal(t, out.String()), "first\nsecond\ne\n"; got != want {
		t.Errorf("terminal shows %q, want %q", got, want)
	}
	s.Area([]string{"much too long"})
	s.Keep()
	s.Line("third")
	if got, want := terminal(t, out.String()), "first\nsecond\nmuch to\nthird\n"; got != want {
		t.Errorf("terminal shows %q, want %q", got, want)
	}
	if s.Err() != nil {
		t.Errorf("Err = %v", s.Err())
	}
}

type brokenWriter struct{ calls int }

func (w *brokenWriter) Write([]byte) (int, error) {
	w.calls++
	return 0, io.ErrClosedPipe
}

func TestScreenKeepsItsFirstError(t *testing.T) {
	w := &brokenWriter{}
	s := NewScreen(w, 80)
	s.Line("a")
	s.Area([]string{"b"})
	if !errors.Is(s.Err(), io.ErrClosedPipe) || w.calls != 1 {
		t.Errorf("Err = %v after %d writes, want the first error and no more writes", s.Err(), w.calls)
	}
}
