package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
)

func newShow() *cobra.Command {
	var d description
	var k kube
	cmd := &cobra.Command{
		Use:   "show (NODE | -f FILE | --matrix FILE [--query FILE])",
		Short: "Draw how the GPUs of a node are joined, with GB/s",
		Long: `Draw how the GPUs of a node are joined, with the bandwidth of each pair in GB/s.

For a node of the cluster it shows what the scheduler would make of it: the best source that describes the node, named
in the first line, and what is wrong with any source. A file is drawn without a cluster.`,
		Example: `  kubectl gputopo topology show node-7
  kubectl gputopo topology show --matrix topo.txt --query gpus.csv
  kubectl gputopo topology show -f annotation.json`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && d.given():
				return errors.New("name a node or a file, not both")
			case len(args) == 1:
				return showNode(cmd, &k, args[0])
			case !d.given():
				return errors.New("name a node, or a file with -f or --matrix")
			}
			_, node, err := d.read(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return node.WriteMatrix(cmd.OutOrStdout())
		},
	}
	d.addReadout(cmd.Flags())
	d.addFile(cmd.Flags())
	k.addFlags(cmd.Flags())
	return cmd
}

// showNode resolves a node as the scheduler does and draws the result.
func showNode(cmd *cobra.Command, k *kube, name string) error {
	client, err := k.connect()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(cmd.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	slices, err := slicesOf(cmd.Context(), client, name)
	if err != nil {
		if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: ResourceSlices are not looked at: %v\n", err); err != nil {
			return err
		}
	}
	result := inventory.Resolve(node, slices, inventory.Options{})
	for _, problem := range result.Problems {
		if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", problem); err != nil {
			return err
		}
	}
	if result.Topology == nil {
		return fmt.Errorf("node %s: no source describes a GPU", name)
	}
	return result.Topology.WriteMatrix(cmd.OutOrStdout())
}

// slicesOf lists the node's ResourceSlices; none where the API server does not serve them.
func slicesOf(ctx context.Context, client kubernetes.Interface, node string) ([]*resourcev1.ResourceSlice, error) {
	list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorNodeName, node).String(),
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices := make([]*resourcev1.ResourceSlice, len(list.Items))
	for i := range list.Items {
		slices[i] = &list.Items[i]
	}
	return slices, nil
}
