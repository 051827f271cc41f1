package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// ErrInterrupted means that the caller's context ended before the work did.
var ErrInterrupted = errors.New("interrupted")

// DemoOptions says how to run the demo.
type DemoOptions struct {
	// Binaries is the directory of the binaries.
	Binaries string
	// Screen receives what happens.
	Screen *Screen
	// Keep leaves everything running after the last pod until the context ends.
	Keep bool
}

// demo is one run.
type demo struct {
	screen     *Screen
	cluster    *Cluster
	nodes      []Node
	oracle     *oracle.Cluster
	pods       []Pod
	placements []Placement
	keys       map[string]string
	faults     []error
	gangs      *gangAct
}

// Demo schedules a small workload on a simulated cluster and compares every placement with the oracle's. It returns nil
// only if all are equal. Whatever happens, no process and no file of it is left when it returns.
func Demo(ctx context.Context, o DemoOptions) (err error) {
	if err := findBinaries(o.Binaries); err != nil {
		return err
	}
	d := &demo{screen: o.Screen, pods: demoPods(), keys: map[string]string{}}
	d.screen.Step("Starting etcd and kube-apiserver on loopback, as one process of their own")
	cluster, running, err := StartCluster(ctx, o.Binaries)
	if err != nil {
		return explain(ctx, running, err)
	}
	d.cluster = cluster
	defer func() {
		d.screen.Keep()
		d.screen.Step("Stopping all processes and removing their files")
		err = errors.Join(err, cluster.Close(), d.screen.Err())
	}()
	if err := d.run(running); err != nil {
		return explain(ctx, running, err)
	}
	if o.Keep {
		return d.keep(ctx, running)
	}
	return nil
}

// reapPatience is how much later the end of a process may be seen than the failure of a request to it.
const reapPatience = 300 * time.Millisecond

// explain returns the error that says most: of a process that ended rather than of the request that then failed.
func explain(ctx, running context.Context, err error) error {
	select {
	case <-running.Done():
	case <-time.After(reapPatience):
	}
	switch cause := context.Cause(running); {
	case errors.Is(ctx.Err(), context.Canceled):
		return ErrInterrupted
	case ctx.Err() != nil:
		return fmt.Errorf("out of time: %w", err)
	case cause != nil:
		return cause
	}
	return err
}

func (d *demo) run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	d.screen.Step("Creating %d pods, one after another; a brute-force search checks every choice", len(d.pods))
	d.draw()
	for i := range d.pods {
		if err := d.place(ctx, &d.pods[i]); err != nil {
			return d.cluster.withLog(err)
		}
	}
	d.draw()
	d.screen.Keep()
	if err := d.review(ctx); err != nil {
		return d.cluster.withLog(err)
	}
	if err := d.report(); err != nil {
		return err
	}
	if err := d.gangs.run(ctx); err != nil {
		return d.cluster.withLog(err)
	}
	return nil
}

// prepare brings the cluster to the point where pods can be created.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.cluster.InstallPodGroups(ctx); err != nil {
		return err
	}
	d.screen.Step("Installed the PodGroup API of scheduler-plugins from manifests/crds")
	var err error
	if d.gangs, err = newGangAct(d.screen, d.cluster); err != nil {
		return err
	}
	d.gangs.begin(ctx)
	count, err := d.cluster.Install(ctx)
	if err != nil {
		return err
	}
	d.screen.Step("Applied the %d objects of manifests/base: namespace, service account, RBAC, FlowSchemas", count)
	if err := d.createNodes(ctx); err != nil {
		return err
	}
	if err := d.cluster.StartKubelets(ctx); err != nil {
		return err
	}
	d.screen.Step("Started KWOK, which plays the kubelet of every node")
	if err := d.cluster.StartScheduler(ctx); err != nil {
		return err
	}
	d.screen.Step("Started the scheduler as service account %s/%s with the configuration that ships", schedulerNamespace, schedulerAccount)
	return nil
}

func (d *demo) createNodes(ctx context.Context) error {
	graphs := map[string]*topology.Node{}
	var what []string
	for _, kind := range demoMachines() {
		for i := range kind.count {
			n, err := kind.machine.Node(i)
			if err != nil {
				return err
			}
			if _, err := d.cluster.Client.CoreV1().Nodes().Create(ctx, n.Object, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", n.Object.Name, err)
			}
			d.nodes = append(d.nodes, n)
			graphs[n.Object.Name] = n.Topology
		}
		what = append(what, fmt.Sprintf("%d x %s", kind.count, kind.machine.Title))
	}
	d.screen.Step("Created %d nodes with 8 GPUs each: %s", len(d.nodes), strings.Join(what, "; "))
	var err error
	d.oracle, err = oracle.New(graphs)
	return err
}

// place creates one pod, waits for the scheduler's decision and has the oracle judge it.
func (d *demo) place(ctx context.Context, pod *Pod) error {
	number := len(d.placements)
	object, err := pod.Object()
	if err != nil {
		return err
	}
	decided, err := createPod(ctx, d.cluster.Client, object)
	if err != nil {
		return err
	}
	d.keys[pod.Name] = key(number)
	candidates := d.candidates(pod)
	var placement Placement
	if decided.Spec.NodeName == "" {
		reason := unschedulable(decided)
		placement = Placement{Pod: pod, Reason: reason, Nearest: nearest(reason, gap(pod.Ask, d.oracle.Room(pod.Ask, candidates)))}
		d.fault(judgePending(pod, d.oracle, candidates, reason))
	} else if placement, err = d.judge(pod, decided, candidates); err != nil {
		return err
	}
	d.placements = append(d.placements, placement)
	if d.screen.width == 0 {
		d.screen.Step("%2d/%d %s %s", number+1, len(d.pods), key(number), placement.line())
	}
	d.draw()
	return nil
}

// judge compares a bound pod with the oracle and remembers what it holds.
func (d *demo) judge(pod *Pod, bound *v1.Pod, candidates []string) (Placement, error) {
	record, err := recordOf(bound)
	if err != nil {
		return Placement{}, err
	}
	at := slices.IndexFunc(d.nodes, func(n Node) bool { return n.Object.Name == record.Node })
	if at < 0 {
		return Placement{}, fmt.Errorf("pod %s is bound to node %s, which does not exist", pod.Name, record.Node)
	}
	if !pod.Fits {
		d.fault(fmt.Errorf("pod %s is bound to node %s, but it must not fit anywhere", pod.Name, record.Node))
	}
	d.fault(d.oracle.Judge(pod.Name, pod.Ask, candidates, record))
	placement := placementOf(pod, record, d.nodes[at], d.oracle)
	d.fault(d.oracle.Place(pod.Name, record))
	return placement, nil
}

// judgePending checks that no node could hold a pod that is Pending, and that the reason says what is missing.
func judgePending(pod *Pod, c *oracle.Cluster, candidates []string, reason string) error {
	if fitting := c.Fitting(pod.Ask, candidates); len(fitting) > 0 {
		return fmt.Errorf("pod %s is Pending (%s), but it fits on %s", pod.Name, reason, strings.Join(fitting, ", "))
	}
	if want := gap(pod.Ask, c.Room(pod.Ask, candidates)); !strings.Contains(reason, want) {
		return fmt.Errorf("pod %s: the reason %q does not say %q", pod.Name, reason, want)
	}
	return nil
}

// gap is what the reason of a pod that does not fit must say: how much the best node has of what it needs.
func gap(ask oracle.Ask, room int) string {
	noun := "whole GPU"
	switch ask.Kind {
	case oracle.Share:
		noun = "GPU"
	case oracle.MIG:
		noun = "MIG instance"
	case oracle.Whole:
	}
	if ask.Count != 1 {
		noun += "s"
	}
	have := fmt.Sprintf("%d of %d %s", room, ask.Count, noun)
	switch ask.Kind {
	case oracle.Share:
		return "on " + have
	case oracle.MIG:
		return have + " " + ask.Profile + " free"
	case oracle.Whole:
	}
	return have + " free"
}

// nearest cuts what the reason says of the best node out of what it says of all nodes; the whole reason where it does not
// say the gap.
func nearest(reason, gap string) string {
	const subject = "node(s) "
	end := strings.Index(reason, gap)
	if end < 0 {
		return reason
	}
	start := 0
	if at := strings.LastIndex(reason[:end], subject); at >= 0 {
		start = at + len(subject)
	}
	return reason[start:end] + gap
}

func (d *demo) candidates(pod *Pod) []string {
	var names []string
	for i := range d.nodes {
		if pod.Machine == nil || pod.Machine.Name == d.nodes[i].Machine.Name {
			names = append(names, d.nodes[i].Object.Name)
		}
	}
	return names
}

func (d *demo) fault(err error) {
	if err != nil {
		d.faults = append(d.faults, err)
	}
}

func (d *demo) draw() {
	d.screen.Area(append(board(d.nodes, d.oracle, d.keys), "", d.progress()))
}

func (d *demo) progress() string {
	n := len(d.placements)
	if n == 0 {
		return fmt.Sprintf("0 of %d pods", len(d.pods))
	}
	return fmt.Sprintf("%d of %d pods; %s %s", n, len(d.pods), key(n-1), d.placements[n-1].line())
}
