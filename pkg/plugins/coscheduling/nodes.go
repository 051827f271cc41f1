package coscheduling

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// What may keep a gang off a node, in the words of rejections; see placement.Problem.Bars.
const (
	barLost = iota + 1
	barCordoned
	barTaint
	barSelector
	barRefused
	barTurn
	barCards
	barDialect
	barNominated
)

var barNames = []string{
	"not ready, unreachable or with a stale lease", "cordoned", "tainted", "not selected by node selector or affinity",
	"has refused a member lately", "kept for another gang", "GPUs in contradiction or without description", "GPUs that a record dialect cannot name",
	"promised to a nominated pod",
}

// survey turns the scheduler's nodes into those of a problem.
type survey struct {
	plugin *Plugin
	a      *book.Admission
	roles  []*role
	d      *dimensions
	turn   *book.Withheld
	// priority and created are the gang's, as a turn compares them.
	priority int32
	lead     *v1.Pod
	// coming is what planned members will use, by node.
	coming map[ledger.NodeName][]int64
}

// nodes returns what the gang may use. The nodes are those of the scheduler's snapshot, whose assumed pods are counted;
// members of other gangs that are planned and not assumed yet are subtracted.
func (s *survey) nodes(infos []fwk.NodeInfo) []placement.Node {
	width := s.d.len()
	amounts := make([]int64, 2*width*len(infos))
	out := make([]placement.Node, 0, len(infos))
	bars := barSets(len(s.roles))
	for _, info := range infos {
		if info.Node() == nil {
			continue
		}
		free, total := amounts[:width:width], amounts[width:2*width:2*width]
		amounts = amounts[2*width:]
		out = append(out, s.node(info, free, total, bars))
	}
	return out
}

// barSets returns for each bar the slice that says so for every role.
func barSets(roles int) [][]uint8 {
	out := make([][]uint8, len(barNames)+1)
	for bar := range out {
		out[bar] = make([]uint8, roles)
		for i := range out[bar] {
			out[bar][i] = uint8(bar)
		}
	}
	return out
}

func (s *survey) node(info fwk.NodeInfo, free, total []int64, bars [][]uint8) placement.Node {
	node := info.Node()
	n := placement.Node{Name: ledger.NodeName(node.Name), Free: free, Total: total}
	s.amounts(info, &n)
	if bar := s.barOf(node); bar != 0 {
		n.Bars = bars[bar]
		return n
	}
	cards := s.plugin.engine.Ledger().Node(n.Name)
	if cards != nil && cards.Topology != nil && !cards.Quarantined {
		n.View = &cards.View
	}
	if nominated := s.plugin.handle.NominatedPodsForNode(node.Name); len(nominated) > 0 && !s.reserveFor(nominated, &n) {
		n.Bars = bars[barNominated]
		return n
	}
	for i, r := range s.roles {
		bar := r.barOf(node)
		switch {
		case bar != 0:
		case r.request == nil:
		case cards == nil || cards.Topology == nil || cards.Quarantined:
			bar = barCards
		case len(r.dialects) > 0 && record.CheckNode(cards.Topology, node.Name, r.dialects) != nil:
			bar = barDialect
		}
		if bar == 0 {
			n.Roles |= 1 << i
			continue
		}
		if n.Bars == nil {
			n.Bars = make([]uint8, len(s.roles))
		}
		n.Bars[i] = uint8(bar)
	}
	return n
}

// amounts fills in what the node has, and has left.
func (s *survey) amounts(info fwk.NodeInfo, n *placement.Node) {
	allocatable := info.GetAllocatable()
	s.d.fill(n.Total, allocatable, int64(allocatable.GetAllowedPodNumber()))
	s.d.fill(n.Free, info.GetRequested(), int64(len(info.GetPods())))
	coming := s.coming[n.Name]
	for k := range n.Free {
		n.Free[k] = n.Total[k] - n.Free[k]
		if coming != nil {
			n.Free[k] -= coming[k]
		}
	}
	first := fixedDimensions + len(s.d.scalars)
	for k, i := range s.d.alone {
		n.Total[first+k], n.Free[first+k] = 1, 1
		if s.roles[i].meets(info.GetPods()) || coming != nil && coming[first+k] > 0 {
			n.Free[first+k] = 0
		}
	}
}

// reserveFor takes off the node what pods of no lower priority were promised there by preemption. It is false where one of
// them still waits for its victims to end: whatever comes free is its.
func (s *survey) reserveFor(nominated []fwk.PodInfo, n *placement.Node) bool {
	amounts := make([]int64, s.d.len())
	for _, info := range nominated {
		pod := info.GetPod()
		if key, member := book.KeyOf(pod); member && key == s.a.Group || corev1helpers.PodPriority(pod) < s.priority {
			continue
		}
		s.d.fill(amounts, needsOf(pod), 1)
		for k, amount := range amounts {
			n.Free[k] -= amount
		}
		args := s.plugin.engine.Profile(pod.Spec.SchedulerName)
		if args == nil {
			continue
		}
		asked, err := request.FromPodWithDefaults(pod, args.RequestDefaults())
		if err != nil || asked == nil {
			continue // a request that cannot be read is refused in the pod's own cycle
		}
		if n.View == nil {
			return false
		}
		choice, rejection, err := s.plugin.engine.Chooser().Choose(n.View, asked)
		if err != nil || rejection != nil {
			return false
		}
		n.View = taken(n.View, choice)
	}
	return true
}

// taken is the view with a choice made on it taken.
func taken(v *allocate.View, choice allocate.Choice) *allocate.View {
	out := *v
	out.Use = slices.Clone(v.Use)
	for _, share := range choice.Cards {
		allocate.Occupy(&out.Use[share.Index], share)
		out.Free = out.Free.Without(share.Index)
	}
	return &out
}

// barOf is what keeps the whole gang off the node, 0 for nothing.
func (s *survey) barOf(node *v1.Node) int {
	name := ledger.NodeName(node.Name)
	switch {
	case !book.Reachable(node) || !s.plugin.engine.NodeFresh(node.Name):
		return barLost
	case s.a.Excluded[name]:
		return barRefused
	case s.turn.Bars(s.lead, s.priority, s.a.Created, name):
		return barTurn
	}
	return 0
}

// barOf is what keeps a role off the node, 0 for nothing.
func (r *role) barOf(node *v1.Node) int {
	if node.Spec.Unschedulable && !toleratesCordon(r.pod.Spec.Tolerations) {
		return barCordoned
	}
	if len(node.Spec.Taints) > 0 {
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, r.pod.Spec.Tolerations, forbids, true)
		if untolerated {
			return barTaint
		}
	}
	if ok, err := r.affinity.Match(node); err != nil || !ok {
		return barSelector // a selector that cannot be read is refused by the pod's own cycle
	}
	return 0
}

func forbids(t *v1.Taint) bool {
	return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
}

func toleratesCordon(tolerations []v1.Toleration) bool {
	return corev1helpers.TolerationsTolerateTaint(klog.Background(), tolerations, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}, true)
}

// load adds up what planned members will use of their nodes.
func (s *survey) load(coming []book.Load) {
	s.coming = map[ledger.NodeName][]int64{}
	one := make([]int64, s.d.len())
	for _, l := range coming {
		s.d.fill(one, needsOf(l.Pod), 1)
		at := s.coming[l.Node]
		if at == nil {
			at = make([]int64, s.d.len())
			s.coming[l.Node] = at
		}
		for k := range one {
			at[k] += one[k]
		}
		first := fixedDimensions + len(s.d.scalars)
		for k, i := range s.d.alone {
			if s.roles[i].repels(l.Pod) {
				at[first+k]++
			}
		}
	}
}
