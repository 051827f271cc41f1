package topologyspread

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// wantVerdicts is how many answers of Filter the two plugins are compared on, dry runs included; a tenth with -short.
const wantVerdicts = 1_000_000

// TestSameAsInTree runs both plugins side by side through random clusters that change between cycles: every status of PreFilter and
// Filter, in cycles and in dry runs of preemption, and every score must be equal.
func TestSameAsInTree(t *testing.T) {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "a"}}}
	list := []v1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: rackKey, WhenUnsatisfiable: v1.DoNotSchedule},
		{MaxSkew: 2, TopologyKey: hostKey, WhenUnsatisfiable: v1.ScheduleAnyway},
		{MaxSkew: 3, TopologyKey: zoneKey, WhenUnsatisfiable: v1.ScheduleAnyway},
	}
	tests := map[string]struct {
		args   func(*config.TopologySpreadArgs)
		engine bool
	}{
		"alone": {args: alone},
		"alone, one set": {args: func(a *config.TopologySpreadArgs) {
			alone(a)
			*a.MaxConstraintSets = 1
		}},
		"alone, default list": {args: func(a *config.TopologySpreadArgs) {
			alone(a)
			a.DefaultConstraints, a.DefaultingType = list, schedconfig.ListDefaulting
		}},
		// The pods are in no gang and ask for no GPU.
		"gangs and GPUs": {engine: true},
	}
	want := wantVerdicts
	if testing.Short() {
		want /= 10
	}
	total := make(chan tally, len(tests))
	t.Run("worlds", func(t *testing.T) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, options{args: tt.args, objects: []runtime.Object{service}, fabric: tt.engine})
				w := newWorld(t, f, uint64(len(name)))
				for w.filtered < want/len(tests)+1 {
					w.cycle()
				}
				total <- w.tally
			})
		}
	})
	close(total)
	sum := tally{}
	for got := range total {
		sum.add(got)
	}
	t.Logf("%+v", sum)
	// A test that never refuses, or never scores, compares nothing.
	if sum.filtered < want || sum.refused < sum.filtered/20 || sum.refused > sum.filtered*19/20 || sum.dry < sum.filtered/4 || sum.scores < want/10 {
		t.Errorf("the worlds are no test: %+v", sum)
	}
}

// tally counts what was compared.
type tally struct{ cycles, filtered, refused, dry, scores int }

func (a *tally) add(b tally) {
	a.cycles, a.filtered, a.refused, a.dry, a.scores = a.cycles+b.cycles, a.filtered+b.filtered, a.refused+b.refused, a.dry+b.dry, a.scores+b.scores
}

// world is a random cluster.
type world struct {
	*fixture
	t     *testing.T
	r     *rand.Rand
	nodes map[string]*v1.Node
	pods  map[string]*v1.Pod
	made  int
	// shapes are the pods that come to be scheduled: few, so that counts are used again.
	shapes []*v1.Pod
	// state makes the state of a cycle.
	state func() fwk.CycleState
	tally
}

func newWorld(t *testing.T, f *fixture, seed uint64) *world {
	w := &world{fixture: f, t: t, r: rand.New(rand.NewPCG(seed, 42)), nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, state: single}
	for range 25 {
		w.addNode()
	}
	for range 60 {
		w.addPod()
	}
	for range 40 {
		w.shapes = append(w.shapes, w.shape())
	}
	return w
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func (w *world) chance(percent int) bool { return w.r.IntN(100) < percent }

func (w *world) name(prefix string) string {
	w.made++
	return fmt.Sprintf("%s%d", prefix, w.made)
}

// anyOf returns a random value of a map, the zero value of an empty one.
func anyOf[T any](r *rand.Rand, m map[string]T) (none T) {
	if len(m) == 0 {
		return none
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return m[names[r.IntN(len(names))]]
}

// dress gives a node its labels and taints.
func (w *world) dress(n *v1.Node) {
	n.Labels, n.Spec.Taints = map[string]string{hostKey: n.Name}, nil
	if w.chance(3) {
		delete(n.Labels, hostKey)
	}
	if w.chance(92) {
		n.Labels[rackKey] = pick(w.r, "r1", "r2", "r3", "r4", "r5", "r6")
	} else if w.chance(50) {
		n.Labels[rackKey] = ""
	}
	if w.chance(94) {
		n.Labels[zoneKey] = pick(w.r, "z1", "z2", "z3")
	} else if w.chance(50) {
		n.Labels[zoneKey] = ""
	}
	if w.chance(60) {
		n.Labels["disk"] = pick(w.r, "ssd", "hdd")
	}
	if w.chance(20) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "t", Value: pick(w.r, "a", "b"), Effect: pick(w.r, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)})
	}
}

func (w *world) addNode() {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.name("n")}}
	w.dress(n)
	w.nodes[n.Name] = n
	w.cache.AddNode(w.logger, n)
}

// addPod puts a pod on a node, bound or assumed: the cache counts both the same way.
func (w *world) addPod() {
	n := anyOf(w.r, w.nodes)
	if n == nil {
		return
	}
	name := w.name("p")
	p := kit.Pod(pick(w.r, "ns", "ns", "ns", "other"), name, named(name), kit.OnNode(n.Name), w.labels())
	w.pods[p.Name] = p
	add := w.cache.AddPod
	if w.chance(30) {
		add = w.cache.AssumePod
	}
	if err := add(w.logger, p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) labels() kit.PodOption {
	return func(p *v1.Pod) {
		p.Labels = map[string]string{"app": pick(w.r, "a", "a", "b", "c")}
		if w.chance(60) {
			p.Labels["version"] = pick(w.r, "1", "2")
		}
	}
}

func (w *world) dropPod(p *v1.Pod) {
	if p == nil {
		return
	}
	delete(w.pods, p.Name)
	assumed, err := w.cache.IsAssumedPod(p)
	if err == nil && assumed {
		err = w.cache.ForgetPod(w.logger, p)
	} else if err == nil {
		err = w.cache.RemovePod(w.logger, p)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// change makes one thing in the cluster different.
func (w *world) change() {
	switch w.r.IntN(12) {
	case 0:
		if len(w.nodes) < 45 {
			w.addNode()
		}
	case 1:
		if n := anyOf(w.r, w.nodes); n != nil && len(w.nodes) > 3 {
			if w.chance(70) { // with its pods, or before them
				w.emptyNode(n.Name)
			}
			delete(w.nodes, n.Name)
			if err := w.cache.RemoveNode(w.logger, n); err != nil {
				w.t.Fatal(err)
			}
		}
	case 2, 3:
		if n := anyOf(w.r, w.nodes); n != nil {
			next := n.DeepCopy()
			if w.chance(50) {
				w.dress(next)
			}
			w.nodes[n.Name] = next
			w.cache.UpdateNode(w.logger, n, next)
		}
	case 4, 5:
		w.dropPod(anyOf(w.r, w.pods))
	case 6, 7:
		w.updatePod(anyOf(w.r, w.pods))
	default:
		if len(w.pods) < 150 {
			w.addPod()
		} else {
			w.dropPod(anyOf(w.r, w.pods))
		}
	}
}

func (w *world) emptyNode(name string) {
	for _, p := range w.pods {
		if p.Spec.NodeName == name {
			w.dropPod(p)
		}
	}
}

// updatePod changes the labels of a bound pod, or has it end.
func (w *world) updatePod(p *v1.Pod) {
	if p == nil {
		return
	}
	if assumed, err := w.cache.IsAssumedPod(p); err != nil || assumed {
		return
	}
	next := p.DeepCopy()
	if w.chance(40) {
		now := metav1.Now()
		next.DeletionTimestamp = &now
	} else {
		w.labels()(next)
	}
	w.pods[p.Name] = next
	if err := w.cache.UpdatePod(w.logger, p, next); err != nil {
		w.t.Fatal(err)
	}
}

// shape returns a pod to be scheduled.
func (w *world) shape() *v1.Pod {
	name := w.name("x")
	p := kit.Pod("ns", name, named(name), w.labels())
	if w.chance(85) {
		for range w.r.IntN(4) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, w.constraint(p))
		}
	}
	if w.chance(25) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(w.r, "ssd", "hdd")}
	}
	if w.chance(20) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: pick(w.r, "disk", zoneKey), Operator: pick(w.r, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpGt), Values: []string{pick(w.r, "ssd", "z1")}},
			}}},
		}}}
	}
	if w.chance(30) {
		p.Spec.Tolerations = []v1.Toleration{{Key: "t", Operator: pick(w.r, v1.TolerationOpEqual, v1.TolerationOpExists), Value: pick(w.r, "a", "b")}}
	}
	return p
}

func (w *world) constraint(p *v1.Pod) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{
		TopologyKey: pick(w.r, hostKey, rackKey, rackKey, zoneKey, zoneKey, "disk"), MaxSkew: int32(1 + w.r.IntN(4)),
		WhenUnsatisfiable: pick(w.r, v1.DoNotSchedule, v1.DoNotSchedule, v1.ScheduleAnyway), LabelSelector: selects("app", pick(w.r, "a", "b")),
	}
	switch w.r.IntN(12) {
	case 0:
		c.LabelSelector = nil
	case 1:
		c.LabelSelector = &metav1.LabelSelector{}
	case 2:
		c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}}
	case 3:
		c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Odd"}}}
	}
	if w.chance(30) {
		n := int32(1 + w.r.IntN(8))
		c.MinDomains = &n
	}
	if w.chance(40) {
		policy := pick(w.r, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
		c.NodeAffinityPolicy = &policy
	}
	if w.chance(40) {
		policy := pick(w.r, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore)
		c.NodeTaintsPolicy = &policy
	}
	if w.chance(25) {
		c.MatchLabelKeys = []string{"version"}
		if value, ok := p.Labels["version"]; ok && c.LabelSelector != nil && w.chance(50) { // as newer API servers store it
			c.LabelSelector.MatchExpressions = append(c.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "version", Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
	}
	return c
}

// cycle changes the cluster and schedules one pod in it.
func (w *world) cycle() {
	w.cycles++
	for range w.r.IntN(4) {
		w.change()
	}
	if w.chance(10) {
		w.shapes[w.r.IntN(len(w.shapes))] = w.shape()
	}
	infos := w.refresh(w.t)
	if w.chance(20) {
		w.group(infos)
	}
	w.schedule(pick(w.r, w.shapes...), infos)
}

// single is the state of a cycle that is no part of a group's.
func single() fwk.CycleState { return framework.NewCycleState() }

func (w *world) schedule(pod *v1.Pod, infos []fwk.NodeInfo) {
	if w.chance(5) { // a placement of a pod group
		infos = slices.DeleteFunc(slices.Clone(infos), func(fwk.NodeInfo) bool { return w.chance(40) })
	}
	ours, theirs := w.state(), w.state()
	_, got := w.PreFilter(w.ctx, ours, pod, infos)
	_, want := w.inTree.PreFilter(w.ctx, theirs, pod, infos)
	w.same("PreFilter", pod, "", want, got)
	if got.IsSuccess() {
		for _, info := range infos {
			w.filter(pod, info, ours, theirs)
		}
		for _, info := range infos {
			if w.chance(60) {
				w.dryRun(pod, info, ours.Clone(), theirs.Clone())
			}
		}
		w.dryRunOfMany(pod, infos, ours.Clone())
		for _, info := range infos { // the dry runs have left the cycle's own state as it was
			w.filter(pod, info, ours, theirs)
		}
	}
	w.score(pod, infos)
}

func (w *world) filter(pod *v1.Pod, info fwk.NodeInfo, ours, theirs fwk.CycleState) {
	got := w.Filter(w.ctx, ours, pod, info)
	w.same("Filter", pod, info.Node().Name, w.inTree.Filter(w.ctx, theirs, pod, info), got)
	w.filtered++
	if !got.IsSuccess() {
		w.refused++
	}
}

// dryRun does on one node what preemption does: all victims leave, some are reprieved, and nominated pods may come.
func (w *world) dryRun(pod *v1.Pod, info fwk.NodeInfo, ours, theirs fwk.CycleState) {
	before := w.filtered
	defer func() { w.dry += w.filtered - before }()
	var away []fwk.PodInfo
	for _, victim := range info.GetPods() {
		if w.chance(30) {
			continue
		}
		w.same("RemovePod", pod, info.Node().Name, w.inTree.RemovePod(w.ctx, theirs, pod, victim, info), w.RemovePod(w.ctx, ours, pod, victim, info))
		away = append(away, victim)
	}
	w.filter(pod, info, ours, theirs)
	if w.chance(50) {
		name := w.name("nominated")
		away = append(away, w.podInfo(kit.Pod("ns", name, named(name), w.labels())))
	}
	for _, back := range away {
		w.same("AddPod", pod, info.Node().Name, w.inTree.AddPod(w.ctx, theirs, pod, back, info), w.AddPod(w.ctx, ours, pod, back, info))
		w.filter(pod, info, ours, theirs)
	}
}

func (w *world) podInfo(p *v1.Pod) fwk.PodInfo {
	info, err := framework.NewPodInfo(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// score compares the points and the scores of a part of the nodes.
func (w *world) score(pod *v1.Pod, infos []fwk.NodeInfo) {
	few := slices.DeleteFunc(slices.Clone(infos), func(fwk.NodeInfo) bool { return w.chance(30) })
	ours, theirs := w.state(), w.state()
	got, want := w.PreScore(w.ctx, ours, pod, few), w.inTree.PreScore(w.ctx, theirs, pod, few)
	w.same("PreScore", pod, "", want, got)
	if !got.IsSuccess() || len(few) == 0 {
		return
	}
	var gotList, wantList fwk.NodeScoreList
	for _, info := range few {
		n, status := w.Score(w.ctx, ours, pod, info)
		m, wantStatus := w.inTree.Score(w.ctx, theirs, pod, info)
		w.same("Score", pod, info.Node().Name, wantStatus, status)
		gotList = append(gotList, fwk.NodeScore{Name: info.Node().Name, Score: n})
		wantList = append(wantList, fwk.NodeScore{Name: info.Node().Name, Score: m})
	}
	w.equal("points", pod, wantList, gotList)
	w.same("NormalizeScore", pod, "", w.inTree.NormalizeScore(w.ctx, theirs, pod, wantList), w.NormalizeScore(w.ctx, ours, pod, gotList))
	w.equal("scores", pod, wantList, gotList)
	w.scores += len(few)
}

func (w *world) equal(what string, pod *v1.Pod, want, got fwk.NodeScoreList) {
	w.t.Helper()
	if !slices.Equal(want, got) {
		w.t.Fatalf("cycle %d: %s: want %v, got %v\n%+v", w.cycles, what, want, got, pod.Spec.TopologySpreadConstraints)
	}
}

func (w *world) same(step string, pod *v1.Pod, node string, want, got *fwk.Status) {
	w.t.Helper()
	if want.Code() != got.Code() || want.Message() != got.Message() {
		w.t.Fatalf("cycle %d: %s on node %q: want %v %q, got %v %q\n%+v", w.cycles, step, node, want.Code(), want.Message(), got.Code(), got.Message(), pod.Spec.TopologySpreadConstraints)
	}
}

func selects(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
