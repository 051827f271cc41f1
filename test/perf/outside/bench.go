package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup/crd"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// creators is how many objects are created at the same time, as in scheduler_perf.
	creators = 30
	// roundPatience bounds one round.
	roundPatience = 15 * time.Minute
	// crdPatience bounds the time until PodGroups are served; it takes about a second.
	crdPatience = time.Minute
	poll        = 100 * time.Millisecond
)

// bench is one run against one cluster.
type bench struct {
	size    size
	mode    mode
	gates   string
	cluster *simulate.Cluster
	client  kubernetes.Interface
	dynamic dynamic.Interface
	graphs  map[string]*topology.Node
	places  map[string]place // of the nodes
	names   []string         // of the nodes, by number
	// running are the pods of createRunning.
	running []v1.Pod
	// binder is this program, to be run as the binder; binderLog receives what it writes.
	binder, binderLog string
	// profiles is where CPU profiles go, "" for nowhere; profiled is how many there are.
	profiles string
	profiled int
}

// startBench starts the control plane and fills it with what stays for all rounds. The context that it returns ends when a
// process ends that should not. The cluster must be closed, in case of an error too.
func startBench(ctx context.Context, binaries string, b *bench) (context.Context, error) {
	cluster, running, err := simulate.StartCluster(ctx, binaries, func(c *process.ControlPlaneConfig) {
		c.FeatureGates = map[string]bool{genericWorkload: true}
		c.RuntimeConfig = map[string]string{"scheduling.k8s.io/v1beta1": "true"}
	})
	if err != nil {
		return ctx, err
	}
	b.cluster = cluster
	if err := b.connect(); err != nil {
		return running, err
	}
	if _, err := cluster.Install(running); err != nil {
		return running, err
	}
	if err := b.installCRD(running); err != nil {
		return running, err
	}
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := b.client.CoreV1().Namespaces().Create(running, ns, metav1.CreateOptions{}); err != nil {
		return running, err
	}
	return running, b.createNodes(running)
}

func (b *bench) installCRD(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, crdPatience)
	defer cancel()
	return crd.Install(ctx, b.dynamic)
}

// connect makes the clients of the administrator, without limits; the typed one speaks Protobuf, as the scheduler does.
func (b *bench) connect() error {
	config, err := clientConfig(b.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	if b.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	b.client, err = typedClient(config)
	return err
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // the native API is beta, and says so each time
	return config, nil
}

func typedClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

func (b *bench) createNodes(ctx context.Context) error {
	b.graphs, b.places, b.names = map[string]*topology.Node{}, map[string]place{}, make([]string, b.size.Nodes)
	nodes := make([]*v1.Node, b.size.Nodes)
	for i := range nodes {
		n, err := machine.Node(i)
		if err != nil {
			return err
		}
		nodes[i], b.graphs[n.Object.Name], b.places[n.Object.Name] = n.Object, n.Topology, placeOf(i)
		b.names[i] = n.Object.Name
		b.places[n.Object.Name].put(n.Object)
	}
	return inParallel(ctx, len(nodes), func(i int) error {
		_, err := b.client.CoreV1().Nodes().Create(ctx, nodes[i], metav1.CreateOptions{})
		return err
	})
}

// round measures one variant and leaves the nodes empty.
func (b *bench) round(ctx context.Context, v *variant) (Round, error) {
	ctx, cancel := context.WithTimeout(ctx, roundPatience)
	defer cancel()
	if b.mode == backlog {
		if err := take(ctx, b.client, holder); err != nil {
			return Round{}, err
		}
	}
	pid, stop, err := b.start(ctx, v)
	if err != nil {
		return Round{}, err
	}
	r, err := b.measure(ctx, v, pid)
	if err == nil {
		r.Spread, err = b.check(ctx, v)
	}
	if err != nil {
		err = fmt.Errorf("%w\nthe log of the scheduler ends with:\n%s", err, b.cluster.SchedulerLog())
	}
	if err := errors.Join(err, stop()); err != nil {
		return Round{}, fmt.Errorf("%s: %w", v.name, err)
	}
	return r, b.clear(ctx)
}

// start runs what binds the pods and returns its process and how to stop it.
func (b *bench) start(ctx context.Context, v *variant) (pid int, stop func() error, err error) {
	if !v.scheduler {
		p, err := process.Start(ctx, process.Config{
			Path: b.binder, LogFile: b.binderLog, ReadyLine: binderReady,
			Args: []string{binderCommand, "--kubeconfig=" + b.cluster.Kubeconfig, fmt.Sprintf("--places=%d", machine.Count/b.size.GPUs)},
		})
		if err != nil {
			return 0, nil, err
		}
		return p.PID(), func() error { return p.Stop(ctx) }, nil
	}
	gates := fmt.Sprintf("%s=%t", genericWorkload, v.gate)
	if v.plugins && b.gates != "" {
		gates += "," + b.gates
	}
	b.settings(v, gates)
	switch {
	case !v.plugins:
		err = b.cluster.StartScheduler(ctx, simulate.WithoutPlugins)
	case v.flat:
		err = b.cluster.StartScheduler(ctx, simulate.WithoutFabric)
	default:
		err = b.cluster.StartScheduler(ctx)
	}
	_, pid = b.cluster.PIDs()
	return pid, func() error { return b.cluster.StopScheduler(ctx) }, err
}

// settings are for the schedulers of a variant that are started from now on. The binary is ours in all; where it stands for
// kube-scheduler, it collects garbage as that does.
func (b *bench) settings(v *variant, gates string) {
	b.cluster.SchedulerFlags, b.cluster.SchedulerEnv = []string{"--feature-gates=" + gates}, nil
	if !v.plugins {
		b.cluster.SchedulerEnv = []string{"GOGC=100"}
	}
}

// measure has all pods bound.
func (b *bench) measure(ctx context.Context, v *variant, pid int) (Round, error) {
	if b.mode == arrival {
		if err := b.warmUp(ctx, pid); err != nil {
			return Round{}, fmt.Errorf("the first pod: %w", err)
		}
	}
	before, err := b.usage(ctx, pid)
	if err != nil {
		return Round{}, err
	}
	if err := b.createGroups(ctx, v.members); err != nil {
		return Round{}, err
	}
	watched, err := b.watch(ctx, b.size.pods())
	if err != nil {
		return Round{}, err
	}
	begin := time.Now()
	if err := b.createPods(ctx, v.members); err != nil {
		return Round{}, err
	}
	created := time.Since(begin)
	if b.mode == backlog {
		if begin, err = b.letGo(ctx, pid); err != nil {
			return Round{}, err
		}
	}
	profiled := b.profile(ctx, v)
	seen, err := watched()
	if err := errors.Join(err, profiled()); err != nil {
		return Round{}, err
	}
	if err := b.awaitWritten(ctx, v); err != nil {
		return Round{}, err
	}
	if err := awaitIdle(ctx, pid); err != nil {
		return Round{}, err
	}
	after, err := b.usage(ctx, pid)
	if err != nil {
		return Round{}, err
	}
	seconds, perThousand := seen.last().Sub(begin).Seconds(), 1000/float64(b.size.pods())
	attempts := after.attempts.less(before.attempts)
	return Round{
		Variant: v.name, CreateSeconds: created.Seconds(), Seconds: seconds, PodsPerSecond: float64(b.size.pods()) / seconds,
		SchedulerCPU: (after.scheduler - before.scheduler) * perThousand, ServerCPU: (after.server - before.server) * perThousand,
		AttemptP50: attempts.quantile(0.5) * 1000, AttemptP99: attempts.quantile(0.99) * 1000,
		AlgorithmP99: after.algorithm.less(before.algorithm).quantile(0.99) * 1000,
		Writes:       since(before.writes, after.writes),
	}, nil
}

// letGo waits until the scheduler has seen all pods and lets it lead.
func (b *bench) letGo(ctx context.Context, pid int) (time.Time, error) {
	if err := awaitIdle(ctx, pid); err != nil {
		return time.Time{}, err
	}
	if err := release(ctx, b.client); err != nil {
		return time.Time{}, err
	}
	return time.Now(), nil
}

// warmUp has one pod bound and gone: what binds now leads, knows the cluster and has run once.
func (b *bench) warmUp(ctx context.Context, pid int) error {
	watched, err := b.watch(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := b.client.CoreV1().Pods(namespace).Create(ctx, newPod("first", 1), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := watched(); err != nil {
		return err
	}
	if err := b.clearPods(ctx); err != nil {
		return err
	}
	return awaitIdle(ctx, pid)
}

// watch begins to watch for bound pods and returns what waits for them.
func (b *bench) watch(ctx context.Context, want int) (func() (*binds, error), error) {
	list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	var seen *binds
	done := make(chan error, 1)
	go func() {
		var err error
		seen, err = awaitBinds(ctx, b.client, list.ResourceVersion, want)
		done <- err
	}()
	return func() (*binds, error) { err := <-done; return seen, err }, nil
}

// usage is the CPU time in seconds that the processes have used, what the API server was asked to write, and how long the
// scheduler's successful attempts took.
type usage struct {
	scheduler, server float64
	writes            map[string]float64
	// attempts and algorithm are the scheduler's.
	attempts, algorithm histogram
}

func (b *bench) usage(ctx context.Context, pid int) (u usage, err error) {
	if u.writes, err = b.writes(ctx); err != nil {
		return usage{}, err
	}
	if u.scheduler, err = cpuSeconds(pid); err != nil {
		return usage{}, err
	}
	server, scheduler := b.cluster.PIDs()
	if u.server, err = cpuSeconds(server); err != nil || scheduler == 0 {
		return u, err
	}
	text, err := b.cluster.SchedulerMetrics(ctx)
	if err != nil {
		return usage{}, err
	}
	if u.attempts, err = parseHistogram(text, attemptMetric, `result="scheduled"`); err != nil {
		return usage{}, err
	}
	u.algorithm, err = parseHistogram(text, algorithmMetric, "")
	return u, err
}

func (b *bench) createGroups(ctx context.Context, m membership) error {
	return inParallel(ctx, b.size.Gangs, func(i int) error {
		var err error
		switch m {
		case byLabel:
			_, err = b.dynamic.Resource(groupResource).Namespace(namespace).Create(ctx, b.size.crdGroup(i), metav1.CreateOptions{})
		case byField:
			_, err = b.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, b.size.nativeGroup(i), metav1.CreateOptions{})
		case noGang:
		}
		return err
	})
}

func (b *bench) createPods(ctx context.Context, m membership) error {
	return b.createSome(ctx, m, 0, b.size.pods())
}

// createSome creates the pods from one number to before another.
func (b *bench) createSome(ctx context.Context, m membership, from, to int) error {
	return inParallel(ctx, to-from, func(i int) error {
		_, err := b.client.CoreV1().Pods(namespace).Create(ctx, b.size.pod(from+i, m), metav1.CreateOptions{})
		return err
	})
}

// clear deletes pods and groups.
func (b *bench) clear(ctx context.Context) error {
	if err := b.clearPods(ctx); err != nil {
		return err
	}
	return errors.Join(
		b.dynamic.Resource(groupResource).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		b.client.SchedulingV1beta1().PodGroups(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
}

// clearPods deletes all pods at once: there is no kubelet that would end them.
func (b *bench) clearPods(ctx context.Context) error {
	pods := b.client.CoreV1().Pods(namespace)
	for _, grace := range []int64{1, 0} { // with 0 alone it would be a forced delete, after which cards cool down
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(list.Items) == 0, err
	})
}

// inParallel calls do for 0 to n-1 and returns all errors.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, creators, n, func(i int) { errs[i] = do(i) })
	return errors.Join(errors.Join(errs...), ctx.Err())
}
