package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ControlPlaneConfig says how to run bin/local-control-plane.
type ControlPlaneConfig struct {
	// Binary is the path of local-control-plane. Required.
	Binary string
	// DataDir is made when absent and reused when it exists. Required.
	DataDir string
	// LogFile receives its output, kube-apiserver's log included. Required.
	LogFile string
	// Port of the API server; 0 takes a free one.
	Port int
	// FeatureGates, EmulatedVersion and RuntimeConfig are those of
	// controlplane.Options; APIServerArgs are its ExtraArgs.
	FeatureGates    map[string]bool
	EmulatedVersion string
	RuntimeConfig   map[string]string
	APIServerArgs   []string
}

// ControlPlane is a running bin/local-control-plane.
type ControlPlane struct {
	*Process
	// URL is the API server's address, https://127.0.0.1:PORT.
	URL string
	// Kubeconfig is the path of the cluster-admin kubeconfig.
	Kubeconfig string
}

// controlPlaneReady begins the line that local-control-plane prints; the URL
// and the kubeconfig path follow, separated by spaces.
const controlPlaneReady = "local-control-plane ready: "

// StartControlPlane runs bin/local-control-plane and returns when its API
// server is ready.
func StartControlPlane(ctx context.Context, c ControlPlaneConfig) (*ControlPlane, error) {
	p, err := Start(ctx, Config{
		Path: c.Binary, Args: c.args(), LogFile: c.LogFile,
		ReadyLine: controlPlaneReady, HoldStdin: true,
	})
	if err != nil {
		return nil, err
	}
	url, kubeconfig, ok := strings.Cut(strings.TrimPrefix(p.Line(), controlPlaneReady), " ")
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: line %q names no kubeconfig", p.name, p.Line()), p.Kill())
	}
	return &ControlPlane{Process: p, URL: url, Kubeconfig: kubeconfig}, nil
}

func (c *ControlPlaneConfig) args() []string {
	args := []string{"--data-dir=" + c.DataDir, "--exit-with-stdin"}
	if c.Port != 0 {
		args = append(args, "--port="+strconv.Itoa(c.Port))
	}
	if c.EmulatedVersion != "" {
		args = append(args, "--emulated-version="+c.EmulatedVersion)
	}
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		args = append(args, fmt.Sprintf("--feature-gates=%s=%t", name, c.FeatureGates[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.RuntimeConfig)) {
		args = append(args, "--runtime-config="+name+"="+c.RuntimeConfig[name])
	}
	for _, a := range c.APIServerArgs {
		args = append(args, "--apiserver-arg="+a)
	}
	return args
}

// KWOKConfig says how to run bin/kwok.
type KWOKConfig struct {
	// Binary is the path of kwok. Required.
	Binary string
	// Kubeconfig says which cluster to simulate. Required.
	Kubeconfig string
	// LogFile receives its output. Required.
	LogFile string
	// Stages are kwok configuration files with Stage objects. Stages of a kind
	// (Node or Pod) replace kwok's built-in ones of that kind.
	Stages []string
}

// StartKWOK runs bin/kwok as the kubelet of every node: nodes become Ready and
// keep the allocatable resources they were created with, bound pods Running,
// Running pods owned by a Job Succeeded, and deleted pods go away. It returns
// when kwok has started its controllers.
func StartKWOK(ctx context.Context, c KWOKConfig) (*Process, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--kubeconfig=" + c.Kubeconfig,
		"--manage-all-nodes=true",
		"--node-lease-duration-seconds=0",
		"--server-address=127.0.0.1:" + strconv.Itoa(port),
	}
	for _, f := range c.Stages {
		args = append(args, "--config="+f)
	}
	return Start(ctx, Config{
		Path: c.Binary, Args: args, LogFile: c.LogFile,
		// Without this the user's own ~/.kwok/kwok.yaml would have a say.
		Env:      []string{"KWOK_WORKDIR=" + filepath.Dir(c.LogFile)},
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/readyz", port),
	})
}

// SchedulerConfig says how to run bin/gpu-topology-scheduler.
type SchedulerConfig struct {
	// Binary is the path of the scheduler. Required.
	Binary string
	// Args are its flags: --config and how to reach the cluster. Required.
	Args []string
	// Env is added to the parent's environment, as KEY=value.
	Env []string
	// LogFile receives its output. Required.
	LogFile string
}

// Scheduler is a running bin/gpu-topology-scheduler.
type Scheduler struct {
	*Process
	// URL is the address of its probes and metrics, https://127.0.0.1:PORT.
	URL string
}

// StartScheduler runs the scheduler with its probes on a free loopback port and
// returns when /readyz is ok: its informers and their handlers are in sync.
// Under leader election it may not be the leader yet. Its state endpoint is off unless Args give it an address: several
// schedulers run on one machine.
func StartScheduler(ctx context.Context, c SchedulerConfig) (*Scheduler, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	url := "https://127.0.0.1:" + strconv.Itoa(port)
	p, err := Start(ctx, Config{
		Path:     c.Binary,
		Args:     slices.Concat([]string{"--gpu-state-bind-address=0"}, c.Args, []string{"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port)}),
		Env:      c.Env,
		LogFile:  c.LogFile,
		ReadyURL: url + "/readyz",
	})
	if err != nil {
		return nil, err
	}
	return &Scheduler{Process: p, URL: url}, nil
}
