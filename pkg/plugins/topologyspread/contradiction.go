package topologyspread

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/spread"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// unlimited is the room of a domain in which a constraint lets any number of members.
const unlimited = math.MaxInt

// contradiction says in one sentence why no domain of the required level can hold the pod's gang by its hard constraints; "" if
// one can, and for a gang of which a member has a node: then the plan has been made, and Filter judges it.
//
// Members in one required domain R are in the values V that a constraint's key has on the nodes of R. However they are laid out, the
// minimum stays at most m, the lowest count of a domain outside V (0 where there are fewer domains than minDomains). So a value with c
// matching pods takes at most maxSkew + m - c members that have the constraint and match it. With no domain outside V the minimum
// rises with the members, and there is no limit. Worked example: maxSkew 1 over hosts, four empty hosts in each rack: a rack holds
// 4 members of a gang of 8.
func (m *membership) contradiction(pod *v1.Pod, constraints []constraint, counts []*spread.Counts, infos []fwk.NodeInfo) string {
	required, ok := m.requiredLevel()
	if !ok || len(m.nodes) > 0 || required == topology.LevelCluster {
		return ""
	}
	members := m.waiting(pod)
	for i := range constraints {
		c := &constraints[i]
		if c.gangs || c.self == 0 {
			continue // the gang is one, or its members are not counted
		}
		bound := m.boundBy(c, pod, members)
		if room := m.widestRoom(required, c, counts[i], infos); room < bound {
			return fmt.Sprintf("gang %s must be in one %s (%s), but its topology spread constraint on %s (maxSkew %d, DoNotSchedule) lets no %s hold more than %d of its %d pods",
				m.group, required, v1alpha1.RequiredTopologyAnnotation, c.key, c.maxSkew, required, room, bound)
		}
	}
	return ""
}

// boundBy is how many members at least a constraint of the pod binds when the quorum is placed: those with the same constraints
// that match it, less what may be left over. The pod is one of them.
func (m *membership) boundBy(c *constraint, pod *v1.Pod, members []*v1.Pod) int {
	bound := 0
	for _, o := range members {
		if matches(c.selector, o) == 1 && equality.Semantic.DeepEqual(o.Spec.TopologySpreadConstraints, pod.Spec.TopologySpreadConstraints) {
			bound++
		}
	}
	return max(1, min(bound, m.need-(len(members)-bound)))
}

// widestRoom is the most members that one domain of the level can hold by one constraint.
func (m *membership) widestRoom(required topology.Level, c *constraint, counts *spread.Counts, infos []fwk.NodeInfo) int {
	inside := map[int]map[string]bool{} // by the index of the required domain, the values of its nodes
	for _, info := range infos {
		node := info.Node()
		value, has := node.Labels[c.key]
		at, known := m.fabric.Position(node.Name)
		if !has || !known {
			continue
		}
		domain := m.fabric.Index(required, at)
		if inside[domain] == nil {
			inside[domain] = map[string]bool{}
		}
		inside[domain][value] = true
	}
	widest := 0
	for _, values := range inside {
		widest = max(widest, roomOf(values, c, counts))
	}
	return widest
}

// roomOf is how many members the given values take together.
func roomOf(values map[string]bool, c *constraint, counts *spread.Counts) int {
	lowest, limited := 0, counts.Domains() < int(c.minDomains)
	if !limited {
		counts.All(func(domain string, pods int) {
			if !values[domain] && (!limited || pods < lowest) {
				lowest, limited = pods, true
			}
		})
	}
	if !limited {
		return unlimited
	}
	room := 0
	for value := range values {
		room += max(0, int(c.maxSkew)+lowest-counts.Pods(value))
	}
	return room
}
