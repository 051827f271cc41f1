package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	// DefaultGrace is how long Stop waits after SIGTERM before it kills.
	DefaultGrace = 15 * time.Second
	// outputDelay bounds the wait for output after the child itself has ended,
	// should it have passed its output on to a process of its own.
	outputDelay = 2 * time.Second
)

// Config says what to run and when it counts as ready.
type Config struct {
	// Name stands in errors; empty means the base name of Path.
	Name string
	// Path is the binary. Required.
	Path string
	Args []string
	// Env is added to the parent's environment, as KEY=value.
	Env []string
	// Dir is the working directory; empty means the parent's.
	Dir string
	// LogFile receives standard output and standard error; it is truncated.
	// Required.
	LogFile string
	// ReadyLine is the beginning of a line of standard output that the child
	// prints when it is ready. Empty: none is waited for.
	ReadyLine string
	// ReadyURL answers GET with status 200 when the child is ready. Certificates
	// are not verified: it must be a loopback address. Empty: none is asked.
	ReadyURL string
	// Grace is the time between SIGTERM and SIGKILL in Stop; 0 means DefaultGrace.
	Grace time.Duration
	// HoldStdin gives the child a pipe as standard input that ends when the
	// parent does. Otherwise its standard input is empty.
	HoldStdin bool
}

// Process is a child process. Its methods may be called concurrently.
type Process struct {
	name  string
	grace time.Duration
	cmd   *exec.Cmd
	out   *output

	done chan struct{}
	err  error // set before done is closed
}

// Start runs a child and returns when it is ready. ctx bounds the wait only.
// When the child ends first or ctx does, Start kills it, waits for its end and
// returns an error that quotes the end of its log.
func Start(ctx context.Context, c Config) (*Process, error) {
	p, err := launch(c)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, c.ReadyURL); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w; log %s ends with:\n%s", p.name, err, c.LogFile, p.Tail()), p.Kill())
	}
	return p, nil
}

func launch(c Config) (*Process, error) {
	p := &Process{name: c.Name, grace: c.Grace, done: make(chan struct{})}
	if p.name == "" {
		p.name = filepath.Base(c.Path)
	}
	if p.grace == 0 {
		p.grace = DefaultGrace
	}
	if c.LogFile == "" {
		return nil, fmt.Errorf("%s: LogFile: must not be empty", p.name)
	}
	file, err := os.Create(c.LogFile)
	if err != nil {
		return nil, fmt.Errorf("%s: log: %w", p.name, err)
	}
	p.out = newOutput(file, c.ReadyLine)
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Dir = c.Dir
	p.cmd.Stdout = p.out.stdout()
	p.cmd.Stderr = p.out
	p.cmd.WaitDelay = outputDelay
	p.cmd.SysProcAttr = attributes()
	if c.HoldStdin {
		// The write end stays with cmd; nothing is written to it.
		if _, err := p.cmd.StdinPipe(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), file.Close())
		}
	}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return p, nil
}

// run starts the child, reports on started, and reaps it. It stays on one
// thread: the parent death signal comes when the thread that started the child
// ends, not the process.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	p.err = errors.Join(p.err, p.out.close())
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Line returns the line of standard output that began with ReadyLine, without
// its end.
func (p *Process) Line() string { return p.out.readyLine() }

// Tail returns the last few kilobytes of the log.
func (p *Process) Tail() string { return p.out.lastBytes() }

// Done is closed when the child has ended and its log is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the child ended, once Done is closed: nil for exit code 0,
// an *exec.ExitError for another code or a signal.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop asks the child to end by SIGTERM and returns once it has, whatever its
// exit code (see Err). When the grace period or ctx ends first the child is
// killed and Stop returns an error. Stopping a child that has ended returns nil.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, p.Kill())
	}
	grace := time.NewTimer(p.grace)
	defer grace.Stop()
	select {
	case <-p.done:
		return nil
	case <-grace.C:
		return errors.Join(fmt.Errorf("%s: still ran %v after SIGTERM, killed", p.name, p.grace), p.Kill())
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: killed: %w", p.name, ctx.Err()), p.Kill())
	}
}

// Kill ends the child and its process group by SIGKILL, as a machine crash
// would, and waits for the end.
func (p *Process) Kill() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := killGroup(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: kill: %w", p.name, err)
	}
	<-p.done
	return nil
}

func (p *Process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %v: %w", p.name, s, err)
	}
	return nil
}
