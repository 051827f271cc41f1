package process

import (
	"bytes"
	"io"
	"os"
	"sync"
)

const (
	// tailBytes of the log stand in the error of a failed start.
	tailBytes = 4 << 10
	// lineBytes is the longest readiness line; more of a line is ignored.
	lineBytes = 4 << 10
)

// output writes both streams of a child to its log file, remembers the end of
// it, and looks for the readiness line in standard output.
type output struct {
	prefix string
	ready  chan struct{} // closed when the line has been seen, or none is wanted

	mu   sync.Mutex // guards the fields below
	file *os.File
	tail []byte
	line []byte // standard output since the last newline
	seen bool
	hit  string
}

func newOutput(file *os.File, prefix string) *output {
	o := &output{prefix: prefix, ready: make(chan struct{}), file: file}
	if prefix == "" {
		o.seen = true
		close(o.ready)
	}
	return o
}

// Write takes standard error.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(b)
}

func (o *output) write(b []byte) (int, error) {
	o.tail = append(o.tail, b...)
	if over := len(o.tail) - tailBytes; over > 0 {
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	return o.file.Write(b)
}

// stdout returns a writer that takes standard output.
func (o *output) stdout() io.Writer { return stdout{o} }

type stdout struct{ o *output }

func (s stdout) Write(b []byte) (int, error) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.o.scan(b)
	return s.o.write(b)
}

// scan looks for the readiness line in b.
func (o *output) scan(b []byte) {
	for !o.seen && len(b) > 0 {
		part, rest, complete := bytes.Cut(b, []byte("\n"))
		o.line = append(o.line, part[:min(len(part), lineBytes-len(o.line))]...)
		if complete {
			if bytes.HasPrefix(o.line, []byte(o.prefix)) {
				o.hit, o.seen = string(o.line), true
				close(o.ready)
			}
			o.line = o.line[:0]
		}
		b = rest
	}
}

func (o *output) readyLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hit
}

func (o *output) lastBytes() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.tail)
}

func (o *output) close() error { return o.file.Close() }
