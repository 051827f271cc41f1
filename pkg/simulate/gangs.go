package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
)

// podGroups are the PodGroups of scheduling.x-k8s.io.
var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// The phases of a PodGroup that the demo comes to see.
const (
	phaseWaiting  = "PreScheduling" // all members exist, none has a place
	phaseRunning  = "Running"
	phaseFinished = "Finished"
)

// gangMachine is the kind of machine on which gangs run. A pod that waits when the first of them is created must not fit on
// it.
var gangMachine = Machine{
	Name: "v100-32g", Title: "DGX-1 V100 32 GB, hybrid cube mesh", Product: "Tesla V100-SXM2-32GB", Count: 8, VRAMBytes: 32510 * mib,
}

// gangNodes is the number of those machines.
const gangNodes = 8

// gang is a PodGroup of equal pods that run together or not at all.
type gang struct {
	name string
	// size is the number of pods, cards what each asks for.
	size, cards int
	machine     *Machine
}

// demoGangs are the gangs of the demo: two of them take all cards of its machines.
func demoGangs() []gang {
	var gangs []gang
	for _, name := range []string{"train-a", "train-b", "train-c"} {
		gangs = append(gangs, gang{name: name, size: 8, cards: 4, machine: &gangMachine})
	}
	return gangs
}

// group builds the PodGroup.
func (g *gang) group() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(g.size)}}}
	o.SetGroupVersionKind(podGroups.GroupVersion().WithKind("PodGroup"))
	o.SetNamespace(workloadNamespace)
	o.SetName(g.name)
	return o
}

// path is what records call the gang.
func (g *gang) path() string { return workloadNamespace + "/" + g.name }

func (g *gang) member(rank int) string { return g.name + "-" + strconv.Itoa(rank) }

func (g *gang) ask() oracle.Ask { return oracle.Ask{Kind: oracle.Whole, Count: g.cards} }

// pod builds the member of a rank.
func (g *gang) pod(rank int) (*v1.Pod, error) {
	p := only(g.machine, wholePod(g.member(rank), g.cards))
	object, err := p.Object()
	if err != nil {
		return nil, err
	}
	object.Labels = map[string]string{v1alpha1.PodGroupLabel: g.name}
	object.Annotations = map[string]string{v1alpha1.RankAnnotation: strconv.Itoa(rank)}
	return object, nil
}

// room returns how many pods of the gang the free cards of the nodes hold, and the number of those cards.
func (g *gang) room(c *oracle.Cluster, nodes []string) (pods, free int) {
	for _, name := range nodes {
		n := c.Free(name).Len()
		pods, free = pods+n/g.cards, free+n
	}
	return pods, free
}

// shortage is what the reason of a gang that waits must say, in parts: how many of its pods have a place, what is free and
// what it needs.
func (g *gang) shortage(c *oracle.Cluster, nodes []string) []string {
	pods, free := g.room(c, nodes)
	return []string{
		"gang " + g.path(),
		fmt.Sprintf("%d of %d pods can be placed", min(pods, g.size), g.size),
		fmt.Sprintf("%d of %d are free, %d are needed", free, len(nodes)*g.machine.Count, g.size*g.cards),
	}
}

// groupState is what a PodGroup's status and annotations say.
type groupState struct {
	phase              string
	running, succeeded int64
	// reason is why the gang waits, empty if nobody says that it does.
	reason string
	// layout is where its members are, as v1alpha1.ParseLayout reads it.
	layout string
}

func groupStateOf(o *unstructured.Unstructured) (groupState, error) {
	s := groupState{reason: o.GetAnnotations()[v1alpha1.WaitingReasonAnnotation], layout: o.GetAnnotations()[v1alpha1.LayoutAnnotation]}
	var err error
	if s.phase, _, err = unstructured.NestedString(o.Object, "status", "phase"); err != nil {
		return s, err
	}
	if s.running, _, err = unstructured.NestedInt64(o.Object, "status", "running"); err != nil {
		return s, err
	}
	s.succeeded, _, err = unstructured.NestedInt64(o.Object, "status", "succeeded")
	return s, err
}

// String says the state for a reader who expected another.
func (s groupState) String() string {
	return fmt.Sprintf("phase %q, %d running, %d succeeded, waiting reason %q, layout %q", s.phase, s.running, s.succeeded, s.reason, s.layout)
}

// fits says whether this is what the PodGroup of a gang should say when all its pods are in a phase. Only of a gang that waits
// it should have a reason, which says all parts.
func (s groupState) fits(g *gang, phase string, parts []string) bool {
	want := groupState{phase: phase, reason: s.reason, layout: s.layout}
	switch phase {
	case phaseRunning:
		want.running = int64(g.size)
	case phaseFinished:
		want.succeeded = int64(g.size)
	}
	return s == want && (s.reason != "") == (phase == phaseWaiting) && saysAll(s.reason, parts)
}

// seat is one member's place.
type seat struct {
	rank   int
	record *v1alpha1.Record
	// leaf and spine are the node's.
	leaf, spine string
	Placement
}

// seats reads what became of a gang's pods, in the order of their ranks; pods are in any order. It returns none for a gang
// that holds nothing, and an error for one that holds a part of what it needs or that was not placed as a gang.
func seats(g *gang, pods []*v1.Pod, nodes []Node, c *oracle.Cluster) ([]seat, error) {
	var out []seat
	for _, pod := range pods {
		if pod.Spec.NodeName == "" {
			if err := holdsNothing(pod); err != nil {
				return nil, err
			}
			continue
		}
		s, err := seatOf(g, pod, nodes, c)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(out) != 0 && (len(out) != g.size || len(pods) != g.size) {
		return nil, fmt.Errorf("gang %s: %d of %d pods are bound: it neither is whole nor holds nothing", g.name, len(out), g.size)
	}
	slices.SortFunc(out, func(a, b seat) int { return cmp.Compare(a.rank, b.rank) })
	return out, inOrder(g, out)
}

// holdsNothing checks that a pod without a node claims no cards and no node.
func holdsNothing(pod *v1.Pod) error {
	if value, ok := pod.Annotations[v1alpha1.AllocationAnnotation]; ok {
		return fmt.Errorf("pod %s is not bound and holds %s", pod.Name, value)
	}
	if node := pod.Status.NominatedNodeName; node != "" {
		return fmt.Errorf("pod %s is not bound and nominated for node %s", pod.Name, node)
	}
	return nil
}

func seatOf(g *gang, pod *v1.Pod, nodes []Node, c *oracle.Cluster) (seat, error) {
	record, err := recordOf(pod)
	if err != nil {
		return seat{}, err
	}
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Object.Name == record.Node })
	switch {
	case at < 0:
		return seat{}, fmt.Errorf("pod %s is bound to node %s, which is none of its gang's", pod.Name, record.Node)
	case record.Gang != g.path():
		return seat{}, fmt.Errorf("pod %s: its record names gang %q, want %q", pod.Name, record.Gang, g.path())
	case record.Plan == "":
		return seat{}, fmt.Errorf("pod %s: its record names no plan", pod.Name)
	case record.Rank == nil || g.member(int(*record.Rank)) != pod.Name:
		return seat{}, fmt.Errorf("pod %s: its record has rank %s, want %s", pod.Name, rankText(record.Rank), pod.Annotations[v1alpha1.RankAnnotation])
	}
	p := only(g.machine, wholePod(pod.Name, g.cards))
	return seat{
		rank: int(*record.Rank), record: record, leaf: nodes[at].leaf(), spine: nodes[at].spine(), Placement: placementOf(&p, record, nodes[at], c),
	}, nil
}

func rankText(rank *int32) string {
	if rank == nil {
		return "none"
	}
	return strconv.Itoa(int(*rank))
}

// inOrder checks seats in the order of their ranks: each rank once, all of one plan, and the ranks of every node and of every
// leaf contiguous.
func inOrder(g *gang, all []seat) error {
	for i := range all {
		s := &all[i]
		if s.rank != i {
			return fmt.Errorf("gang %s: rank %d stands where rank %d should", g.name, s.rank, i)
		}
		if s.record.Plan != all[0].record.Plan {
			return fmt.Errorf("gang %s: pod %s is of plan %s, pod %s of plan %s", g.name, s.Pod.Name, s.record.Plan, all[0].Pod.Name, all[0].record.Plan)
		}
	}
	if err := contiguous(g, all, "node", func(s *seat) string { return s.Node }); err != nil {
		return err
	}
	return contiguous(g, all, "leaf", func(s *seat) string { return s.leaf })
}

// contiguous holds that the ranks come to each domain once.
func contiguous(g *gang, all []seat, kind string, of func(*seat) string) error {
	left := map[string]bool{}
	for part := range runs(all, of) {
		name := of(&part[0])
		if left[name] {
			return fmt.Errorf("gang %s: the ranks on %s %s are not contiguous, rank %d follows others", g.name, kind, name, part[0].rank)
		}
		left[name] = true
	}
	return nil
}

// judge compares every member's cards with the oracle's, in the order of the ranks, and has the oracle hold them.
func judge(g *gang, all []seat, c *oracle.Cluster, nodes []string) []error {
	var faults []error
	for i := range all {
		s := &all[i]
		if err := c.Judge(s.Pod.Name, g.ask(), nodes, s.record); err != nil {
			faults = append(faults, err)
		}
		if err := c.Place(s.Pod.Name, s.record); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}
