package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

const soloGroup = "solo"

func groupOf(pod *v1.Pod) string {
	if name := pod.Labels[v1alpha1.PodGroupLabel]; name != "" {
		return name
	}
	return soloGroup
}

// all are the pods that live, by name.
func (w *orderWorld) all() []*v1.Pod {
	var out []*v1.Pod
	for _, o := range w.store.List() {
		if pod, ok := o.(*v1.Pod); ok {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(x, y *v1.Pod) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// wire has the bench plan with the product's planner, and its API server refuse to bind pods that are gone.
func (w *orderWorld) wire() {
	w.placing = w.place
	w.host.bind = func(pod *v1.Pod) error {
		if !w.stored(pod) {
			return fmt.Errorf("pod %s is not found", pod.Name)
		}
		return nil
	}
}

// cure is that of the bench, in an order that depends on the seed alone.
func (w *orderWorld) cure() {
	for _, pod := range w.all() {
		if pod.Spec.NodeName == "" && w.host.waiting[pod.UID] == nil && !w.follows[pod.UID] && w.MayCure(pod) {
			w.offer(pod)
		}
	}
}

func (w *orderWorld) addNode(name string) {
	w.t.Helper()
	w.up[name] = true
	w.node(name, kit.N8s)
	w.cure()
}

func (w *orderWorld) loseNode(name string) {
	lost := kit.Node(name, kit.N8s(name))
	lost.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute}}
	w.NodeSeen(lost)
}

func (w *orderWorld) removeNode(name string) {
	w.t.Helper()
	delete(w.up, name)
	w.ledger.RemoveNode(ledger.NodeName(name))
	w.NodeGone(name)
	w.collect()
}

// collect deletes the pods of nodes that are gone, and the controller makes new ones.
func (w *orderWorld) collect() {
	w.t.Helper()
	for _, pod := range w.all() {
		if pod.Spec.NodeName != "" && !w.up[pod.Spec.NodeName] {
			w.replace(pod)
		}
	}
}

func (w *orderWorld) addGroup(name string, minMember int) {
	w.shown[name] = w.group(name, minMember)
}

func (w *orderWorld) changeGroup(name string, minMember int) {
	g := w.shown[name]
	g.Spec.MinMember = minMember
	w.shown[name] = g
	w.GroupSeen(g)
}

func (w *orderWorld) removeGroup(name string) {
	g := w.shown[name]
	delete(w.shown, name)
	w.GroupGone(g.Namespace, g.Name, g.UID)
}

func (w *orderWorld) addPod(group string, gpus int64, gated bool) *v1.Pod {
	w.t.Helper()
	pod := w.member(group, fmt.Sprintf("%s-%d", cmp.Or(group, soloGroup), w.uids), kit.GPUs(gpus))
	if gated {
		pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "test/gate"}}
		w.put(pod)
		w.PodSeen(pod)
		return pod
	}
	w.create(pod)
	return pod
}

// removePod deletes some pod of the group.
func (w *orderWorld) removePod(group string) {
	w.t.Helper()
	pods := slices.DeleteFunc(w.all(), func(pod *v1.Pod) bool { return groupOf(pod) != group })
	w.delete(pods[w.rng.IntN(len(pods))])
}

func (w *orderWorld) delete(pod *v1.Pod) {
	w.t.Helper()
	w.remove(pod)
	w.cure()
}

func (w *orderWorld) replace(pod *v1.Pod) {
	w.t.Helper()
	w.delete(pod)
	asked := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
	w.addPod(pod.Labels[v1alpha1.PodGroupLabel], asked.Value(), len(pod.Spec.SchedulingGates) > 0)
}

func (w *orderWorld) ungate(group string) {
	w.t.Helper()
	for _, pod := range w.all() {
		if groupOf(pod) == group && len(pod.Spec.SchedulingGates) > 0 {
			w.offer(w.change(pod, func(p *v1.Pod) { p.Spec.SchedulingGates = nil }))
		}
	}
}

// reasonOfPod is what keeps a pod waiting, as its user is told.
func (w *orderWorld) reasonOfPod(pod *v1.Pod) string {
	g := w.groups[GroupKey{ns, groupOf(pod)}]
	if g == nil {
		return ""
	}
	return g.reason
}

// restart is another process: what it knows is what the API shows.
func (w *orderWorld) restart() {
	w.t.Helper()
	w.restarts++
	w.log = append(w.log, "restart")
	old, pods := w.bench, w.all()
	w.bench = newBench(old.t)
	w.clock.SetTime(old.clock.Now())
	w.uids, w.ungated = old.uids, old.ungated
	w.wire()
	for _, name := range slices.Sorted(maps.Keys(w.up)) {
		w.node(name, kit.N8s)
		if old.Lost(ledger.NodeName(name)) {
			w.loseNode(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.shown)) {
		g := w.shown[name]
		if state := old.groups[GroupKey{ns, name}].state; state != nil {
			status := state.Status()
			g.RecordedSucceeded = int(status.Succeeded)
			g.RecordedRan = slices.Contains([]string{gang.StatusScheduled, gang.StatusRunning, gang.StatusFinished, gang.StatusFailed}, status.Phase)
		}
		w.shown[name] = g
		w.GroupSeen(g)
	}
	for _, pod := range pods {
		w.put(pod)
		w.PodSeen(pod)
		if pod.Spec.NodeName == "" {
			w.offer(pod)
		} else if h, _, held := old.ledger.Holding(ledger.PodUID(pod.UID)); held {
			if err := w.ledger.Adopt(h); err != nil {
				w.t.Errorf("adopt pod %s: %v", pod.Name, err)
			}
		}
	}
}

// place plans as the plugin does, with the product's planner.
func (w *orderWorld) place(a *Admission) ([]Place, string) {
	problem := &placement.Problem{Group: a.Group.String(), Need: a.Need}
	pods := map[ledger.PodUID]*v1.Pod{}
	roles := map[int64]int{}
	for _, c := range a.Candidates {
		asked := c.Pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		role, known := roles[asked.Value()]
		if !known {
			role = len(problem.Roles)
			roles[asked.Value()] = role
			problem.Roles = append(problem.Roles, placement.Role{Request: &allocate.Request{Claims: []allocate.Claim{
				{Container: "main", Kind: allocate.KindWhole, Count: int(asked.Value())},
			}}})
		}
		pods[ledger.PodUID(c.Pod.UID)] = c.Pod
		problem.Members = append(problem.Members, placement.Member{UID: ledger.PodUID(c.Pod.UID), Role: role, Rank: c.Rank})
	}
	for node := range w.ledger.Nodes() {
		n := placement.Node{Name: node.Name, View: &node.View, Roles: ^uint64(0)}
		if a.Excluded[node.Name] || w.Lost(node.Name) {
			n.Roles = 0
		}
		problem.Nodes = append(problem.Nodes, n)
	}
	plan, rejection, err := w.planner.Plan(problem)
	switch {
	case err != nil:
		w.t.Errorf("plan of %s: %v", a.Group, err)
		return nil, err.Error()
	case rejection != nil:
		return nil, rejection.String()
	}
	var out []Place
	for _, m := range plan.Assignments {
		out = append(out, Place{Pod: pods[m.Pod], Planned: Planned{Node: m.Node, Choice: m.Choice, Topology: m.Topology, Rank: m.Rank}})
	}
	return out, ""
}
