package simulate

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Screen writes progress: lines that stay, and on a terminal an area below them that is drawn over and over. It keeps
// the first write error and then writes no more. It is for one goroutine.
type Screen struct {
	w io.Writer
	// width is the terminal's, 0 where w is none: there is no area then.
	width int
	start time.Time
	area  []string
	drawn int
	err   error
}

// NewScreen returns a screen on w. width is the number of columns of the terminal, 0 if w is none.
func NewScreen(w io.Writer, width int) *Screen {
	return &Screen{w: w, width: width, start: time.Now()}
}

// Step says what happens now, with the time since the start.
func (s *Screen) Step(format string, args ...any) {
	s.Line("[%5.1fs] %s", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// Line writes one line, or several, that stay.
func (s *Screen) Line(format string, args ...any) {
	s.redraw(fmt.Sprintf(format, args...) + "\n")
}

// Area replaces the area. Without a terminal it does nothing.
func (s *Screen) Area(lines []string) {
	if s.width > 0 {
		s.area = lines
		s.redraw("")
	}
}

// Keep leaves the area as it is and begins below it.
func (s *Screen) Keep() { s.area, s.drawn = nil, 0 }

// Err returns the first error of a write.
func (s *Screen) Err() error { return s.err }

// redraw goes up to the start of the area and writes text and area anew, in one write, so that nothing flickers.
func (s *Screen) redraw(text string) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.drawn)
	}
	b.WriteString(text)
	for _, line := range s.area {
		b.WriteString(cutColumns(line, s.width-1) + "\n")
	}
	s.drawn = len(s.area)
	if s.err == nil {
		_, s.err = io.WriteString(s.w, b.String())
	}
}

// cutColumns keeps the first n characters: a line that wraps would be one line more than counted.
func cutColumns(line string, n int) string {
	if utf8.RuneCountInString(line) <= n {
		return line
	}
	return string([]rune(line)[:max(n, 0)])
}
