package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

func main() {
	if err := command(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "collect":
			return collect(args[1:])
		case "table":
			return table(args[1:], os.Stdout)
		}
	}
	return errors.New("usage: report collect|table [flags]")
}

// collect writes the run that scheduler_perf's files are.
func collect(args []string) error {
	flags := flag.NewFlagSet("collect", flag.ContinueOnError)
	raw := flags.String("raw", "", "`directory` of scheduler_perf's files")
	out := flags.String("out", "", "`file` to write")
	run := results.Run{Benchmark: results.SchedulerPerf, Machine: results.ThisMachine()}
	flags.StringVar(&run.Scope, "scope", "", "what tells this run from others")
	flags.StringVar(&run.Commit, "commit", "", "the commit that was measured")
	flags.StringVar(&run.Command, "command", "", "what repeats the run")
	flags.StringVar(&run.Time, "time", time.Now().UTC().Format(time.RFC3339), "when the run began, in RFC 3339")
	flags.StringVar(&run.Machine.Load, "load", run.Machine.Load, "the load average before the run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(*raw, "BenchmarkPerfScheduling_*.json"))
	if err != nil {
		return err
	}
	var rounds [][]item
	for _, name := range files {
		items, err := readItems(name)
		if err != nil {
			return err
		}
		rounds = append(rounds, items)
	}
	if run.Rows, run.Rounds, err = rows(rounds); err != nil {
		return fmt.Errorf("%s: %w", *raw, err)
	}
	return results.Write(*out, []results.Run{run})
}

// table rewrites the document.
func table(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	dir := flags.String("runs", "bin/bench", "`directory` of the runs")
	data := flags.String("data", "docs/benchmarks.json", "`file` with the figures of the document")
	document := flags.String("document", "docs/benchmarks.md", "`file` with the markers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(*dir, "*.json"))
	if err != nil {
		return err
	}
	runs, err := results.Read(*data)
	if err != nil {
		return err
	}
	for _, name := range files {
		recent, err := results.Read(name)
		if err != nil {
			return err
		}
		runs = results.Merge(runs, recent)
	}
	text, err := os.ReadFile(*document)
	if err != nil {
		return err
	}
	written, err := replace(string(text), render(runs))
	if err != nil {
		return fmt.Errorf("%s: %w", *document, err)
	}
	if err := errors.Join(results.Write(*data, runs), os.WriteFile(*document, []byte(written), 0o644)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d runs, %d of them from %s\n", *document, len(runs), len(files), *dir)
	return err
}
