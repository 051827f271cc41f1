package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
)

// childMode in the environment turns this test binary into a child.
const childMode = "PROCESS_TEST_CHILD"

var children = map[string]func() int{
	"line":      func() int { return untilTerm("noise\nready: a b\n", 0) },
	"lateEnd":   func() int { return untilTerm("ready", 0) },
	"url":       serveURL,
	"fail":      func() int { fmt.Fprintln(os.Stderr, "no such card"); return 7 },
	"exit3":     func() int { return untilTerm("ready\n", 3) },
	"deaf":      func() int { signal.Ignore(syscall.SIGTERM); fmt.Println("ready"); select {} },
	"tied":      func() int { dialBack(); return untilEOF() },
	"deafTied":  func() int { signal.Ignore(syscall.SIGTERM); dialBack(); select {} },
	"parent":    func() int { return beParent("tied", true) },
	"badParent": func() int { return beParent("deafTied", false) },
	"twoLogs":   func() int { fmt.Println("to stdout"); fmt.Fprintln(os.Stderr, "to stderr"); return 0 },
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(children[mode]())
	}
	os.Exit(m.Run())
}

// untilTerm prints text once SIGTERM is caught, and returns code on SIGTERM.
func untilTerm(text string, code int) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Print(text)
	<-ctx.Done()
	return code
}

func untilEOF() int {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	return 0
}

func serveURL() int {
	calls := 0
	answer := func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}
	if err := http.ListenAndServe(os.Getenv("ADDR"), http.HandlerFunc(answer)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// dialBack opens a connection to the test that lasts as long as this process.
func dialBack() {
	conn, err := net.Dial("unix", os.Getenv("SOCKET"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kept = conn
	fmt.Println("ready")
}

var kept net.Conn

// beParent starts a child in the given mode and waits to be killed.
func beParent(mode string, holdStdin bool) int {
	if err := os.Setenv(childMode, mode); err != nil {
		return 1
	}
	_, err := process.Start(context.Background(), process.Config{
		Path: os.Args[0], LogFile: os.Getenv("LOG"), ReadyLine: "ready", HoldStdin: holdStdin,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	select {}
}

func child(t *testing.T, mode string) process.Config {
	t.Helper()
	return process.Config{
		Name: mode, Path: os.Args[0], LogFile: filepath.Join(t.TempDir(), "log"),
		Env: []string{childMode + "=" + mode},
	}
}

func start(t *testing.T, c process.Config) *process.Process {
	t.Helper()
	p, err := process.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestReadyLine(t *testing.T) {
	c := child(t, "line")
	c.ReadyLine = "ready: "
	p := start(t, c)
	if diff := cmp.Diff("ready: a b", p.Line()); diff != "" {
		t.Errorf("Line() (-want +got):\n%s", diff)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("Err() after a clean end = %v, want nil", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("second Stop() = %v, want nil", err)
	}
}

func TestReadyURL(t *testing.T) {
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	c := child(t, "url")
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	c.Env = append(c.Env, "ADDR="+addr)
	c.ReadyURL = "http://" + addr
	start(t, c)
}

func TestStartFails(t *testing.T) {
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	missing := child(t, "line")
	missing.Path = filepath.Join(t.TempDir(), "no-such-binary")
	noLog := child(t, "line")
	noLog.LogFile = ""
	waiting := child(t, "lateEnd")
	waiting.ReadyLine = "ready"
	failing := child(t, "fail")
	failing.ReadyLine = "ready"
	failingURL := child(t, "fail")
	failingURL.ReadyURL = "http://127.0.0.1:1"
	early := child(t, "twoLogs")
	early.ReadyLine = "ready"

	for name, tc := range map[string]struct {
		ctx    context.Context
		config process.Config
		want   []string
	}{
		"binary missing":                 {t.Context(), missing, []string{"no-such-binary", "no such file"}},
		"no log file":                    {t.Context(), noLog, []string{"LogFile"}},
		"line without end, time is up":   {expired, waiting, []string{`no line "ready"`, "deadline"}},
		"ends with a code, line awaited": {t.Context(), failing, []string{"fail: ended before", "exit status 7", "no such card"}},
		"ends with a code, URL awaited":  {t.Context(), failingURL, []string{"exit status 7", "no such card"}},
		"ends with code 0":               {t.Context(), early, []string{"exit status 0", "to stdout", "to stderr"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := process.Start(tc.ctx, tc.config)
			if err == nil {
				t.Fatalf("Start() = process %d, want an error", p.PID())
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestStopKeepsExitCode(t *testing.T) {
	c := child(t, "exit3")
	c.ReadyLine = "ready"
	p := start(t, c)
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v, want nil: the child ended in time", err)
	}
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("Err() = %v, want exit status 3", p.Err())
	}
}

func TestStopKillsTheDeaf(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx   context.Context
		grace time.Duration
		want  string
	}{
		"after the grace period": {t.Context(), time.Millisecond, "after SIGTERM"},
		"when the context ends":  {cancelled, time.Hour, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			c := child(t, "deaf")
			c.ReadyLine, c.Grace = "ready", tc.grace
			p := start(t, c)
			err := p.Stop(tc.ctx)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Stop() = %v, want an error that says %q", err, tc.want)
			}
			select {
			case <-p.Done():
			default:
				t.Error("Stop() returned before the child had ended")
			}
		})
	}
}

// TestParentDies kills a parent and waits for the end of the connection that
// its child holds.
func TestParentDies(t *testing.T) {
	for name, mode := range map[string]string{
		"child that holds stdin": "parent",
		"deaf child, Linux only": "badParent",
	} {
		t.Run(name, func(t *testing.T) {
			if mode == "badParent" && runtime.GOOS != "linux" {
				t.Skip("only Linux ends a child that ignores its parent's death")
			}
			t.Chdir(t.TempDir()) // the whole path is too long for a socket
			const socket = "s"
			ln, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := ln.Close(); err != nil {
					t.Error(err)
				}
			}()
			c := child(t, mode)
			c.Env = append(c.Env, "SOCKET="+socket, "LOG=log")
			c.ReadyLine = "ready"
			p := start(t, c)
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			// Only the grandchild's end ends this read; the test's own deadline bounds it.
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("connection of the grandchild: %v, want EOF", err)
			}
		})
	}
}

func TestLogHoldsBothStreams(t *testing.T) {
	c := child(t, "twoLogs")
	p := start(t, c)
	<-p.Done()
	f, err := os.Open(c.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		got[lines.Text()] = true
	}
	if diff := cmp.Diff(map[string]bool{"to stdout": true, "to stderr": true}, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
