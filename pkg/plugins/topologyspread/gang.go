package topologyspread

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// gangName is the name of the gang that a pod counts as part of, within its namespace; "" for a pod by itself. Groups of the two
// APIs have names apart.
func gangName(pod *v1.Pod) string {
	if key, named := book.KeyOf(pod); named {
		return "g/" + key.Name
	}
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return "n/" + *group.PodGroupName
	}
	return ""
}

// membership is a pod's gang, as far as its constraints are concerned.
type membership struct {
	name  string
	group book.GroupKey
	// need is the quorum.
	need int
	// nodes are those of the members that are bound or planned, the pod's own plan among them.
	nodes []ledger.NodeName
	// required is the level of which one domain must hold the gang, as the PodGroup or the pod names it; "" for none.
	required string
	fabric   *topology.Fabric
	// waiting returns the members that could be given a node now.
	waiting func(*v1.Pod) []*v1.Pod
}

// gangOf returns nil for a pod that is no member of a gang, and where the profile does not care. Nil is a membership without
// any effect.
func (p *Plugin) gangOf(pod *v1.Pod) *membership {
	key, named := book.KeyOf(pod)
	if !named || !*p.args.GangAware {
		return nil
	}
	company := p.engine.Gangs().MatesOf(pod)
	if company.Need == 0 {
		return nil
	}
	m := &membership{
		name: gangName(pod), group: key, need: company.Need, nodes: company.Nodes, required: company.Required, fabric: p.engine.Fabric(),
		waiting: p.engine.Gangs().WaitingWith,
	}
	if m.required == "" {
		m.required = pod.Annotations[v1alpha1.RequiredTopologyAnnotation]
	}
	if planned := p.engine.Gangs().Planned(ledger.PodUID(pod.UID)); planned != nil {
		m.nodes = append(m.nodes, planned.Node)
	}
	return m
}

// levelOf returns the level of the fabric that a topology key names. Kubernetes' own keys mean the same in any fabric.
func (m *membership) levelOf(key string) (topology.Level, bool) {
	switch key {
	case v1.LabelHostname:
		return topology.LevelHost, true
	case v1.LabelTopologyZone:
		return topology.LevelZone, true
	case v1.LabelTopologyRegion:
		return topology.LevelRegion, true
	}
	if m.fabric == nil {
		return 0, false
	}
	return m.fabric.LevelOf(key)
}

// countGangs has the constraints on zones and regions count gangs: the pods of a gang must be near each other, so that it is
// the gangs that can be spread.
func (m *membership) countGangs(constraints []constraint) {
	if m == nil {
		return
	}
	for i := range constraints {
		if l, ok := m.levelOf(constraints[i].key); ok && (l == topology.LevelZone || l == topology.LevelRegion) {
			constraints[i].gangs = true
		}
	}
}

// leaveTogether leaves out the constraints on the level of the gang's planned domain, and on narrower ones: inside the domain
// the plan has chosen the nodes.
func (m *membership) leaveTogether(constraints []constraint) []constraint {
	planned, ok := m.plannedLevel()
	if !ok {
		return constraints
	}
	return slices.DeleteFunc(constraints, func(c constraint) bool {
		l, known := m.levelOf(c.key)
		return known && l <= planned
	})
}

// plannedLevel is the narrowest level of which one domain holds all members that have a node, or the required level if that is
// wider; false where no member has a node, and where the fabric does not know one.
func (m *membership) plannedLevel() (topology.Level, bool) {
	if m == nil || m.fabric == nil || len(m.nodes) == 0 {
		return 0, false
	}
	positions := make([]int, len(m.nodes))
	for i, name := range m.nodes {
		at, ok := m.fabric.Position(string(name))
		if !ok {
			return 0, false
		}
		positions[i] = at
	}
	level := topology.LevelHost
	for !m.share(level, positions) { // all share the cluster
		level++
	}
	if required, ok := m.requiredLevel(); ok {
		level = max(level, required)
	}
	return level, true
}

func (m *membership) share(l topology.Level, positions []int) bool {
	d := m.fabric.Domain(l, positions[0])
	return !slices.ContainsFunc(positions, func(at int) bool { return !d.Contains(at) })
}

func (m *membership) requiredLevel() (topology.Level, bool) {
	if m.fabric == nil || m.required == "" {
		return 0, false
	}
	return m.fabric.LevelOf(m.required)
}
