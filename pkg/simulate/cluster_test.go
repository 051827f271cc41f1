//go:build unix

package simulate

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
)

// script starts a shell script that counts as ready once it prints "ready".
func script(t *testing.T, text string) *process.Process {
	t.Helper()
	p, err := process.Start(t.Context(), process.Config{
		Path: "/bin/sh", Args: []string{"-c", text}, LogFile: filepath.Join(t.TempDir(), "log"), ReadyLine: "ready", HoldStdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bareCluster is a Cluster without processes and the context that it would end.
func bareCluster(t *testing.T) (*Cluster, context.Context) {
	t.Helper()
	ctx, fail := context.WithCancelCause(t.Context())
	return &Cluster{dir: t.TempDir(), fail: fail}, ctx
}

func TestProcessThatEndsByItselfEndsTheContext(t *testing.T) {
	tests := map[string]struct {
		exit string
		want []string
	}{
		"with an error": {"echo last words >&2; exit 3", []string{"thing ended by itself (exit status 3)", "last words"}},
		"with success":  {"echo bye; exit 0", []string{"thing ended by itself (exit status 0)", "bye"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, ctx := bareCluster(t)
			c.others = append(c.others, c.watch("thing", script(t, "echo ready; "+tc.exit)))
			<-ctx.Done()
			for _, want := range tc.want {
				if got := context.Cause(ctx).Error(); !strings.Contains(got, want) {
					t.Errorf("cause = %q, want it to name %q", got, want)
				}
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

func TestCloseStopsAllAndBlamesNobody(t *testing.T) {
	const stoppable = "echo ready; exec cat" // ends by the signal, not with success
	c, ctx := bareCluster(t)
	first, second := script(t, stoppable), script(t, stoppable)
	c.others = append(c.others, c.watch("first", first))
	c.scheduler = c.watch("second", second)
	if err := c.StopScheduler(t.Context()); err != nil || ctx.Err() != nil {
		t.Errorf("StopScheduler: %v, context ended: %v", err, context.Cause(ctx))
	}
	<-second.Done()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	<-first.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		t.Errorf("cause = %v, want none but the end", cause)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cluster's directory is still there: %v", err)
	}
}

// fakeBinaries makes a directory in which all three binaries are one shell script.
func fakeBinaries(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{controlPlaneBinary, kwokBinary, schedulerBinary} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDemoSaysWhichProcessFailed(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	err := Demo(t.Context(), DemoOptions{Binaries: fakeBinaries(t, "echo no room on disk >&2; exit 7"), Screen: NewScreen(&out, 0)})
	if err == nil || !strings.Contains(err.Error(), controlPlaneBinary) || !strings.Contains(err.Error(), "no room on disk") {
		t.Errorf("error = %v, want one that names %s and its last words", err, controlPlaneBinary)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoInterruptedWhileItStarts(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Demo(ctx, DemoOptions{Binaries: fakeBinaries(t, "exec cat"), Screen: NewScreen(&bytes.Buffer{}, 0)})
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("error = %v, want ErrInterrupted", err)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestThroughputSaysWhichProcessFailed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, _, err := Throughput(t.Context(), ThroughputOptions{
		Binaries: fakeBinaries(t, "echo no luck >&2; exit 7"), Nodes: 1, Pods: 2, Pairs: 1, Screen: NewScreen(&bytes.Buffer{}, 0),
	})
	if err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("error = %v, want one with the last words", err)
	}
}
