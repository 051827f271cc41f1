package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// creators is how many objects are created at the same time.
const creators = 16

// roundPatience bounds one round.
const roundPatience = 5 * time.Minute

// ThroughputOptions says what to measure.
type ThroughputOptions struct {
	// Binaries is the directory of the binaries.
	Binaries string
	// Nodes is the number of HGX H100 with 8 GPUs, Pods the number of pods that ask for 1, 2 or 4 of them in turn,
	// Pairs how often both schedulers are measured.
	Nodes, Pods, Pairs int
	// Screen receives what happens.
	Screen *Screen
}

// validate checks the numbers; the pods must fit on the nodes, or the end would never come.
func (o *ThroughputOptions) validate() error {
	asked, largest := 0, 0
	for i := range o.Pods {
		n := benchPod(i).Ask.Count
		asked, largest = asked+n, max(largest, n)
	}
	// However the pods are spread, some node then has room for the largest: the default plugins do not pack.
	room := o.Nodes * (HGXH100.Count - largest + 1)
	switch {
	case o.Nodes < 1 || o.Pods < 2 || o.Pairs < 1:
		return fmt.Errorf("nodes %d, pods %d, pairs %d: must be at least 1, 2 and 1", o.Nodes, o.Pods, o.Pairs)
	case asked > room:
		return fmt.Errorf("%d pods ask for %d GPUs; on %d nodes every pod surely finds room up to %d", o.Pods, asked, o.Nodes, room)
	}
	return nil
}

// Round is one measurement.
type Round struct {
	// Plugins is true with our plugins, false with the default plugins alone.
	Plugins bool
	// Seconds is the time from the first bound pod to the last, PodsPerSecond what follows from it.
	Seconds, PodsPerSecond float64
	// SchedulerCPU and ServerCPU are the CPU time that the scheduler and the API server used for a pod, in
	// milliseconds. On a machine that others use as well they tell more than the rates.
	SchedulerCPU, ServerCPU float64
}

// Throughput binds the same pods on the same nodes by the scheduler that ships and by the same binary without our
// plugins, in turn (ours, default, default, ours, ...), so that a drift of the machine meets both. All pods exist before
// the scheduler starts: their creation limits nothing. It returns all rounds and the ratio of the median rates, ours
// to the default's.
func Throughput(ctx context.Context, o ThroughputOptions) (rounds []Round, ratio float64, err error) {
	if err := o.validate(); err != nil {
		return nil, 0, err
	}
	o.Screen.Step("Starting etcd and kube-apiserver")
	cluster, running, err := StartCluster(ctx, o.Binaries)
	if err != nil {
		return nil, 0, explain(ctx, running, err)
	}
	defer func() { err = errors.Join(err, cluster.Close(), o.Screen.Err()) }()
	b := &bench{o: o, cluster: cluster, graphs: map[string]*topology.Node{}}
	if err := b.prepare(running); err != nil {
		return nil, 0, explain(ctx, running, err)
	}
	for i := range 2 * o.Pairs {
		r, err := b.round(running, i%4 == 0 || i%4 == 3)
		if err != nil {
			return nil, 0, explain(ctx, running, err)
		}
		rounds = append(rounds, r)
	}
	ratio = median(rounds, true, rate) / median(rounds, false, rate)
	o.Screen.Line("\n%s", throughputTable(rounds))
	return rounds, ratio, nil
}

func rate(r *Round) float64         { return r.PodsPerSecond }
func schedulerCPU(r *Round) float64 { return r.SchedulerCPU }
func serverCPU(r *Round) float64    { return r.ServerCPU }

// median returns the median of one figure over the rounds of one kind, 0 without any.
func median(rounds []Round, plugins bool, figure func(*Round) float64) float64 {
	var all []float64
	for i := range rounds {
		if rounds[i].Plugins == plugins {
			all = append(all, figure(&rounds[i]))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

func throughputTable(rounds []Round) string {
	rows := [][]string{{"ROUND", "PLUGINS", "SECONDS", "PODS/S", "SCHEDULER CPU ms/pod", "API SERVER CPU ms/pod"}}
	for i := range rounds {
		r := &rounds[i]
		rows = append(rows, []string{
			strconv.Itoa(i + 1), pluginsName(r.Plugins), fmt.Sprintf("%.2f", r.Seconds), fmt.Sprintf("%.0f", r.PodsPerSecond),
			fmt.Sprintf("%.2f", r.SchedulerCPU), fmt.Sprintf("%.2f", r.ServerCPU),
		})
	}
	text := columns(rows) + "\nmedians:\n"
	for _, f := range []struct {
		name   string
		figure func(*Round) float64
	}{{"pods/s", rate}, {"scheduler CPU ms/pod", schedulerCPU}, {"API server CPU ms/pod", serverCPU}} {
		ours, theirs := median(rounds, true, f.figure), median(rounds, false, f.figure)
		text += fmt.Sprintf("  %s: %.2f with GPUTopology, %.2f with the default plugins alone, ratio %.2f\n", f.name, ours, theirs, ours/theirs)
	}
	return text
}

func pluginsName(ours bool) string {
	if ours {
		return "GPUTopology"
	}
	return "default"
}

// bench is one run.
type bench struct {
	o       ThroughputOptions
	cluster *Cluster
	graphs  map[string]*topology.Node
	metrics *http.Client
}

func (b *bench) prepare(ctx context.Context) error {
	var err error
	if b.metrics, err = metricsClient(b.cluster.admin); err != nil {
		return err
	}
	if _, err := b.cluster.Install(ctx); err != nil {
		return err
	}
	nodes := make([]*v1.Node, b.o.Nodes)
	for i := range nodes {
		n, err := HGXH100.Node(i)
		if err != nil {
			return err
		}
		nodes[i] = n.Object
		b.graphs[n.Object.Name] = n.Topology
	}
	err = inParallel(ctx, len(nodes), func(i int) error {
		_, err := b.cluster.Client.CoreV1().Nodes().Create(ctx, nodes[i], metav1.CreateOptions{})
		return err
	})
	b.o.Screen.Step("Created %d nodes with %d GPUs each", len(nodes), HGXH100.Count)
	return err
}

// benchPod asks for 1, 2 or 4 cards in turn.
func benchPod(i int) Pod { return wholePod("pod-"+strconv.Itoa(i), 1<<(i%3)) }

// round measures one scheduler and leaves the nodes empty.
func (b *bench) round(ctx context.Context, plugins bool) (Round, error) {
	ctx, cancel := context.WithTimeout(ctx, roundPatience)
	defer cancel()
	pods := b.cluster.Client.CoreV1().Pods(workloadNamespace)
	err := inParallel(ctx, b.o.Pods, func(i int) error {
		pod := benchPod(i)
		object, err := pod.Object()
		if err != nil {
			return err
		}
		_, err = pods.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return Round{}, err
	}
	var changes []change
	if !plugins {
		changes = append(changes, WithoutPlugins)
	}
	r, err := b.measure(ctx, changes)
	if err != nil {
		return Round{}, err
	}
	r.Plugins = plugins
	b.o.Screen.Step("%s plugins: %d pods in %.2f s, %.0f pods/s, %.2f ms of scheduler CPU a pod",
		pluginsName(plugins), b.o.Pods, r.Seconds, r.PodsPerSecond, r.SchedulerCPU)
	if err := b.check(ctx, plugins); err != nil {
		return Round{}, err
	}
	if err := b.cluster.StopScheduler(ctx); err != nil {
		return Round{}, err
	}
	return r, b.clear(ctx)
}

// measure starts the scheduler, waits until all pods are bound, and reads what that took.
func (b *bench) measure(ctx context.Context, changes []change) (Round, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	started := make(chan error, 1)
	var before usage
	go func() {
		err := b.cluster.StartScheduler(ctx, changes...)
		if err == nil {
			before, err = b.usage(ctx)
		}
		if err != nil {
			stop()
		}
		started <- err
	}()
	seconds, err := b.awaitAll(watching)
	if starting := <-started; starting != nil {
		return Round{}, starting
	}
	if err != nil {
		return Round{}, b.cluster.withLog(err)
	}
	after, err := b.usage(ctx)
	if err != nil {
		return Round{}, err
	}
	perPod := 1000 / float64(b.o.Pods)
	return Round{
		Seconds: seconds, PodsPerSecond: float64(b.o.Pods-1) / seconds,
		SchedulerCPU: (after.scheduler - before.scheduler) * perPod, ServerCPU: (after.server - before.server) * perPod,
	}, nil
}

// usage is the CPU time in seconds that the processes have used.
type usage struct{ scheduler, server float64 }

func (b *bench) usage(ctx context.Context) (u usage, err error) {
	if u.scheduler, err = cpuSeconds(ctx, b.metrics, b.cluster.schedulerURL); err != nil {
		return usage{}, err
	}
	u.server, err = cpuSeconds(ctx, b.metrics, b.cluster.serverURL)
	return u, err
}

// awaitAll watches the pods until all are bound and returns the seconds from the first to the last.
func (b *bench) awaitAll(ctx context.Context) (float64, error) {
	pods := b.cluster.Client.CoreV1().Pods(workloadNamespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	bound := map[string]bool{}
	var first, last time.Time
	source := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	}
	_, err = watchtools.Until(ctx, list.ResourceVersion, source, func(event watch.Event) (bool, error) {
		pod, ok := event.Object.(*v1.Pod)
		if !ok || pod.Spec.NodeName == "" || bound[pod.Name] {
			return false, nil
		}
		bound[pod.Name] = true
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		return len(bound) == b.o.Pods, nil
	})
	if err != nil {
		return 0, fmt.Errorf("%d of %d pods are bound: %w", len(bound), b.o.Pods, err)
	}
	return last.Sub(first).Seconds(), nil
}

// check reads all records: with our plugins every pod has one, and no card is sold twice.
func (b *bench) check(ctx context.Context, plugins bool) error {
	if !plugins {
		return nil
	}
	c, err := oracle.New(b.graphs)
	if err != nil {
		return err
	}
	list, err := b.cluster.Client.CoreV1().Pods(workloadNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		record, err := recordOf(&list.Items[i])
		if err != nil {
			return err
		}
		if err := c.Place(list.Items[i].Name, record); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes all pods at once: there is no kubelet that would end them.
func (b *bench) clear(ctx context.Context) error {
	pods := b.cluster.Client.CoreV1().Pods(workloadNamespace)
	for _, grace := range []int64{1, 0} { // with 0 alone it would be a forced delete, after which cards cool down
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
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
