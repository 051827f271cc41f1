package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// scaleCommand is the argument by which this program measures what a large cluster costs.
const scaleCommand = "scale"

// scaleMembers is how many of the pods that wait are a gang, where the variant has gangs.
const scaleMembers = 8

// scaleVariants are what can be compared.
var scaleVariants = []string{baseline, single, ours}

// scaleOptions are the command line of scaleCommand.
type scaleOptions struct {
	args               []string
	binaries, out, run string
	// nodes are those of the large cluster, small those of the one that it is compared with. Each node has perNode running
	// pods.
	nodes, small, perNode int
	// waiting is how many pods wait for a scheduler, gangs of scaleMembers where the variant has gangs.
	waiting           int
	rounds, failovers int
	variants          []variant
	limits            scaleLimits
}

func parseScale(args []string) (*scaleOptions, error) {
	o := &scaleOptions{args: args}
	flags := flag.NewFlagSet(scaleCommand, flag.ContinueOnError)
	flags.StringVar(&o.binaries, "binaries", "bin", "`directory` of the binaries")
	flags.StringVar(&o.out, "out", "", "`file` for everything as JSON")
	flags.StringVar(&o.run, "run", "", "`file` for the medians, as test/perf/report reads them")
	flags.IntVar(&o.nodes, "nodes", 10000, "nodes of the large cluster")
	flags.IntVar(&o.small, "small-nodes", 1000, "nodes of the cluster that it is compared with")
	flags.IntVar(&o.perNode, "running", 2, "pods that run on each node before a scheduler starts, up to 3")
	flags.IntVar(&o.waiting, "waiting", 2800, "pods of 1 GPU that wait for a scheduler when it starts")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each scheduler is started in each cluster")
	flags.IntVar(&o.failovers, "failovers", 2, "how often the leader is killed in the large cluster")
	list := flags.String("variants", strings.Join(scaleVariants, ","), "what is compared, some of "+strings.Join(scaleVariants, ", "))
	flags.Float64Var(&o.limits.firstBind, "max-first-bind", 0, "fail where "+single+" or "+ours+" needs more than these seconds from the sync of its caches to its first bind; 0 is no limit")
	flags.Float64Var(&o.limits.rss, "max-rss", 0, "fail where "+single+" or "+ours+" has more than this times the memory of "+baseline+"; 0 is no limit")
	flags.Float64Var(&o.limits.growth, "max-growth", 0, "fail where a pod takes "+ours+" more than this times as long in the large cluster; 0 is no limit")
	flags.Float64Var(&o.limits.takeOver, "max-takeover", 0, "fail where "+single+" needs more than these seconds from the lease to its first bind; 0 is no limit")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.variants, err = variantsByName(*list); err != nil {
		return nil, err
	}
	return o, errors.Join(o.validate(), noArguments(flags))
}

func noArguments(flags *flag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("arguments %q: must be none", flags.Args())
	}
	return nil
}

// validate checks the numbers; the waiting pods must fit.
func (o *scaleOptions) validate() error {
	for i := range o.variants {
		if name := o.variants[i].name; !slices.Contains(scaleVariants, name) {
			return fmt.Errorf("--variants %.64q: must be some of %s", name, strings.Join(scaleVariants, ", "))
		}
	}
	if o.perNode < 0 || o.perNode > len(runningGPUs) {
		return fmt.Errorf("--running %d: must be 0 to %d", o.perNode, len(runningGPUs))
	}
	free := 0
	for i := range o.small {
		free += machine.Count - occupiedBy(i, o.perNode)
	}
	switch {
	case o.small < 1 || o.nodes < o.small:
		return fmt.Errorf("--small-nodes %d, --nodes %d: must be at least 1, and the second at least the first", o.small, o.nodes)
	case o.waiting < scaleMembers || o.waiting > free || o.waiting%scaleMembers != 0:
		return fmt.Errorf("--waiting %d: must be gangs of %d, and no more than %d, which is what %d nodes have left", o.waiting, scaleMembers, free, o.small)
	case o.rounds < 1 || o.failovers < 0:
		return fmt.Errorf("--rounds %d, --failovers %d: must be at least 1 and 0", o.rounds, o.failovers)
	}
	return nil
}

// sizeOf is a cluster of so many nodes.
func (o *scaleOptions) sizeOf(nodes int) size {
	return size{Name: fmt.Sprintf("%dNodes_%dPods", nodes, nodes*o.perNode), Nodes: nodes, Gangs: o.waiting / scaleMembers, Members: scaleMembers, GPUs: 1}
}

// runScale measures and reports.
func runScale(ctx context.Context, o *scaleOptions, out io.Writer) error {
	report := ScaleReport{
		Time: time.Now().UTC().Format(time.RFC3339), Machine: results.ThisMachine(), Waiting: o.waiting,
		Small: o.sizeOf(o.small), Large: o.sizeOf(o.nodes), Rounds: o.rounds,
		Command: "go run ./test/perf/outside " + scaleCommand + " " + strings.Join(o.args, " "),
	}
	var err error
	if report.Version, err = version(ctx, o.binaries); err != nil {
		return err
	}
	for _, s := range slices.Compact([]size{report.Small, report.Large}) {
		if err := o.fill(ctx, s, &report, out); err != nil {
			return err
		}
	}
	report.summarize()
	if err := report.write(o.out, out); err != nil {
		return err
	}
	if o.run != "" {
		if err := results.Write(o.run, report.results()); err != nil {
			return err
		}
	}
	return o.limits.check(&report)
}

// fill measures one cluster.
func (o *scaleOptions) fill(ctx context.Context, s size, report *ScaleReport, out io.Writer) (err error) {
	begin := time.Now()
	b := &bench{size: s}
	running, err := startBench(ctx, o.binaries, b)
	if b.cluster != nil {
		defer func() { err = errors.Join(err, b.cluster.Close()) }()
	}
	if err == nil {
		err = b.createRunning(running, o.perNode)
	}
	if err != nil {
		return because(running, err)
	}
	if _, err := fmt.Fprintf(out, "%s: filled in %.0f s\n", s.Name, time.Since(begin).Seconds()); err != nil {
		return err
	}
	for _, v := range order(o.variants, o.rounds) {
		r, err := b.startOnce(running, &v)
		if err != nil {
			return because(running, err)
		}
		report.Starts = append(report.Starts, r)
		if _, err := fmt.Fprintf(out, "%s, %s: in sync after %.1f s, first bind %.2f s later, %.2f ms a pod, %.0f MiB, then %.0f MiB\n",
			s.Name, v.name, r.SyncSeconds, r.FirstBindSeconds, r.MillisPerPod, r.RSSSynced, r.RSSBound); err != nil {
			return err
		}
	}
	if s != report.Large || o.failovers == 0 {
		return nil
	}
	for _, v := range o.variants {
		if v.members != noGang {
			continue // the pods of a failover are of no gang
		}
		all, err := b.failovers(running, &v, o.failovers)
		if err != nil {
			return because(running, err)
		}
		report.Failovers = append(report.Failovers, all...)
		for _, f := range all {
			if _, err := fmt.Fprintf(out, "%s, %s: the leader killed, elected after %.1f s, first bind %.2f s later\n",
				s.Name, v.name, f.ElectionSeconds, f.BindSeconds); err != nil {
				return err
			}
		}
	}
	return nil
}

// write prints the table and, where a file is named, fills that.
func (r *ScaleReport) write(name string, out io.Writer) error {
	if err := r.table(out); err != nil || name == "" {
		return err
	}
	return writeJSON(name, r)
}
