package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "bench",
		Short:  "Measure the scheduler on a simulated cluster",
		Args:   cobra.NoArgs,
		RunE:   showHelp,
		Hidden: true, // for those who work on the scheduler
	}
	cmd.AddCommand(newBenchThroughput())
	return cmd
}

func newBenchThroughput() *cobra.Command {
	var o simulate.ThroughputOptions
	var least float64
	cmd := &cobra.Command{
		Use:   "throughput",
		Short: "Compare pods a second with our plugins and without",
		Long: `Compare pods a second with our plugins and without.

It binds the same pods, which ask for 1, 2 or 4 GPUs, on the same simulated nodes in turn by the scheduler that ships
and by the same binary with the default plugins alone, which count GPUs but choose none. All pods exist before the
scheduler starts; a round lasts from the first bound pod to the last. The CPU time that each pod takes tells more than
the rates where the machine has other work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Screen = simulate.NewScreen(cmd.OutOrStdout(), 0)
			_, ratio, err := simulate.Throughput(cmd.Context(), o)
			if err == nil && ratio < least {
				err = fmt.Errorf("the ratio is %.2f, below %.2f", ratio, least)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", 512, "number of simulated nodes with 8 GPUs each")
	cmd.Flags().IntVar(&o.Pods, "pods", 1000, "number of pods")
	cmd.Flags().IntVar(&o.Pairs, "pairs", 3, "how often each of the two is measured")
	cmd.Flags().Float64Var(&least, "min-ratio", 0.9, "fail below this ratio of the median rates, with our plugins to without")
	cmd.Flags().StringVar(&o.Binaries, "binaries", ownDirectory(), "`directory` of the binaries")
	return cmd
}
