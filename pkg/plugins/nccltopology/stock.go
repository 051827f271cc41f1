package nccltopology

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// stock is what the nodes of a placement hold, in the order of the fabric. It is immutable.
type stock struct {
	fabric *topology.Fabric
	// at has the position of each node, ascending; the others are parallel to it.
	at    []int
	nodes []fwk.NodeInfo
	// free are the whole cards that are free, total those that there are; held is by kind of pod how many of them fit.
	free, total []int
	held        [][]int
	// members are the positions of the group's pods that have a node; strays counts those on nodes outside the fabric.
	members []int
	strays  int
}

// newStock reads the nodes. It is empty where there is no fabric or the group takes no cards. Nodes that the fabric has not
// heard of yet are left out.
func (p *Plugin) newStock(nodes []fwk.NodeInfo, n *need, scheduled []*v1.Pod) *stock {
	st := &stock{fabric: p.engine.Fabric(), held: make([][]int, len(n.kinds))}
	if st.fabric == nil || len(n.kinds) == 0 {
		return st
	}
	for _, pod := range scheduled {
		if asked, err := p.engine.RequestOf(pod); err != nil || asked == nil {
			continue
		}
		if pos, ok := st.fabric.Position(pod.Spec.NodeName); ok {
			st.members = append(st.members, pos)
		} else {
			st.strays++
		}
	}
	ordered := make([]fwk.NodeInfo, st.fabric.Len())
	for _, info := range nodes {
		if pos, ok := st.fabric.Position(info.Node().Name); ok {
			ordered[pos] = info
		}
	}
	for pos, info := range ordered {
		if info == nil {
			continue
		}
		st.at, st.nodes = append(st.at, pos), append(st.nodes, info)
		p.read(st, n, ledger.NodeName(info.Node().Name))
	}
	return st
}

// read appends what one node holds.
func (p *Plugin) read(st *stock, n *need, name ledger.NodeName) {
	a := p.engine.Ledger().Node(name)
	free, total := a.WholeCards()
	st.free, st.total = append(st.free, free), append(st.total, total)
	for i := range n.kinds {
		held := 0
		if a != nil && a.Topology != nil && !a.Quarantined {
			held = placement.Capacity(p.engine.Chooser(), &placement.Node{Name: name, View: &a.View}, &n.kinds[i].role, false, n.kinds[i].count)
		}
		st.held[i] = append(st.held[i], held)
	}
}

// indexes returns where the nodes stand in the stock, ascending.
func (st *stock) indexes(nodes []fwk.NodeInfo) []int {
	var index []int
	if len(st.at) == 0 {
		return nil
	}
	for _, info := range nodes {
		if pos, ok := st.fabric.Position(info.Node().Name); ok {
			if i, found := slices.BinarySearch(st.at, pos); found {
				index = append(index, i)
			}
		}
	}
	slices.Sort(index)
	return index
}

// sum adds up what the nodes at the indexes hold.
func (st *stock) sum(index []int) sum {
	s := sum{held: make([]int, len(st.held))}
	for _, i := range index {
		s.free += st.free[i]
		for k := range s.held {
			s.held[k] += st.held[k][i]
		}
	}
	return s
}

// common returns the narrowest level at which the nodes at the positions, and those of members that have one, are in one
// domain; LevelHost for no node at all.
func (st *stock) common(positions ...int) topology.Level {
	if st.strays > 0 {
		return topology.LevelCluster
	}
	all := append(slices.Clone(positions), st.members...)
	if len(all) == 0 {
		return topology.LevelHost
	}
	first, last := slices.Min(all), slices.Max(all)
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		if st.fabric.Domain(l, first).Contains(last) {
			return l
		}
	}
	return topology.LevelCluster
}
