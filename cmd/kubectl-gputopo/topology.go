package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// stdin is the file name that stands for standard input.
const stdin = "-"

func newTopology() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Describe the GPUs of nodes",
		Long: `Describe the GPUs of nodes: which there are and how each pair is joined.

Run on a node:

  nvidia-smi topo -m > topo.txt
  nvidia-smi --query-gpu=index,uuid,name,memory.total,pci.bus_id --format=csv > gpus.csv

and then, where a kubeconfig is:

  kubectl gputopo topology show --matrix topo.txt --query gpus.csv
  kubectl gputopo topology annotate NODE --matrix topo.txt --query gpus.csv`,
		Args: cobra.NoArgs,
		RunE: showHelp,
	}
	cmd.AddCommand(newParse(), newAnnotate(), newShow())
	return cmd
}

// description is the flags that say where a description of GPUs comes from.
type description struct {
	matrix, query, product, vram string
	file                         string
}

func (d *description) addReadout(flags *pflag.FlagSet) {
	flags.StringVar(&d.matrix, "matrix", "", "`file` with the output of nvidia-smi topo -m; - for standard input")
	flags.StringVar(&d.query, "query", "", "`file` with the output of nvidia-smi --query-gpu=index,uuid,name,memory.total,pci.bus_id --format=csv; - for standard input")
	flags.StringVar(&d.product, "product", "", "`name` of the GPUs that the query does not name, for example \"NVIDIA H100 80GB HBM3\"")
	flags.StringVar(&d.vram, "vram", "", "memory of each GPU for which the query has none, in `bytes` or as 80Gi")
}

func (d *description) addFile(flags *pflag.FlagSet) {
	flags.StringVarP(&d.file, "filename", "f", "", "`file` with the annotation's JSON, as topology parse prints it; - for standard input")
}

// given reports whether a flag names a source.
func (d *description) given() bool { return d.matrix != "" || d.file != "" }

// read returns the description and the graph that it makes. in is standard input.
func (d *description) read(in io.Reader) (topology.Spec, *topology.Node, error) {
	if err := d.check(); err != nil {
		return topology.Spec{}, nil, err
	}
	spec, err := d.spec(in)
	if err != nil {
		return topology.Spec{}, nil, err
	}
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		return topology.Spec{}, nil, fmt.Errorf("%s: %w", d.name(), err)
	}
	return spec, node, nil
}

func (d *description) check() error {
	switch {
	case d.matrix != "" && d.file != "":
		return errors.New("--matrix and --filename name two descriptions: give one")
	case !d.given():
		return errors.New("no description: name the output of nvidia-smi topo -m with --matrix")
	case d.file != "" && (d.query != "" || d.product != "" || d.vram != ""):
		return errors.New("--query, --product and --vram go with --matrix, not with --filename")
	case d.matrix == stdin && d.query == stdin:
		return errors.New("--matrix and --query cannot both be standard input")
	}
	return nil
}

// name names the source in messages.
func (d *description) name() string {
	name := d.matrix
	if d.file != "" {
		name = d.file
	}
	return fileName(name)
}

func fileName(name string) string {
	if name == stdin {
		return "standard input"
	}
	return name
}

func (d *description) spec(in io.Reader) (topology.Spec, error) {
	if d.file != "" {
		text, err := readFile(d.file, in, io.ReadAll)
		if err != nil {
			return topology.Spec{}, err
		}
		spec, err := v1alpha1.ParseTopology(string(text))
		if err != nil {
			return topology.Spec{}, fmt.Errorf("%s: %w", d.name(), err)
		}
		spec.Source = d.name()
		return spec, nil
	}
	vram, err := parseVRAM(d.vram)
	if err != nil {
		return topology.Spec{}, err
	}
	matrix, err := readFile(d.matrix, in, topology.ParseMatrix)
	if err != nil {
		return topology.Spec{}, err
	}
	var rows []topology.QueryRow
	if d.query != "" {
		if rows, err = readFile(d.query, in, topology.ParseQuery); err != nil {
			return topology.Spec{}, err
		}
	}
	spec, err := matrix.Spec(rows, d.product, vram)
	if err != nil {
		return topology.Spec{}, fmt.Errorf("%s: %w", d.name(), err)
	}
	spec.Source = d.name() + " (nvidia-smi topo -m)"
	return spec, nil
}

// readFile has parse read a file, or in for "-"; errors begin with its name.
func readFile[T any](name string, in io.Reader, parse func(io.Reader) (T, error)) (T, error) {
	var parsed T
	if name != stdin {
		file, err := os.Open(name)
		if err != nil {
			return parsed, err // names the file
		}
		defer file.Close() //nolint:errcheck // opened for reading
		in = file
	}
	parsed, err := parse(in)
	if err != nil {
		return parsed, fmt.Errorf("%s: %w", fileName(name), err)
	}
	return parsed, nil
}

// parseVRAM reads --vram; 0 where it is not given.
func parseVRAM(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("--vram %.64q: not a number of bytes such as 85899345920 or 80Gi", text)
	}
	bytes, whole := q.AsInt64()
	if !whole || bytes <= 0 || bytes > topology.MaxVRAMBytes {
		return 0, fmt.Errorf("--vram %.64q: must be 1 to %d bytes", text, topology.MaxVRAMBytes)
	}
	return bytes, nil
}

// warnFaults says which cards no pod will get, and why.
func warnFaults(w io.Writer, node *topology.Node) error {
	for i := range node.Len() {
		if fault := node.Card(i).Fault; fault != "" {
			if _, err := fmt.Fprintf(w, "warning: GPU%d takes no pods: %s\n", i, fault); err != nil {
				return err
			}
		}
	}
	return nil
}
