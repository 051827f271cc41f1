package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
)

// flags are the command's own; kube-apiserver's pass through --apiserver-arg.
type flags struct {
	options       controlplane.Options
	gates         map[string]string
	kubeconfigOut string
	exitWithStdin bool
	startTimeout  time.Duration
	stopTimeout   time.Duration
}

func (f *flags) add(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringVar(&o.DataDir, "data-dir", "", "directory for etcd's data, certificates and admin.kubeconfig; reused when it exists (required)")
	fs.IntVar(&o.Port, "port", 0, "loopback port of the API server; 0 takes a free one")
	fs.StringToStringVar(&f.gates, "feature-gates", nil, "kube-apiserver feature gates, NAME=true|false,...")
	fs.StringVar(&o.EmulatedVersion, "emulated-version", "", "minor version to emulate, for example 1.34; empty for its own")
	fs.StringToStringVar(&o.RuntimeConfig, "runtime-config", nil, "API versions to switch on or off, GROUP/VERSION=true|false,...")
	fs.StringArrayVar(&o.ExtraArgs, "apiserver-arg", nil, "further kube-apiserver flag, for example --apiserver-arg=--event-ttl=10m; may be repeated")
	fs.StringVar(&f.kubeconfigOut, "kubeconfig-out", "", "also write the admin kubeconfig here")
	fs.BoolVar(&f.exitWithStdin, "exit-with-stdin", false, "stop when standard input ends")
	fs.DurationVar(&f.startTimeout, "start-timeout", 2*time.Minute, "give up when the API server is not ready after this time")
	fs.DurationVar(&f.stopTimeout, "stop-timeout", 10*time.Second, "leave after this time even when the API server has not drained")
}

// serve runs a control plane until ctx ends, stdin ends (if asked) or the
// control plane fails. ready is called once with its URL and kubeconfig.
func serve(ctx context.Context, f *flags, stdin io.Reader, ready func(url, kubeconfig string) error) (err error) {
	if f.options.DataDir == "" {
		return errors.New("--data-dir: must not be empty")
	}
	if f.options.FeatureGates, err = parseGates(f.gates); err != nil {
		return err
	}
	f.options.Log = os.Stderr
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f.exitWithStdin {
		go func() {
			defer cancel()
			if _, err := io.Copy(io.Discard, stdin); err != nil {
				klog.ErrorS(err, "Standard input ended")
			}
		}()
	}
	starting, started := context.WithTimeout(ctx, f.startTimeout)
	defer started()
	c, err := controlplane.Start(starting, f.options)
	if err != nil {
		return err
	}
	defer func() {
		stopping, stopped := context.WithTimeout(context.WithoutCancel(ctx), f.stopTimeout)
		defer stopped()
		err = errors.Join(err, c.Stop(stopping))
	}()
	kubeconfig := c.Kubeconfig()
	if f.kubeconfigOut != "" {
		kubeconfig = f.kubeconfigOut
		if err := access.WriteKubeconfig(kubeconfig, c.RESTConfig()); err != nil {
			return err
		}
	}
	if err := ready(c.URL(), kubeconfig); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-c.Done():
	}
	return nil
}

func parseGates(in map[string]string) (map[string]bool, error) {
	out := make(map[string]bool, len(in))
	for name, text := range in {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("--feature-gates: %s=%q is neither true nor false", name, text)
		}
		out[name] = on
	}
	return out, nil
}
