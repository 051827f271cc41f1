// Command local-control-plane runs etcd and kube-apiserver in one process on
// loopback until it is signalled, for the demo and for tests.
//
// It prints one line on standard output once the control plane is ready:
//
//	local-control-plane ready: https://127.0.0.1:PORT /path/to/admin.kubeconfig
//
// Logs go to standard error. SIGINT and SIGTERM stop it cleanly, and so does
// the end of standard input under --exit-with-stdin: a parent that holds the
// other end of a pipe cannot leave it behind, however it dies.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	cmd := newCommand()
	cmd.SetContext(ctx)
	code := cli.Run(cmd)
	stop()
	os.Exit(code)
}

func newCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:          "local-control-plane --data-dir DIR",
		Short:        "Run etcd and kube-apiserver in one process on loopback",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), &f, cmd.InOrStdin(), func(url, kubeconfig string) error {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "local-control-plane ready: %s %s\n", url, kubeconfig)
				return err
			})
		},
	}
	f.add(cmd.Flags())
	return cmd
}
