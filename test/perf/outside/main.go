package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == binderCommand {
		return runBinder(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == scaleCommand {
		o, err := parseScale(args[1:])
		if err != nil {
			return err
		}
		return runScale(ctx, o, os.Stdout)
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, o, os.Stdout)
}

func runBinder(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(binderCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the cluster")
	places := flags.Int("places", 1, "pods that each node holds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientConfig(*kubeconfig)
	if err != nil {
		return err
	}
	client, err := typedClient(config)
	if err != nil {
		return err
	}
	return bindAll(ctx, client, *places, os.Stdout)
}

// options are the command line.
type options struct {
	args               []string
	binaries, out, run string
	// gates are further feature gates for the schedulers with our plugins.
	gates string
	// profiles is a directory for CPU profiles, "" for none.
	profiles string
	size     size
	variants []variant
	mode     mode
	rounds   int
	limits   limits
}

func parse(args []string) (*options, error) {
	o := &options{args: args}
	flags := flag.NewFlagSet("outside", flag.ContinueOnError)
	flags.StringVar(&o.binaries, "binaries", "bin", "`directory` of the binaries")
	flags.StringVar(&o.out, "out", "", "`file` for everything as JSON")
	flags.StringVar(&o.run, "run", "", "`file` for the medians, as test/perf/report reads them")
	name := flags.String("size", "512Nodes_125Gangs", "what is scheduled: 256Nodes_60Gangs, 512Nodes_125Gangs, 5000Nodes_100Gangs or 5000Nodes_3Gangs")
	clock := flags.String("mode", string(backlog), "which pods exist when a scheduler begins: all ("+string(backlog)+") or none ("+string(arrival)+")")
	list := flags.String("variants", strings.Join(variantNames(), ","), "what is compared, separated by commas")
	flags.StringVar(&o.gates, "gates", "", "further feature `gates` for the schedulers with our plugins, as NAME=true,NAME=false: for experiments")
	flags.StringVar(&o.profiles, "profiles", "", "`directory` for a CPU profile of the scheduler in every round: its first seconds of work")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each variant is measured")
	flags.Float64Var(&o.limits.rate, "min-rate", 0, "fail where "+ours+" has less than this times the pods/s of "+baseline+"; 0 is no limit")
	flags.Float64Var(&o.limits.cpu, "max-cpu", 0, "fail where "+ours+" uses more than this times the CPU time of "+baseline+"; 0 is no limit")
	flags.Float64Var(&o.limits.flat, "min-of-flat", 0, fmt.Sprintf("fail where the first of a pair of %v has less than this times the pods/s of the second; 0 is no limit", fabricPairs))
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.size, err = sizeByName(*name); err != nil {
		return nil, err
	}
	if o.variants, err = variantsByName(*list); err != nil {
		return nil, err
	}
	if o.mode, err = modeByName(*clock); err != nil {
		return nil, err
	}
	if o.rounds < 1 || flags.NArg() > 0 {
		return nil, fmt.Errorf("--rounds %d, arguments %q: must be at least 1, and none", o.rounds, flags.Args())
	}
	if o.profiles != "" && o.mode == arrival {
		return nil, fmt.Errorf("--profiles %.64q: only with --mode %s, where all work begins at once", o.profiles, backlog)
	}
	return o, nil
}

// run measures and reports.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	report := Report{Time: time.Now().UTC().Format(time.RFC3339), Size: o.size, Mode: o.mode, Gates: o.gates, Machine: results.ThisMachine()}
	if report.Version, err = version(ctx, o.binaries); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gang-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{size: o.size, mode: o.mode, gates: o.gates, profiles: o.profiles, binder: self, binderLog: filepath.Join(dir, "binder.log")}
	running, err := startBench(ctx, o.binaries, b)
	if b.cluster != nil {
		defer func() { err = errors.Join(err, b.cluster.Close()) }()
	}
	if err != nil {
		return because(running, err)
	}
	for _, v := range order(o.variants, o.rounds) {
		r, err := b.round(running, &v)
		if err != nil {
			return because(running, err)
		}
		report.Rounds = append(report.Rounds, r)
		if _, err := fmt.Fprintf(out, "%s: %d pods in %.2f s, %.0f pods/s, scheduler CPU %.2f s/1000 pods, API server CPU %.2f s/1000 pods, %s leaves a gang\n",
			v.name, o.size.pods(), r.Seconds, r.PodsPerSecond, r.SchedulerCPU, r.ServerCPU, ratio(r.Leaves)); err != nil {
			return err
		}
	}
	report.Medians = summarize(variantNames(), o.size.pods(), report.Rounds)
	report.Command = "go run ./test/perf/outside " + strings.Join(o.args, " ")
	if err := report.write(o.out, out); err != nil {
		return err
	}
	if o.run != "" {
		if err := results.Write(o.run, []results.Run{report.result()}); err != nil {
			return err
		}
	}
	return o.limits.check(report.Medians)
}

// because adds which process ended by itself, if one did.
func because(running context.Context, err error) error {
	if cause := context.Cause(running); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// write prints the table and, where a file is named, fills that.
func (r *Report) write(name string, out io.Writer) error {
	if err := r.table(out); err != nil || name == "" {
		return err
	}
	return writeJSON(name, r)
}

// version asks the scheduler what it is: "Kubernetes v1.37.2+COMMIT".
func version(ctx context.Context, binaries string) (string, error) {
	text, err := exec.CommandContext(ctx, filepath.Join(binaries, "gpu-topology-scheduler"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("gpu-topology-scheduler --version: %w: run `make build`, or name the directory with --binaries", err)
	}
	return strings.TrimSpace(string(text)), nil
}
