package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText(version.Get().GitVersion))
			return err
		},
	}
}

// versionText splits the version that the build sets: the Kubernetes release, a "+", and our own.
func versionText(built string) string {
	kubernetes, own, ok := strings.Cut(built, "+")
	if !ok {
		own = "unknown"
	}
	return fmt.Sprintf("kubectl-gputopo %s (Kubernetes %s, %s)", own, kubernetes, runtime.Version())
}
