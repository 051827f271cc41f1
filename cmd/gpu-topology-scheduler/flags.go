package main

import (
	"io"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/gputopology/gpu-topology-scheduler/pkg/introspect"
)

// addFlags adds the flags that kube-scheduler does not have, and shows them in the command's help.
func addFlags(cmd *cobra.Command, state *introspect.Address) {
	var sets cliflag.NamedFlagSets
	flags := sets.FlagSet("GPU topology")
	flags.Var(state, "gpu-state-bind-address", `Where GPU ledger, gangs and sweeps are served as JSON, read-only and without authentication; "" or "0" for nowhere.`)
	cmd.Flags().AddFlagSet(flags)
	usage, help := cmd.UsageFunc(), cmd.HelpFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		err := usage(c)
		printFlags(c.OutOrStderr(), sets)
		return err
	})
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		printFlags(c.OutOrStdout(), sets)
	})
}

func printFlags(w io.Writer, sets cliflag.NamedFlagSets) { cliflag.PrintSections(w, sets, 0) }
