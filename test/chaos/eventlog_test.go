package chaos

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// source says where a line of the log comes from.
type source string

const (
	didStep    source = "step"
	sawPod     source = "pod"
	sawNode    source = "node"
	sawProcess source = "process"
	sawFault   source = "fault"
	sawRest    source = "rest"
)

// line is one thing that happened.
type line struct {
	at    time.Duration
	from  source
	text  string
	about []string
}

func (l line) String() string { return fmt.Sprintf("%9.3fs %-7s %s", l.at.Seconds(), l.from, l.text) }

// eventLog is everything that happened, in order. It is safe for concurrent use.
type eventLog struct {
	started time.Time

	mu    sync.Mutex
	lines []line
	// file gets every line as it comes.
	file io.Writer
	err  error
}

func (l *eventLog) add(from source, about []string, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := line{at: time.Since(l.started), from: from, text: fmt.Sprintf(format, args...), about: about}
	l.lines = append(l.lines, n)
	if l.err == nil {
		_, l.err = fmt.Fprintln(l.file, n)
	}
}

// span returns when the log first and last spoke of pods of a name, and whether the last one is over.
func (l *eventLog) span(pod string) (first, last time.Duration, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.lines {
		if n.from != sawPod || n.about[0] != pod {
			continue
		}
		if last == 0 {
			first = n.at
		}
		last, over = n.at, strings.Contains(n.text, " is gone") || strings.Contains(n.text, " is ended")
	}
	return first, last, over
}

func (l *eventLog) step(s *step) { l.add(didStep, s.about, "%d: %s", s.number, s.text) }

// minimal returns the last most lines that touch one of the names, with a mark where others were left out.
func (l *eventLog) minimal(about []string, most int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var picked []line
	for _, n := range l.lines {
		if slices.ContainsFunc(n.about, func(name string) bool { return slices.Contains(about, name) }) {
			picked = append(picked, n)
		}
	}
	var text strings.Builder
	if left := len(picked) - most; left > 0 {
		fmt.Fprintf(&text, "   ... %d earlier lines about them\n", left)
		picked = picked[left:]
	}
	for _, n := range picked {
		fmt.Fprintln(&text, n)
	}
	return text.String()
}
