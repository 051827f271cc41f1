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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// gangPatience bounds the wait for what gangs do next. A gang that failed rests for seconds before it is tried again.
	gangPatience = 30 * time.Second
	groupPoll    = 50 * time.Millisecond
)

// gangAct is the second act: more gangs than fit, until one of them ends.
type gangAct struct {
	screen  *Screen
	cluster *Cluster
	groups  dynamic.ResourceInterface
	gangs   []gang
	nodes   []Node
	names   []string // of the nodes

	// created receives the outcome of begin.
	created chan error
	// witness knows the pods up to version. judged holds the cards of the gangs that were judged, in standings.
	witness   *witness
	version   string
	judged    *oracle.Cluster
	standings []standing
	placed    int // pods that were judged
	keys      map[string]string
}

func newGangAct(screen *Screen, cluster *Cluster) (*gangAct, error) {
	client, err := dynamic.NewForConfig(cluster.admin)
	if err != nil {
		return nil, err
	}
	a := &gangAct{
		screen: screen, cluster: cluster, groups: client.Resource(podGroups).Namespace(workloadNamespace),
		gangs: demoGangs(), keys: map[string]string{}, created: make(chan error, 1),
	}
	graphs := map[string]*topology.Node{}
	for i := range gangNodes {
		n, err := gangMachine.Node(i)
		if err != nil {
			return nil, err
		}
		a.nodes, a.names = append(a.nodes, n), append(a.names, n.Object.Name)
		graphs[n.Object.Name] = n.Topology
	}
	wire(a.nodes)
	for i := range a.gangs {
		a.standings = append(a.standings, standing{gang: &a.gangs[i]})
		for rank := range a.gangs[i].size {
			a.keys[a.gangs[i].member(rank)] = key(i)
		}
	}
	if a.judged, err = oracle.New(graphs); err != nil {
		return nil, err
	}
	held, err := oracle.New(graphs)
	a.witness = newWitness(held)
	return a, err
}

// begin creates the PodGroups beside what comes before the act: an API server puts off the objects of an API that is less
// than two seconds old.
func (a *gangAct) begin(ctx context.Context) {
	go func() {
		a.created <- inParallel(ctx, len(a.gangs), func(i int) error {
			if _, err := a.groups.Create(ctx, a.gangs[i].group(), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create PodGroup %s: %w", a.gangs[i].name, err)
			}
			return nil
		})
	}()
}

// run plays the act, after begin. It returns nil only if everything was as it must be.
func (a *gangAct) run(ctx context.Context) error {
	for i := range a.nodes {
		if _, err := a.cluster.Client.CoreV1().Nodes().Create(ctx, a.nodes[i].Object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", a.names[i], err)
		}
	}
	a.screen.Step("Created %d more nodes with %d GPUs each: %s; in turn below %d leaf switches of one spine",
		len(a.nodes), gangMachine.Count, gangMachine.Title, gangLeaves)
	pods, cards := a.gangs[0].room(a.judged, a.names)
	fit := pods / a.gangs[0].size
	a.screen.Step("Creating %d gangs of %d pods x %d GPUs, one pod of each in turn: %d GPUs are free, %d gangs fit",
		len(a.gangs), a.gangs[0].size, a.gangs[0].cards, cards, fit)
	if err := a.create(ctx); err != nil {
		return err
	}
	if err := a.settle(ctx, fit, 0); err != nil {
		return err
	}
	a.show()
	if err := a.finish(ctx); err != nil {
		return err
	}
	if err := a.settle(ctx, fit, 1); err != nil {
		return err
	}
	a.show()
	a.screen.Line("All %d placements equal those of the brute-force search, no card was held twice at any moment, each gang ran whole or held nothing,\n"+
		"below one leaf, with contiguous ranks on every node, and the layout on its PodGroup is that of its pods.", a.placed)
	return nil
}

// create makes the pods of all gangs in turn: bound one by one as they come, no gang would become whole.
func (a *gangAct) create(ctx context.Context) error {
	if err := <-a.created; err != nil {
		return err
	}
	pods := a.cluster.Client.CoreV1().Pods(workloadNamespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	a.version = list.ResourceVersion
	for rank := range a.gangs[0].size {
		for i := range a.gangs {
			pod, err := a.gangs[i].pod(rank)
			if err != nil {
				return err
			}
			if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s: %w", pod.Name, err)
			}
		}
	}
	return nil
}

// settle waits until as many gangs as fit run whole, so many have ended and every other one says why it waits, and judges
// what they got.
func (a *gangAct) settle(ctx context.Context, fit, over int) error {
	what := fmt.Sprintf("%d gangs run, %d have ended and the others say why they wait", fit, over)
	if err := a.await(ctx, what, func() bool { return a.settled(fit, over) }); err != nil {
		return err
	}
	if err := a.judge(); err != nil {
		return err
	}
	if err := a.awaitGroups(ctx); err != nil {
		return err
	}
	for i := range a.standings {
		s := &a.standings[i]
		if s.state.phase != phaseWaiting {
			continue
		}
		told := func(pod *v1.Pod) bool { return waiting(pod) && strings.Contains(unschedulable(pod), s.state.reason) }
		what := fmt.Sprintf("every pod of gang %s says %q", s.gang.name, s.state.reason)
		if err := a.await(ctx, what, func() bool { return a.witness.all(s.gang, told) }); err != nil {
			return err
		}
	}
	return errors.Join(a.witness.faults...)
}

func (a *gangAct) settled(fit, over int) bool {
	gangs := func(meets func(*v1.Pod) bool) (n int) {
		for i := range a.gangs {
			if a.witness.all(&a.gangs[i], meets) {
				n++
			}
		}
		return n
	}
	return gangs(running) == fit && gangs(ended) == over && gangs(waiting) == len(a.gangs)-fit-over
}

// judge reads the records of all gangs and judges those that run since the last time.
func (a *gangAct) judge() error {
	faults := slices.Clone(a.witness.faults)
	for i := range a.standings {
		s := &a.standings[i]
		all, err := seats(s.gang, a.witness.of(s.gang), a.nodes, a.judged)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		switch {
		case len(all) == 0:
			s.want = phaseWaiting
		case a.witness.all(s.gang, ended):
			s.want = phaseFinished
		case s.want != phaseRunning:
			s.want, s.seats, s.layout, s.way = phaseRunning, all, layoutOf(all), wayOf(all, a.judged)
			a.placed += len(all)
			faults = append(faults, judgeLeaves(s.gang, all, a.judged, a.nodes))
			faults = append(faults, judge(s.gang, all, a.judged, a.names)...)
		}
	}
	return errors.Join(faults...)
}

// await follows the pods until done says so.
func (a *gangAct) await(ctx context.Context, what string, done func() bool) error {
	if done() {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, gangPatience)
	defer cancel()
	source := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = v1alpha1.PodGroupLabel
			return a.cluster.Client.CoreV1().Pods(workloadNamespace).Watch(ctx, options)
		},
	}
	_, err := watchtools.Until(waiting, a.version, source, func(event watch.Event) (bool, error) {
		pod, err := memberOf(event)
		if err != nil {
			return false, err
		}
		a.version = pod.ResourceVersion
		a.witness.see(event.Type, pod)
		a.draw()
		return done() || len(a.witness.faults) > 0, nil
	})
	if err != nil {
		return fmt.Errorf("it did not happen that %s (%s): %w", what, a.progress(), errors.Join(errors.Join(a.witness.faults...), err))
	}
	return nil
}

// awaitGroups waits until the PodGroups say what the pods show.
func (a *gangAct) awaitGroups(ctx context.Context) error {
	for i := range a.standings {
		s := &a.standings[i]
		var parts []string
		if s.want == phaseWaiting {
			parts = s.gang.shortage(a.judged, a.names)
		}
		err := wait.PollUntilContextTimeout(ctx, groupPoll, gangPatience, true, func(ctx context.Context) (bool, error) {
			o, err := a.groups.Get(ctx, s.gang.name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			s.state, err = groupStateOf(o)
			return s.state.fits(s.gang, s.want, parts) && s.laidOut(), err
		})
		if err != nil {
			return fmt.Errorf("PodGroup %s has %v, want phase %q with a reason that says %q and, if it runs, layout %+v: %w",
				s.gang.name, s.state, s.want, parts, s.layout, err)
		}
	}
	return nil
}

// finish has the pods of the first gang that runs end, as their kubelets would say it, and takes their cards back.
func (a *gangAct) finish(ctx context.Context) error {
	for i := range a.standings {
		g := a.standings[i].gang
		if a.standings[i].want != phaseRunning {
			continue
		}
		a.screen.Step("The %d pods of %s end with success", g.size, g.name)
		pods := a.cluster.Client.CoreV1().Pods(workloadNamespace)
		patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, v1.PodSucceeded)
		err := inParallel(ctx, g.size, func(rank int) error {
			_, err := pods.Patch(ctx, g.member(rank), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
			return err
		})
		for rank := range g.size {
			a.judged.Remove(g.member(rank))
		}
		return err
	}
	return errors.New("no gang runs")
}

func (a *gangAct) draw() {
	a.screen.Area(append(board(a.nodes, a.witness.held, a.keys), "", a.progress()))
}

// progress says how far every gang is.
func (a *gangAct) progress() string {
	var parts []string
	for i := range a.gangs {
		g := &a.gangs[i]
		parts = append(parts, fmt.Sprintf("%s %s: %d of %d bound, %d ended", key(i), g.name, a.witness.count(g, bound), g.size, a.witness.count(g, ended)))
	}
	return strings.Join(parts, "; ")
}

// show writes the table of all gangs, why those wait that do, and the fabric below those that run.
func (a *gangAct) show() {
	a.screen.Keep()
	a.screen.Line("\n%s\n%s", gangTable(a.standings), fabricTable(a.standings))
}
