package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// flag is what a user sees of one.
type flag struct{ Type, Default, Usage, Shorthand, Deprecated string }

func flagsOf(c *cobra.Command) map[string]flag {
	out := map[string]flag{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		out[f.Name] = flag{f.Value.Type(), f.DefValue, strings.ReplaceAll(f.Usage, "kube-scheduler", c.Name()), f.Shorthand, f.Deprecated}
	})
	return out
}

// TestFlagsAreUpstreams: whoever runs kube-scheduler can run this with the same flags.
func TestFlagsAreUpstreams(t *testing.T) {
	ours, theirs := New("gpu-topology-scheduler", func() bool { return false }), app.NewSchedulerCommand()
	theirs.Use = ours.Use
	want := flagsOf(theirs)
	if len(want) < 30 {
		t.Fatalf("kube-scheduler has %d flags: the test shows nothing", len(want))
	}
	if diff := cmp.Diff(want, flagsOf(ours)); diff != "" {
		t.Errorf("flags (-kube-scheduler +ours):\n%s", diff)
	}
	if ours.PersistentPreRunE == nil || theirs.PersistentPreRunE == nil {
		t.Error("one of the commands does not set its gates before it runs")
	}
}

// TestBadCommandLines: each fault ends the command with a sentence about it, before anything is started.
func TestBadCommandLines(t *testing.T) {
	tests := []struct{ name, arg, want string }{
		{"an argument", "now", `"now"`},
		{"an unknown flag", "--now", "--now"},
		{"a log format", "--logging-format=smoke", "smoke"},
		{"no such config file", "--config=/nonexistent/config.yaml", "/nonexistent/config.yaml"},
		{"an unknown gate", "--feature-gates=NoSuchGate=true", "NoSuchGate"}, // the last: gates belong to the process
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New("gpu-topology-scheduler", func() bool { return false })
			var out bytes.Buffer
			c.SetArgs([]string{tt.arg})
			c.SetOut(&out)
			c.SetErr(&out)
			c.SilenceUsage = true
			if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that names %s", err, tt.want)
			}
		})
	}
}

func TestHelpNamesTheCommand(t *testing.T) {
	c := New("gpu-topology-scheduler", func() bool { return false })
	var out bytes.Buffer
	c.SetArgs([]string{"--help"})
	c.SetOut(&out)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpu-topology-scheduler", "--config", "--leader-elect", "--feature-gates", "Global flags"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not mention %q:\n%s", want, out.String())
		}
	}
}
