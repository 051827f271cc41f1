package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
)

func parse(t *testing.T, args ...string) *flags {
	t.Helper()
	var f flags
	fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	f.add(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

// TestExitWithStdin serves until its standard input ends.
func TestExitWithStdin(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "copy.kubeconfig")
	f := parse(t, "--data-dir="+filepath.Join(dir, "data"), "--kubeconfig-out="+out, "--exit-with-stdin")
	stdin, parent := io.Pipe()
	calls := 0
	err := serve(t.Context(), f, stdin, func(url, kubeconfig string) error {
		calls++
		if kubeconfig != out {
			t.Errorf("kubeconfig = %s, want %s", kubeconfig, out)
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return err
		}
		if config.Host != url {
			t.Errorf("server in the kubeconfig = %s, want %s", config.Host, url)
		}
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return err
		}
		if _, err := client.ServerVersion(); err != nil {
			return err
		}
		return parent.Close()
	})
	if err != nil || calls != 1 {
		t.Errorf("serve() = %v after %d calls of ready, want nil after 1", err, calls)
	}
}

func TestServeRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no directory":        {nil, "--data-dir"},
		"gate not a bool":     {[]string{"--data-dir=d", "--feature-gates=A=maybe"}, `A="maybe"`},
		"unknown gate":        {[]string{"--data-dir=d", "--feature-gates=NoSuchGate=true"}, "NoSuchGate"},
		"version too old":     {[]string{"--data-dir=d", "--emulated-version=1.20"}, "1.20"},
		"unknown server flag": {[]string{"--data-dir=d", "--apiserver-arg=--nope"}, "nope"},
	} {
		t.Run(name, func(t *testing.T) {
			err := serve(t.Context(), parse(t, tc.args...), strings.NewReader(""), func(string, string) error {
				t.Error("ready was called")
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("serve() = %v, want an error that says %s", err, tc.want)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	f := parse(t, "--feature-gates=A=true,B=false", "--feature-gates=C=1", "--runtime-config=api/all=true,g/v1=false",
		"--apiserver-arg=--a=1,2", "--apiserver-arg=--b", "--start-timeout=1s", "--port=7")
	gates, err := parseGates(f.gates)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"A": true, "B": false, "C": true}, gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"api/all": "true", "g/v1": "false"}, f.options.RuntimeConfig); diff != "" {
		t.Errorf("runtime config (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--a=1,2", "--b"}, f.options.ExtraArgs); diff != "" {
		t.Errorf("server flags (-want +got):\n%s", diff)
	}
	if f.startTimeout != time.Second || f.options.Port != 7 {
		t.Errorf("start timeout %v and port %d, want 1s and 7", f.startTimeout, f.options.Port)
	}
}
