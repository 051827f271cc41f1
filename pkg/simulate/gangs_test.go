package simulate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// yard is two machines for gangs, each below a leaf of its own.
func yard(t *testing.T) ([]Node, []string, *oracle.Cluster) {
	t.Helper()
	var nodes []Node
	var names []string
	graphs := map[string]*topology.Node{}
	for i := range 2 {
		n := node(t, &gangMachine, i)
		nodes, names = append(nodes, n), append(names, n.Object.Name)
		graphs[n.Object.Name] = n.Topology
	}
	wire(nodes)
	c, err := oracle.New(graphs)
	if err != nil {
		t.Fatal(err)
	}
	return nodes, names, c
}

// quads are the cards of two pods of four on one machine.
var quads = [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}

func smallGang() *gang { return &gang{name: "g", size: 4, cards: 4, machine: &gangMachine} }

// unbound is the member of a rank as it is created.
func unbound(t *testing.T, g *gang, rank int) *v1.Pod {
	t.Helper()
	pod, err := g.pod(rank)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// boundMember is the member of a rank on cards of a node. The change may spoil its record.
func boundMember(t *testing.T, g *gang, rank int, n Node, cards []int, change func(*v1alpha1.Record)) *v1.Pod {
	t.Helper()
	pod := unbound(t, g, rank)
	r := wholeRecord(n, cards...)
	r.Gang, r.Plan, r.Rank = g.path(), "plan-1", new(int32(rank))
	if change != nil {
		change(r)
	}
	value, err := r.Format()
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations[v1alpha1.AllocationAnnotation] = value
	pod.Spec.NodeName, pod.Status.Phase = r.Node, v1.PodRunning
	return pod
}

// wholeGang are all members of smallGang, two on each node of the yard in the order of their ranks.
func wholeGang(t *testing.T, nodes []Node) []*v1.Pod {
	t.Helper()
	g := smallGang()
	var pods []*v1.Pod
	for rank := range g.size {
		pods = append(pods, boundMember(t, g, rank, nodes[rank/2], quads[rank%2], nil))
	}
	return pods
}

func TestSeatsOfAWholeGang(t *testing.T) {
	nodes, names, c := yard(t)
	pods := wholeGang(t, nodes)
	pods[0], pods[3] = pods[3], pods[0] // the order in which they come does not matter
	all, err := seats(smallGang(), pods, nodes, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range all {
		s := &all[i]
		got = append(got, strings.Join([]string{s.Pod.Name, s.Node, s.cards(), s.ring(), s.links()}, " "))
	}
	want := []string{
		"g-0 v100-32g-0 0-3 20.0 NV2 NV1", "g-1 v100-32g-0 4-7 20.0 NV2 NV1",
		"g-2 v100-32g-1 0-3 20.0 NV2 NV1", "g-3 v100-32g-1 4-7 20.0 NV2 NV1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seats (-want +got):\n%s", diff)
	}
	if faults := judge(smallGang(), all, c, names); len(faults) != 0 {
		t.Errorf("faults = %v", faults)
	}
	if pods, free := smallGang().room(c, names); pods != 0 || free != 0 {
		t.Errorf("room for %d pods on %d free cards is left, want none", pods, free)
	}
}

func TestSeatsOfAGangThatWaits(t *testing.T) {
	nodes, _, c := yard(t)
	g := smallGang()
	var pods []*v1.Pod
	for rank := range g.size {
		pods = append(pods, unbound(t, g, rank))
	}
	if all, err := seats(g, pods, nodes, c); err != nil || len(all) != 0 {
		t.Errorf("seats = %v, %v, want none", all, err)
	}
}

func TestSeatsErrors(t *testing.T) {
	nodes, _, c := yard(t)
	// spoilt replaces the member of rank 2 by one with another record.
	spoilt := func(change func(*v1alpha1.Record)) func([]*v1.Pod) []*v1.Pod {
		return func(pods []*v1.Pod) []*v1.Pod {
			pods[2] = boundMember(t, smallGang(), 2, nodes[1], quads[0], change)
			return pods
		}
	}
	tests := map[string]struct {
		change func(pods []*v1.Pod) []*v1.Pod
		want   string
	}{
		"a part is bound": {func(pods []*v1.Pod) []*v1.Pod {
			pods[2] = unbound(t, smallGang(), 2)
			return pods
		}, "3 of 4 pods are bound"},
		"a member is missing": {func(pods []*v1.Pod) []*v1.Pod { return pods[:3] }, "3 of 4 pods are bound"},
		"unbound with cards": {func(pods []*v1.Pod) []*v1.Pod {
			pods[2].Spec.NodeName = ""
			return pods[2:3]
		}, "pod g-2 is not bound and holds"},
		"nominated": {func(pods []*v1.Pod) []*v1.Pod {
			pods[2] = unbound(t, smallGang(), 2)
			pods[2].Status.NominatedNodeName = "v100-32g-1"
			return pods[2:3]
		}, "pod g-2 is not bound and nominated for node v100-32g-1"},
		"no record": {func(pods []*v1.Pod) []*v1.Pod {
			delete(pods[2].Annotations, v1alpha1.AllocationAnnotation)
			return pods
		}, "without annotation"},
		"another node": {func(pods []*v1.Pod) []*v1.Pod {
			pods[2] = boundMember(t, smallGang(), 2, node(t, &gangMachine, 7), quads[0], nil)
			return pods
		}, "node v100-32g-7, which is none of its gang's"},
		"no gang":      {spoilt(func(r *v1alpha1.Record) { r.Gang = "" }), `names gang "", want "default/g"`},
		"no plan":      {spoilt(func(r *v1alpha1.Record) { r.Plan = "" }), "names no plan"},
		"another plan": {spoilt(func(r *v1alpha1.Record) { r.Plan = "plan-2" }), "pod g-2 is of plan plan-2, pod g-0 of plan plan-1"},
		"no rank":      {spoilt(func(r *v1alpha1.Record) { r.Rank = nil }), "has rank none, want 2"},
		"another rank": {spoilt(func(r *v1alpha1.Record) { *r.Rank = 1 }), "has rank 1, want 2"},
		"a rank twice": {func(pods []*v1.Pod) []*v1.Pod {
			pods[2] = pods[1]
			return pods
		}, "rank 1 stands where rank 2 should"},
		"ranks mixed over nodes": {func(pods []*v1.Pod) []*v1.Pod {
			pods[1] = boundMember(t, smallGang(), 1, nodes[1], quads[0], nil)
			pods[2] = boundMember(t, smallGang(), 2, nodes[0], quads[1], nil)
			return pods
		}, "the ranks on node v100-32g-0 are not contiguous, rank 2 follows others"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := seats(smallGang(), tc.change(wholeGang(t, nodes)), nodes, c)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestJudgeNamesTheMemberThatIsPlacedBadly(t *testing.T) {
	nodes, names, c := yard(t)
	pods := wholeGang(t, nodes)
	// Cards of both halves: a slower ring, and the next pod has no fast one either.
	pods[2] = boundMember(t, smallGang(), 2, nodes[1], []int{0, 1, 5, 6}, nil)
	pods[3] = boundMember(t, smallGang(), 3, nodes[1], []int{2, 3, 4, 6}, nil)
	all, err := seats(smallGang(), pods, nodes, c)
	if err != nil {
		t.Fatal(err)
	}
	faults := judge(smallGang(), all, c, names)
	var got []string
	for _, f := range faults {
		got = append(got, f.Error())
	}
	for i, want := range []string{"pod g-2 on node v100-32g-1: asked for 4 GPUs: got", "pod g-3 on node v100-32g-1: asked for", "card 6: is sold twice, pod g-2"} {
		if i >= len(got) || !strings.Contains(got[i], want) {
			t.Errorf("fault %d of %q, want one with %q", i, got, want)
		}
	}
}

func TestShortage(t *testing.T) {
	nodes, names, c := yard(t)
	for i, cards := range [][]int{{0, 1, 2, 3, 4}, {0, 1}} {
		if err := c.Place("before"+nodes[i].Object.Name, wholeRecord(nodes[i], cards...)); err != nil {
			t.Fatal(err)
		}
	}
	got := smallGang().shortage(c, names)
	want := []string{"gang default/g", "1 of 4 pods can be placed", "9 of 16 are free, 16 are needed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shortage (-want +got):\n%s", diff)
	}
}

func TestGroupState(t *testing.T) {
	status := func(phase string, running, succeeded int64, reason string) *unstructured.Unstructured {
		o := smallGang().group()
		o.Object["status"] = map[string]any{"phase": phase, "running": running, "succeeded": succeeded}
		if reason != "" {
			o.SetAnnotations(map[string]string{v1alpha1.WaitingReasonAnnotation: reason})
		}
		return o
	}
	parts := []string{"1 of 4 pods", "9 of 16 are free"}
	const reason = "gang default/g: 1 of 4 pods can be placed; 9 of 16 are free"
	tests := map[string]struct {
		group *unstructured.Unstructured
		phase string
		parts []string
		want  bool
	}{
		"runs":                      {status("Running", 4, 0, ""), phaseRunning, nil, true},
		"runs with a reason":        {status("Running", 4, 0, reason), phaseRunning, nil, false},
		"counts too few":            {status("Running", 3, 0, ""), phaseRunning, nil, false},
		"finished":                  {status("Finished", 0, 4, ""), phaseFinished, nil, true},
		"finished, counted running": {status("Finished", 4, 4, ""), phaseFinished, nil, false},
		"not finished yet":          {status("Running", 4, 0, ""), phaseFinished, nil, false},
		"waits":                     {status("PreScheduling", 0, 0, reason), phaseWaiting, parts, true},
		"waits, says too little":    {status("PreScheduling", 0, 0, "1 of 4 pods can be placed"), phaseWaiting, parts, false},
		"waits, says nothing":       {status("PreScheduling", 0, 0, ""), phaseWaiting, nil, false},
		"nobody wrote a status":     {smallGang().group(), phaseWaiting, parts, false},
	}
	for name, tc := range tests {
		s, err := groupStateOf(tc.group)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.fits(smallGang(), tc.phase, tc.parts); got != tc.want {
			t.Errorf("%s: %v fits phase %s: %t, want %t", name, s, tc.phase, got, tc.want)
		}
	}
	broken := smallGang().group()
	broken.Object["status"] = map[string]any{"running": "many"}
	if s, err := groupStateOf(broken); err == nil {
		t.Errorf("state = %v, want an error", s)
	}
}

func TestWitness(t *testing.T) {
	nodes, _, _ := yard(t)
	g := smallGang()
	first := boundMember(t, g, 0, nodes[0], quads[0], nil)
	clash := boundMember(t, g, 1, nodes[0], []int{3, 4, 5, 6}, nil)
	after := func(pod *v1.Pod, phase v1.PodPhase) *v1.Pod {
		later := pod.DeepCopy()
		later.Status.Phase = phase
		return later
	}
	type seen struct {
		event watch.EventType
		pod   *v1.Pod
	}
	tests := map[string]struct {
		events []seen
		// want are phrases of the faults.
		want []string
	}{
		"beside each other": {[]seen{{watch.Added, first}, {watch.Modified, boundMember(t, g, 1, nodes[0], quads[1], nil)}}, nil},
		"seen again":        {[]seen{{watch.Added, first}, {watch.Modified, first}}, nil},
		"one after another": {[]seen{{watch.Added, first}, {watch.Modified, after(first, v1.PodSucceeded)}, {watch.Modified, clash}}, nil},
		"before it ended":   {[]seen{{watch.Added, first}, {watch.Modified, clash}, {watch.Modified, after(first, v1.PodSucceeded)}}, []string{"card 3: is sold twice, pod g-0 has it"}},
		"failed":            {[]seen{{watch.Added, first}, {watch.Modified, after(first, v1.PodFailed)}}, []string{"pod g-0 failed"}},
		"deleted":           {[]seen{{watch.Added, first}, {watch.Deleted, first}}, []string{"pod g-0: the pod was deleted"}},
		"no record": {[]seen{{watch.Added, unbound(t, g, 0)}, {watch.Modified, func() *v1.Pod {
			p := unbound(t, g, 0)
			p.Spec.NodeName = "v100-32g-0"
			return p
		}()}}, []string{"without annotation"}},
	}
	for name, tc := range tests {
		_, _, c := yard(t)
		w := newWitness(c)
		for _, e := range tc.events {
			w.see(e.event, e.pod)
		}
		if len(w.faults) != len(tc.want) {
			t.Errorf("%s: faults = %v, want %q", name, w.faults, tc.want)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(w.faults[i].Error(), want) {
				t.Errorf("%s: fault = %v, want one with %q", name, w.faults[i], want)
			}
		}
	}
}

func TestMemberOf(t *testing.T) {
	pod := unbound(t, smallGang(), 0)
	if got, err := memberOf(watch.Event{Type: watch.Added, Object: pod}); err != nil || got != pod {
		t.Errorf("memberOf = %v, %v, want the pod", got, err)
	}
	for want, e := range map[string]watch.Event{
		"watch event of type ERROR": {Type: watch.Error, Object: &v1.Node{}},
		"is in no gang":             {Type: watch.Added, Object: &v1.Pod{}},
	} {
		if _, err := memberOf(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

// Two of the demo's gangs take all cards of its nodes, so that the third waits, and what the scheduler reads out of a
// member is what the oracle is told.
func TestDemoGangs(t *testing.T) {
	gangs := demoGangs()
	if len(gangs) != 3 {
		t.Fatalf("%d gangs, want 3", len(gangs))
	}
	for i := range gangs {
		g := &gangs[i]
		if gangLeaves*g.size*g.cards != gangNodes*gangMachine.Count {
			t.Errorf("gang %s takes %d of %d cards, want those of one leaf", g.name, g.size*g.cards, gangNodes*gangMachine.Count)
		}
		pod := unbound(t, g, 3)
		asked, err := request.FromPod(pod)
		if err != nil || len(asked.Claims) != 1 || asked.Claims[0].Count != g.ask().Count {
			t.Errorf("request = %+v, %v, want %v", asked, err, g.ask())
		}
		want := map[string]string{v1alpha1.PodGroupLabel: g.name}
		if diff := cmp.Diff(want, pod.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if got := pod.Annotations[v1alpha1.RankAnnotation]; pod.Name != g.name+"-3" || got != "3" {
			t.Errorf("pod %s has rank %s, want %s-3 of rank 3", pod.Name, got, g.name)
		}
	}
}

// The first act's pod that waits must go on to wait when the machines of the gangs are there.
func TestGangMachinesHoldNoPendingPod(t *testing.T) {
	_, names, c := yard(t)
	for _, p := range demoPods() {
		if !p.Fits && len(c.Fitting(p.Ask, names)) > 0 {
			t.Errorf("pod %s fits on %s", p.Name, gangMachine.Title)
		}
	}
}

func TestGangTable(t *testing.T) {
	nodes, _, c := yard(t)
	all, err := seats(smallGang(), wholeGang(t, nodes), nodes, c)
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string) *gang { return &gang{name: name, size: 4, cards: 4, machine: &gangMachine} }
	checkGolden(t, "gangs.golden", gangTable([]standing{
		{gang: other("done"), want: phaseFinished, state: groupState{phase: phaseFinished, succeeded: 4}, seats: all},
		{gang: smallGang(), want: phaseRunning, state: groupState{phase: phaseRunning, running: 4}, seats: all},
		{gang: other("late"), want: phaseWaiting, state: groupState{phase: phaseWaiting, reason: "gang default/late: no room"}},
	}))
}
