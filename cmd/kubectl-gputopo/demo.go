package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

func newDemo() *cobra.Command {
	var o simulate.DemoOptions
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Schedule pods and gangs on simulated GPU nodes and check every placement",
		Long: `Schedule pods and gangs on simulated GPU nodes and check every placement.

It starts a real API server, KWOK as the kubelet of 16 simulated nodes of four kinds, and the real scheduler with the
configuration and the permissions that ship, each as a process of its own on loopback. Then it creates about 20 pods,
one after another, and compares where and on which cards each one is placed with a brute-force search. On eight more
nodes it creates three gangs of which two fit, checks that each runs whole or holds nothing, and ends one of them so that
the third can run. It succeeds only if all is as it must be. It needs no root, no container engine and no cluster, and
leaves nothing behind.

The binaries come from "make build".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Screen = simulate.NewScreen(cmd.OutOrStdout(), terminalWidth(cmd.OutOrStdout()))
			ctx := cmd.Context()
			if !o.Keep {
				limited, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				ctx = limited
			}
			return simulate.Demo(ctx, o)
		},
	}
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the cluster running after the last pod, until Ctrl-C, and print how to reach it")
	cmd.Flags().StringVar(&o.Binaries, "binaries", ownDirectory(), "`directory` of local-control-plane, kwok and gpu-topology-scheduler")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Minute, "give up after this time; no limit with --keep")
	return cmd
}

// ownDirectory is where this program lies: "make build" puts the others beside it.
func ownDirectory() string {
	path, err := os.Executable()
	if err != nil {
		return "bin"
	}
	return filepath.Dir(path)
}

// leastRows is the height that the demo's board needs.
const leastRows = 24

// terminalWidth returns the number of columns, 0 where w is no terminal, or one too low for the board.
func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || height < leastRows {
		return 0
	}
	return width
}
