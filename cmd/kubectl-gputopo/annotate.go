package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

func newAnnotate() *cobra.Command {
	var d description
	var k kube
	cmd := &cobra.Command{
		Use:   "annotate NODE (--matrix FILE [--query FILE] | -f FILE)",
		Short: "Write the description of a node's GPUs to the node",
		Long: `Write the description of a node's GPUs to the node, as annotation ` + v1alpha1.TopologyAnnotation + `.

The scheduler prefers it to every other source. Pods that are bound keep their cards.`,
		Example: `  kubectl gputopo topology annotate node-7 --matrix topo.txt --query gpus.csv
  kubectl gputopo topology parse --matrix topo.txt | kubectl gputopo topology annotate node-7 -f -`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, node, err := d.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			value, err := v1alpha1.FormatTopology(spec)
			if err != nil {
				return fmt.Errorf("%s: %w", d.name(), err)
			}
			if err := warnFaults(cmd.ErrOrStderr(), node); err != nil {
				return err
			}
			patch, err := json.Marshal(patchOf(value))
			if err != nil {
				return err
			}
			client, err := k.connect()
			if err != nil {
				return err
			}
			_, err = client.CoreV1().Nodes().Patch(cmd.Context(), args[0], types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-gputopo"})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "node/%s annotated: %d GPUs from %s\n", args[0], node.Len(), d.name())
			return err
		},
	}
	d.addReadout(cmd.Flags())
	d.addFile(cmd.Flags())
	k.addFlags(cmd.Flags())
	return cmd
}
