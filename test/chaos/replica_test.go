package chaos

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/test/chaos/faults"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// The lease of the replicas, short so that leadership changes often. A request that the proxy holds up is over, or dropped,
// before a lease is.
const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
	// sweepPeriod is how often a replica compares its ledger with the pods: as often as its arguments allow, so that sweeps meet
	// what is true for moments only, and must not act on it.
	sweepPeriod = time.Second
)

func replicaName(i int) string {
	if i < 0 {
		return "leader"
	}
	return fmt.Sprintf("replica-%d", i)
}

// replica is one scheduler through all its lives.
type replica struct {
	name   string
	binary string
	dir    string
	proxy  *faults.Proxy
	config string
	// env is added to the process's environment.
	env []string
	// state is the base of the state endpoint.
	state string
	port  string
	// leading is what the sampler saw last.
	leading atomic.Bool

	// mu guards what the sampler reads; the test's goroutine writes.
	mu      sync.Mutex
	process *process.Process
	life    int
	paused  bool
	// probes is the address of /metrics in this life.
	probes string

	killed bool
	// refusals counts the lives in a row that did not get past their start.
	refusals          int
	startAt, resumeAt time.Duration
}

// newReplica starts the proxy and writes the configuration. The process comes with start.
func newReplica(t *testing.T, i int, binary, dir string, d *driver) *replica {
	t.Helper()
	admin, log := d.admin, d.log
	r := &replica{name: replicaName(i), binary: binary, dir: dir}
	if d.steady {
		r.env = []string{fmt.Sprintf("GODEBUG=memprofilerate=%d", profileRate)}
	}
	target, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy, err = faults.Start(target, transport, func(f faults.Fault, request *http.Request) {
		log.add(sawFault, append(aboutRequest(request), r.name), "%s: %s %s %s", r.name, f.Kind, request.Method, request.URL.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.process != nil {
			if err := r.process.Kill(); err != nil {
				t.Error(err)
			}
		}
		if err := r.proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(dir, r.name+".kubeconfig")
	if err := access.WriteKubeconfig(kubeconfig, &rest.Config{Host: r.proxy.URL()}); err != nil {
		t.Fatal(err)
	}
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	r.port = fmt.Sprintf("127.0.0.1:%d", port)
	r.state = "http://" + r.port
	r.config = filepath.Join(dir, r.name+".yaml")
	if err := os.WriteFile(r.config, chaosConfig(t, kubeconfig, d.steady), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// aboutRequest finds the pod that a request names.
func aboutRequest(r *http.Request) []string {
	_, path, ok := strings.Cut(r.URL.Path, "/namespaces/"+namespace+"/pods/")
	if !ok {
		return nil
	}
	name, _, _ := strings.Cut(path, "/")
	return []string{namespace + "/" + name}
}

// chaosConfig is the configuration that ships with every time in it shortened, but for that of the lease where no other
// replica is to lead.
func chaosConfig(t *testing.T, kubeconfig string, steady bool) []byte {
	t.Helper()
	text, err := os.ReadFile(checkout.SchedulerConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	factor := 1
	if steady {
		factor = 5
	}
	times := func(d time.Duration) string { return (d * time.Duration(factor)).String() }
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000}
	config["leaderElection"] = map[string]any{
		"leaderElect": true, "resourceLock": "leases", "resourceName": "gpu-topology-scheduler", "resourceNamespace": namespace,
		"leaseDuration": times(leaseDuration), "renewDeadline": times(renewDeadline), "retryPeriod": times(retryPeriod),
	}
	config["podInitialBackoffSeconds"], config["podMaxBackoffSeconds"] = 1, 2
	args := map[string]map[string]any{
		"GPUTopology": {"reconcilePeriod": sweepPeriod.String()},
		"Coscheduling": {
			"permitTimeout": "10s", "backoffInitial": "500ms", "backoffMax": "2s", "planTTL": "3s", "turnAfter": 4, "turnTimeout": "3s",
		},
	}
	if err := setArgs(config, args); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	return text
}

// setArgs adds arguments to the plugins of every profile. The error says which are never used.
func setArgs(config map[string]any, args map[string]map[string]any) error {
	profiles, ok := config["profiles"].([]any)
	if !ok {
		return fmt.Errorf("profiles: %v", config["profiles"])
	}
	used := map[string]bool{}
	for _, p := range profiles {
		profile, ok := p.(map[string]any)
		if !ok {
			return fmt.Errorf("profiles: %v", p)
		}
		plugins, ok := profile["pluginConfig"].([]any)
		if !ok {
			return fmt.Errorf("pluginConfig: %v", profile["pluginConfig"])
		}
		for _, p := range plugins {
			plugin, ok := p.(map[string]any)
			if !ok {
				return fmt.Errorf("pluginConfig: %v", p)
			}
			name, named := plugin["name"].(string)
			have, ok := plugin["args"].(map[string]any)
			if !ok || !named {
				return fmt.Errorf("pluginConfig: %v", plugin)
			}
			maps.Copy(have, args[name])
			used[name] = true
		}
	}
	for name := range args {
		if !used[name] {
			return fmt.Errorf("the shipped configuration has no arguments for %s", name)
		}
	}
	return nil
}

// lifeName names the current life. The caller holds mu, or is the test's goroutine.
func (r *replica) lifeName() string { return fmt.Sprintf("%s life %03d", r.name, r.life) }

func (r *replica) up() bool { return r.process != nil }

// logFile is the log of the current life.
func (r *replica) logFile() string {
	return filepath.Join(r.dir, fmt.Sprintf("%s.%03d.log", r.name, r.life))
}

// start begins a new life; it does not wait until the scheduler is ready.
func (r *replica) start() error {
	probes, err := process.FreePort()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.life++
	r.killed, r.paused = false, false
	r.probes = fmt.Sprintf("https://127.0.0.1:%d", probes)
	r.process, err = process.Start(context.Background(), process.Config{
		Name: r.name, Path: r.binary, LogFile: r.logFile(), Env: r.env,
		Args: []string{
			"--config=" + r.config, "--gpu-state-bind-address=" + r.port, "--v=2",
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", probes), "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics," + heapPath,
		},
	})
	return err
}

// kill is kill -9. The process is reaped like one that ended by itself.
func (r *replica) kill() error {
	r.killed = true
	return r.process.Kill()
}

func (r *replica) pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
	return stop(r.process.PID())
}

func (r *replica) resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = false
	return proceed(r.process.PID())
}

// The ways in which a life ends.
const (
	exitKilled    = "killed"
	exitLostLease = "lost its lease"
	exitNoStart   = "could not start"
	exitCrash     = "crashed"
	// exitUpstream is how Kubernetes 1.37.2 takes the news that a bound pod was deleted and another one created under its name
	// while the watch was broken: the informer reports an update, and the scheduler's own cache ends the process since the pod
	// has left its node (kubernetes/kubernetes pull request 141255, open). Restarting is the remedy.
	exitUpstream = "ended by the scheduler cache of Kubernetes"
)

type exit struct{ kind, text string }

// reap says how the process ended, once it has.
func (r *replica) reap() (exit, bool) {
	if r.process == nil {
		return exit{}, false
	}
	select {
	case <-r.process.Done():
	default:
		return exit{}, false
	}
	text, err := os.ReadFile(r.logFile())
	if err != nil {
		text = []byte(err.Error())
	}
	reason := classify(r.killed, text)
	r.refusals++
	if reason.kind != exitNoStart {
		r.refusals = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.paused = nil, false
	r.leading.Store(false)
	return reason, true
}

var (
	crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE|\[signal )`)
	// served is what the scheduler logs once it is past its start.
	served = []byte("Attempting to acquire leader lease")
)

// classify reads the reason of an exit from the log.
func classify(killed bool, log []byte) exit {
	at := crashed.FindIndex(log)
	switch {
	case at != nil:
		return exit{exitCrash, string(log[at[0]:min(len(log), at[0]+2000)])}
	case killed:
		return exit{exitKilled, exitKilled}
	case bytes.Contains(log, []byte("leaderelection lost")), bytes.Contains(log, []byte("Leaderelection lost")):
		return exit{exitLostLease, exitLostLease}
	case bytes.Contains(log, []byte("Scheduler cache is corrupted")):
		return exit{exitUpstream, exitUpstream}
	case !bytes.Contains(log, served):
		return exit{exitNoStart, exitNoStart + ": " + lastLine(log)}
	}
	return exit{exitCrash, "it ended by itself: " + lastLine(log)}
}

func lastLine(log []byte) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return string(lines[len(lines)-1])
}
