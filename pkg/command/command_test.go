package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func idle() bool { return false }

func TestMain(m *testing.M) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // the commands of one process share its log
	os.Exit(m.Run())
}

// flag is what a user and a shell's completion see of one.
type flag struct {
	Type, Default, Usage, Shorthand, Deprecated, NoOptDefault string
	Hidden                                                    bool
	Annotations                                               map[string][]string
}

func flagsOf(c *cobra.Command) map[string]flag {
	out := map[string]flag{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		usage := strings.ReplaceAll(f.Usage, "kube-scheduler", c.Name())
		out[f.Name] = flag{f.Value.Type(), f.DefValue, usage, f.Shorthand, f.Deprecated, f.NoOptDefVal, f.Hidden, f.Annotations}
	})
	return out
}

// TestFlagsAreUpstreams: whoever runs kube-scheduler can run this with the same flags.
func TestFlagsAreUpstreams(t *testing.T) {
	ours, theirs := New("gpu-topology-scheduler", idle), app.NewSchedulerCommand()
	theirs.Use = ours.Use
	want := flagsOf(theirs)
	if len(want) < 30 {
		t.Fatalf("kube-scheduler has %d flags: the test shows nothing", len(want))
	}
	if diff := cmp.Diff(want, flagsOf(ours)); diff != "" {
		t.Errorf("flags (-kube-scheduler +ours):\n%s", diff)
	}
}

// execute runs the command with one argument and returns what it says.
func execute(t *testing.T, arg string) (string, error) {
	t.Helper()
	c := New("gpu-topology-scheduler", idle)
	var out bytes.Buffer
	c.SetArgs([]string{arg})
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceUsage = true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// TestBadCommandLines: each fault ends the command with a sentence about it, before anything is started.
func TestBadCommandLines(t *testing.T) {
	tests := map[string]struct{ arg, want string }{
		"an argument":         {"now", `"now"`},
		"an unknown flag":     {"--now", "--now"},
		"a log format":        {"--logging-format=smoke", "smoke"},
		"no such config file": {"--config=/nonexistent/config.yaml", "/nonexistent/config.yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, tt.arg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that names %s", err, tt.want)
			}
		})
	}
}

// TestEmptyArgument: a template that leaves an empty argument is no fault of whoever runs it.
func TestEmptyArgument(t *testing.T) {
	if err := noArguments(New("gpu-topology-scheduler", idle), []string{"", ""}); err != nil {
		t.Error(err)
	}
}

func TestHelpNamesTheCommand(t *testing.T) {
	out, err := execute(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpu-topology-scheduler", "--config", "--leader-elect", "--feature-gates", "Global flags"} {
		if !strings.Contains(out, want) {
			t.Errorf("the help does not mention %q:\n%s", want, out)
		}
	}
}
