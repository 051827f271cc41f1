// Command kubectl-gputopo is the command line tool of gpu-topology-scheduler, and a kubectl plugin: with it on the PATH,
// `kubectl gputopo` runs it. It talks to API servers and links no part of the scheduler.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

// exitInterrupted is what a shell expects of a program that Ctrl-C ended.
const exitInterrupted = 128 + int(syscall.SIGINT)

func main() {
	// What the client library logs, each retry for example, is in the errors where it matters.
	klog.SetLogger(klog.Logger{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// After the first signal the next one ends the process at once, should cleaning up hang.
	context.AfterFunc(ctx, stop)
	err := newRoot().ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, simulate.ErrInterrupted):
		fmt.Fprintln(os.Stderr, "interrupted")
		os.Exit(exitInterrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
