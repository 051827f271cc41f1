package simulate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup/crd"
)

const (
	// stopPatience bounds the end of all processes.
	stopPatience = 30 * time.Second
	// logLines is how much of a log stands in an error.
	logLines = 15
)

// The names of the binaries.
const (
	controlPlaneBinary = "local-control-plane"
	kwokBinary         = "kwok"
	schedulerBinary    = "gpu-topology-scheduler"
)

// Cluster is a control plane on loopback and what runs against it. Its methods are for one goroutine.
type Cluster struct {
	// Kubeconfig is the path of the administrator's kubeconfig, Client a client with it.
	Kubeconfig string
	Client     kubernetes.Interface
	// SchedulerFlags are further flags for the schedulers that are started from now on.
	SchedulerFlags []string
	// SchedulerEnv is added to their environment, as KEY=value.
	SchedulerEnv []string

	binaries  string
	dir       string
	base      fs.FS
	admin     *rest.Config
	scheduler *child
	// schedulerURL is the address of the running scheduler's metrics, serverURL that of the API server.
	schedulerURL, serverURL string
	others                  []*child // in the order of their start

	fail    context.CancelCauseFunc
	watches sync.WaitGroup
}

// child is one process.
type child struct {
	*process.Process
	// leaving is set before the process is asked to end.
	leaving atomic.Bool
}

// StartCluster starts a control plane, with the changes to how it is run, from the binaries in a directory. The context
// that it returns ends with ctx and when a process ends that should not: context.Cause says which one and why.
// Close must be called in either case.
func StartCluster(ctx context.Context, binaries string, changes ...func(*process.ControlPlaneConfig)) (*Cluster, context.Context, error) {
	if err := findBinaries(binaries); err != nil {
		return nil, ctx, err
	}
	base, err := manifests.Base()
	if err != nil {
		return nil, ctx, err
	}
	dir, err := os.MkdirTemp("", "gputopo-")
	if err != nil {
		return nil, ctx, err
	}
	running, fail := context.WithCancelCause(ctx)
	c := &Cluster{binaries: binaries, dir: dir, base: base, fail: fail}
	if err := c.startControlPlane(running, changes); err != nil {
		return nil, ctx, errors.Join(err, c.Close())
	}
	return c, running, nil
}

// findBinaries says what to do where a binary is missing.
func findBinaries(dir string) error {
	for _, name := range []string{controlPlaneBinary, kwokBinary, schedulerBinary} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%w: run `make build`, or name the directory of the binaries with --binaries", err)
		}
	}
	return nil
}

func (c *Cluster) startControlPlane(ctx context.Context, changes []func(*process.ControlPlaneConfig)) error {
	config := process.ControlPlaneConfig{
		Binary:  filepath.Join(c.binaries, controlPlaneBinary),
		DataDir: filepath.Join(c.dir, "control-plane"),
		LogFile: c.LogFile(controlPlaneBinary),
	}
	for _, change := range changes {
		change(&config)
	}
	plane, err := process.StartControlPlane(ctx, config)
	if err != nil {
		return err
	}
	c.others = append(c.others, c.watch(controlPlaneBinary, plane.Process))
	c.Kubeconfig, c.serverURL = plane.Kubeconfig, plane.URL
	if c.admin, err = clientcmd.BuildConfigFromFlags("", plane.Kubeconfig); err != nil {
		return err
	}
	c.admin.QPS = -1 // the server is ours alone: no client-side limit
	c.Client, err = kubernetes.NewForConfig(c.admin)
	return err
}

// Install applies the objects of manifests/base and returns how many there are.
func (c *Cluster) Install(ctx context.Context) (int, error) {
	objects, err := shippedObjects(c.base)
	if err != nil {
		return 0, err
	}
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return 0, err
	}
	return len(objects), apply(ctx, client, objects)
}

// InstallPodGroups makes the cluster serve the PodGroups of scheduling.x-k8s.io. A scheduler that starts later finds them at
// once.
func (c *Cluster) InstallPodGroups(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	return crd.Install(ctx, client)
}

// StartKubelets starts KWOK, which keeps nodes Ready and makes bound pods Running.
func (c *Cluster) StartKubelets(ctx context.Context) error {
	kwok, err := process.StartKWOK(ctx, process.KWOKConfig{
		Binary:     filepath.Join(c.binaries, kwokBinary),
		Kubeconfig: c.Kubeconfig,
		LogFile:    c.LogFile(kwokBinary),
	})
	if err != nil {
		return err
	}
	c.others = append(c.others, c.watch(kwokBinary, kwok))
	return nil
}

// StartScheduler starts the scheduler under the service account that ships, with the configuration that ships and the
// changes, and returns when its caches are in sync. Install must have been called.
func (c *Cluster) StartScheduler(ctx context.Context, changes ...change) error {
	scheduler, err := c.StartReplica(ctx, schedulerBinary, changes...)
	if err != nil {
		return err
	}
	c.scheduler, c.schedulerURL = c.watch(schedulerBinary, scheduler.Process), scheduler.URL
	return nil
}

// StartReplica starts a scheduler in the same way and leaves it to the caller, who ends it before Close: it may be killed, and
// there may be several. Its log is LogFile(name).
func (c *Cluster) StartReplica(ctx context.Context, name string, changes ...change) (*process.Scheduler, error) {
	account, err := access.ServiceAccount(ctx, c.admin, schedulerNamespace, schedulerAccount, access.DefaultTokenLife)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(c.dir, name+".kubeconfig")
	if err := access.WriteKubeconfig(kubeconfig, account); err != nil {
		return nil, err
	}
	shipped, err := fs.ReadFile(c.base, manifests.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	config, err := DeriveConfig(shipped, append(changes, withKubeconfig(kubeconfig))...)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, name+".yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	return process.StartScheduler(ctx, process.SchedulerConfig{
		Binary:  filepath.Join(c.binaries, schedulerBinary),
		LogFile: c.LogFile(name),
		Env:     c.SchedulerEnv,
		Args: append([]string{
			"--config=" + path, "--v=2",
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		}, c.SchedulerFlags...),
	})
}

// StopScheduler stops the scheduler, if it runs, and waits for its end.
func (c *Cluster) StopScheduler(ctx context.Context) error {
	if c.scheduler == nil {
		return nil
	}
	leaving := c.scheduler
	c.scheduler = nil
	return leaving.stop(ctx)
}

func (c *child) stop(ctx context.Context) error {
	c.leaving.Store(true)
	return c.Stop(ctx)
}

// PIDs returns the ids of the processes of the control plane and of the scheduler, 0 where that does not run.
func (c *Cluster) PIDs() (controlPlane, scheduler int) {
	if c.scheduler != nil {
		scheduler = c.scheduler.PID()
	}
	return c.others[0].PID(), scheduler
}

// SchedulerLog returns the last lines of the scheduler's log; empty where it does not run.
func (c *Cluster) SchedulerLog() string {
	if c.scheduler == nil {
		return ""
	}
	return lastLines(c.scheduler.Tail(), logLines)
}

// withLog adds the end of the scheduler's log to an error that only the scheduler can explain.
func (c *Cluster) withLog(err error) error {
	if log := c.SchedulerLog(); log != "" {
		return fmt.Errorf("%w\nthe log of %s ends with:\n%s", err, schedulerBinary, log)
	}
	return err
}

// Close stops all processes, the control plane last, and removes their files.
func (c *Cluster) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	errs := []error{c.StopScheduler(ctx)}
	for _, other := range slices.Backward(c.others) {
		errs = append(errs, other.stop(ctx))
	}
	c.watches.Wait()
	c.fail(nil)
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// LogFile is where the process of a name writes its log.
func (c *Cluster) LogFile(name string) string { return filepath.Join(c.dir, name+".log") }

// watch ends the cluster's context when the process ends without having been asked to.
func (c *Cluster) watch(name string, p *process.Process) *child {
	watched := &child{Process: p}
	c.watches.Add(1)
	go func() {
		defer c.watches.Done()
		<-p.Done()
		if !watched.leaving.Load() {
			c.fail(fmt.Errorf("%s ended by itself (%w); its log ends with:\n%s", name, exit(p.Err()), lastLines(p.Tail(), logLines)))
		}
	}()
	return watched
}

var errExitZero = errors.New("exit status 0")

func exit(err error) error {
	if err == nil {
		return errExitZero
	}
	return err
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
