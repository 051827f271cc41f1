package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

func newParse() *cobra.Command {
	var d description
	var output string
	cmd := &cobra.Command{
		Use:   "parse --matrix FILE [--query FILE] [--product NAME] [--vram BYTES]",
		Short: "Turn the output of nvidia-smi topo -m into the annotation of a node",
		Long: `Turn the output of nvidia-smi topo -m into the value of the node annotation ` + v1alpha1.TopologyAnnotation + `.

The query adds UUIDs, names and memory. Without it, or where it has no value, --product and --vram stand in;
without those a GPU runs at the rates of the slowest known one, and is given out whole only.`,
		Example: `  kubectl gputopo topology parse --matrix topo.txt --query gpus.csv
  nvidia-smi topo -m | kubectl gputopo topology parse --matrix - --product "NVIDIA L40S" --vram 46068Mi
  kubectl annotate node NODE "$(kubectl gputopo topology parse --matrix topo.txt --query gpus.csv -o annotation)"`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			return writeAnnotation(cmd.OutOrStdout(), output, value)
		},
	}
	d.addReadout(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "json", "`format`: json (the value), annotation (key=value, for kubectl annotate) or yaml (a patch of the node)")
	return cmd
}

func writeAnnotation(w io.Writer, format, value string) error {
	var text string
	switch format {
	case "json":
		text = value + "\n"
	case "annotation":
		text = v1alpha1.TopologyAnnotation + "=" + value + "\n"
	case "yaml":
		patch, err := yaml.Marshal(patchOf(value))
		if err != nil {
			return err
		}
		text = string(patch)
	default:
		return fmt.Errorf("--output %.64q: must be json, annotation or yaml", format)
	}
	_, err := io.WriteString(w, text)
	return err
}

// patchOf is the change of a node that writes the annotation.
func patchOf(value string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"annotations": map[string]any{v1alpha1.TopologyAnnotation: value},
		},
	}
}
