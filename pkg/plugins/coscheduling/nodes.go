package coscheduling

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
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
	barInterconnect
	barAvoided
)

var barNames = []string{
	"not ready, unreachable or with a stale lease", "cordoned", "tainted", "not selected by node selector or affinity",
	"has refused a member lately", "kept for another gang", "GPUs in contradiction or without description", "GPUs that a record dialect cannot name",
	"promised to a nominated pod", "without the interconnect that the gang requires",
	"lately failing GPU pods at admission",
}

// survey turns the scheduler's nodes into those of a problem.
type survey struct {
	*known

	plugin *Plugin
	a      *book.Admission
	turn   *book.Withheld
	// priority is the gang's, as a turn and nominated pods compare it; lead is one of its pods.
	priority int32
	lead     *v1.Pod
	// coming is what planned members will use, by node; stale are the nodes that stopped to renew their lease.
	coming map[ledger.NodeName][]int64
	stale  map[string]bool
	// interconnect is what the gang requires of a node, "" for nothing.
	interconnect string
	// honoured are the nodes whose nominated pods were asked for, by index.
	honoured []bool
}

// survey returns what the gang may use. The nodes are those of the scheduler's snapshot, whose assumed pods are counted;
// members that are planned and not assumed yet are subtracted. What nominated pods were promised is not: see honour.
func (s *survey) survey(f *topology.Fabric, infos []fwk.NodeInfo) []placement.Node {
	s.fit(infos)
	s.locate(f)
	s.honoured = make([]bool, len(infos))
	s.follow(s.plugin.engine.Ledger())
	for i, info := range infos {
		n := &s.nodes[i]
		now := version{generation: info.GetGeneration(), cards: s.cards[i]}
		if s.seen[i] != now {
			s.read(info, now.cards, n)
			s.seen[i] = now
		}
		if s.adjust(n) {
			s.seen[i] = outdated
		}
	}
	return s.nodes
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

// read fills in what follows from the node and the ledger's state of it alone.
func (s *survey) read(info fwk.NodeInfo, cards *ledger.NodeGPUAllocation, n *placement.Node) {
	node := info.Node()
	n.View, n.Roles, n.Bars = nil, 0, nil
	s.amounts(info, n)
	if !book.Reachable(node) {
		n.Bars = s.bars[barLost]
		return
	}
	usable := cards != nil && cards.Topology != nil && !cards.Quarantined
	if usable {
		n.View = &cards.View
	}
	for i, r := range s.roles {
		bar := r.barOf(node)
		switch {
		case bar != 0 || r.request == nil:
		case !usable:
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
}

// amounts fills in what the node has, and has left.
func (s *survey) amounts(info fwk.NodeInfo, n *placement.Node) {
	allocatable := info.GetAllocatable()
	s.d.fill(n.Total, allocatable, int64(allocatable.GetAllowedPodNumber()))
	s.d.fill(n.Free, info.GetRequested(), int64(len(info.GetPods())))
	for k := range n.Free {
		n.Free[k] = n.Total[k] - n.Free[k]
		n.Total[k] = max(0, n.Total[k]) // a kubelet may report less than nothing; what is free stays negative
	}
	first := s.d.firstAlone()
	for k, i := range s.d.alone {
		n.Total[first+k], n.Free[first+k] = 1, 1
		if s.roles[i].meets(info.GetPods()) {
			n.Free[first+k] = 0
		}
	}
	first = s.d.firstPort()
	for k, port := range s.d.ports {
		n.Total[first+k], n.Free[first+k] = 1, 1
		if port.taken(info) {
			n.Free[first+k] = 0
		}
	}
}

// adjust takes into account what holds for this gang now, and reports whether that changed the node.
func (s *survey) adjust(n *placement.Node) bool {
	if bar := s.barOf(n.Name); bar != 0 {
		n.Roles, n.Bars = 0, s.bars[bar]
		return true
	}
	if s.interconnect != "" && n.View != nil && !connected(n.View.Topology, s.interconnect) {
		n.Roles, n.Bars = 0, s.bars[barInterconnect]
		return true
	}
	if len(s.coming) == 0 {
		return false
	}
	coming := s.coming[n.Name]
	for k, amount := range coming {
		n.Free[k] -= amount
	}
	return coming != nil
}

// honourPlan has the nodes of a plan keep what nominated pods were promised there, and reports whether that took anything off
// them: then the plan was made of what is not there.
func (s *survey) honourPlan(made *placement.Plan) (bool, error) {
	changed := false
	for i := range made.Assignments {
		at, known := s.index[made.Assignments[i].Node]
		if !known {
			return false, fmt.Errorf("the plan uses node %.64q, which is none of the snapshot's", made.Assignments[i].Node)
		}
		if s.honour(at) {
			changed = true
		}
	}
	return changed, nil
}

// honourAll does so for all nodes.
func (s *survey) honourAll() bool {
	changed := false
	for i := range s.nodes {
		if s.honour(i) {
			changed = true
		}
	}
	return changed
}

// honour takes off a node what nominated pods were promised there, unless it was done, and reports whether there was anything to
// take. To ask for them takes two locks of the scheduling queue, so it is done for the nodes that a plan would use, and for all
// only before a gang is refused.
func (s *survey) honour(i int) bool {
	n := &s.nodes[i]
	if s.honoured[i] {
		return false
	}
	s.honoured[i] = true
	if n.Roles == 0 {
		return false
	}
	took, fits := s.reserveFor(s.plugin.handle.NominatedPodsForNode(string(n.Name)), n)
	if !fits {
		n.Roles, n.Bars = 0, s.bars[barNominated]
	}
	if took || !fits {
		s.seen[i] = outdated
		return true
	}
	return false
}

// reserveFor takes off the node what pods of no lower priority were promised there by preemption, and reports whether there are
// any. They do not fit where one of them still waits for its victims to end: whatever comes free is its.
func (s *survey) reserveFor(nominated []fwk.PodInfo, n *placement.Node) (took, fits bool) {
	amounts := make([]int64, s.d.len())
	for _, info := range nominated {
		pod := info.GetPod()
		if key, member := book.KeyOf(pod); member && key == s.a.Group || corev1helpers.PodPriority(pod) < s.priority {
			continue
		}
		took = true
		s.d.fill(amounts, engine.NeedsOf(pod), 1)
		for k, amount := range amounts {
			n.Free[k] -= amount
		}
		asked, err := s.plugin.engine.RequestOf(pod)
		if err != nil || asked == nil {
			continue // a request that cannot be read is refused in the pod's own cycle
		}
		if n.View == nil {
			return took, false
		}
		choice, rejection, err := s.plugin.engine.Chooser().Choose(n.View, asked)
		if err != nil || rejection != nil {
			return took, false
		}
		n.View = taken(n.View, choice)
	}
	return took, true
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

// barOf is what keeps this gang off the node now, 0 for nothing.
func (s *survey) barOf(name ledger.NodeName) int {
	switch {
	case s.stale[string(name)]:
		return barLost
	case s.plugin.avoids(string(name)):
		return barAvoided
	case s.a.Excluded[name]:
		return barRefused
	case s.turn.Bars(s.lead, s.priority, s.a.Created, name):
		return barTurn
	}
	return 0
}

// barOf is what keeps a role off the node, 0 for nothing.
func (r *role) barOf(node *v1.Node) int {
	if node.Spec.Unschedulable && !engine.ToleratesCordon(r.pod.Spec.Tolerations) {
		return barCordoned
	}
	if engine.Repels(node, r.pod.Spec.Tolerations) {
		return barTaint
	}
	if ok, err := r.affinity.Match(node); err != nil || !ok {
		return barSelector // a selector that cannot be read is refused by the pod's own cycle
	}
	return 0
}

// load adds up what planned members will use of their nodes.
func (s *survey) load(coming []book.Load) {
	if len(coming) == 0 {
		return
	}
	s.coming = map[ledger.NodeName][]int64{}
	one := make([]int64, s.d.len())
	for _, l := range coming {
		s.d.fill(one, engine.NeedsOf(l.Pod), 1)
		at := s.coming[l.Node]
		if at == nil {
			at = make([]int64, s.d.len())
			s.coming[l.Node] = at
		}
		for k := range one {
			at[k] += one[k]
		}
		for k, i := range s.d.alone {
			if s.roles[i].repels(l.Pod) {
				at[s.d.firstAlone()+k]++
			}
		}
		for k, port := range s.d.ports {
			if slices.Contains(hostPorts(l.Pod), port) {
				at[s.d.firstPort()+k]++
			}
		}
	}
}
