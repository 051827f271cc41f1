package main

import "github.com/spf13/cobra"

// newRoot returns the whole command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-gputopo",
		Short: "Look at and try out GPU-topology scheduling",
		Long: `Look at and try out GPU-topology scheduling.

As a kubectl plugin it is called "kubectl gputopo": put it on the PATH.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gputopo"},
		Args:          cobra.NoArgs,
		RunE:          showHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDemo(), newTopology(), newBench(), newVersion())
	return root
}

// showHelp is what a command does that only groups others. It makes an unknown verb below it an error.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }
