package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// result is what a call of the tool left behind.
type result struct {
	out, err string
	failure  error
}

// run calls the tool with standard input and arguments.
func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return runCommand(t, newRoot(), stdin, args...)
}

func runCommand(t *testing.T, cmd *cobra.Command, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	failure := cmd.ExecuteContext(t.Context())
	return result{out: out.String(), err: errs.String(), failure: failure}
}

func data(name string) string { return filepath.Join("testdata", name) }

func readData(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(data(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	if diff := cmp.Diff(readData(t, name), got); diff != "" {
		t.Errorf("output (-%s +got):\n%s", data(name), diff)
	}
}

// checkFailure wants an error that contains a text, or none for an empty one.
func checkFailure(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error = %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error = %v, want one with %q", err, want)
	}
}

func TestHelpNamesEveryVerb(t *testing.T) {
	for args, verbs := range map[string][]string{
		"":         {"demo", "topology", "version"},
		"topology": {"annotate", "parse", "show"},
	} {
		got := run(t, "", append(strings.Fields(args), "--help")...)
		checkFailure(t, got.failure, "")
		for _, verb := range verbs {
			if !strings.Contains(got.out, "\n  "+verb+" ") {
				t.Errorf("help of %q does not list %s:\n%s", args, verb, got.out)
			}
		}
	}
}

// Every command explains itself and checks its arguments, and every flag has a text.
func TestEveryCommandHasHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Args == nil {
			t.Errorf("%s: no summary, or no check of its arguments", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: flag --%s has no text", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestUnknownVerb(t *testing.T) {
	checkFailure(t, run(t, "", "paint").failure, `unknown command "paint" for "kubectl gputopo"`)
	checkFailure(t, run(t, "", "topology", "paint").failure, `unknown command "paint" for "kubectl gputopo topology"`)
}
