package nccltopology

import (
	"cmp"
	"path"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// candidate is a domain of the fabric inside a placement that may hold the whole group.
type candidate struct {
	// reach is the narrowest level that the group would share there with its members that have a node; level is the domain's.
	reach, level topology.Level
	name         string
	index        []int
	// left is how many cards would be left free.
	left int
}

// possible leaves out the placements that are too small for the group to run, by number of free cards. If that is all of
// them they all stay: the filters then say what is missing, and in words that change when cards come free.
func (st *stock) possible(n *need, all []*fwk.Placement) []*fwk.Placement {
	if len(st.at) == 0 {
		return all
	}
	var out []*fwk.Placement
	for _, placement := range all {
		index := st.indexes(placement.Nodes)
		s := st.sum(index)
		if len(index) < len(placement.Nodes) || n.some(&s) { // a node that the fabric has not heard of may hold any number
			out = append(out, placement)
		}
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// offer puts the best domains inside the placements in front of them, as many as limit leaves room for.
func (st *stock) offer(n *need, limit int, placements []*fwk.Placement) []*fwk.Placement {
	spare := limit - len(placements)
	if len(st.at) == 0 || spare <= 0 {
		return placements
	}
	var all []candidate
	for _, placement := range placements {
		all = append(all, st.candidates(n, placement.Name, st.indexes(placement.Nodes))...)
	}
	var out []*fwk.Placement
	for _, c := range chosen(all, spare) {
		nodes := make([]fwk.NodeInfo, len(c.index))
		for i, at := range c.index {
			nodes[i] = st.nodes[at]
		}
		out = append(out, &fwk.Placement{Name: c.name, Nodes: nodes})
	}
	return append(out, placements...)
}

// candidates returns the domains, parts of the set of nodes at the indexes, that may hold the whole group. A domain that has
// the same nodes as a narrower one, or as the set, is no candidate.
func (st *stock) candidates(n *need, set string, index []int) []candidate {
	var out []candidate
	narrower := topology.LevelHost
	for l := topology.LevelHost; l < topology.LevelCluster; l++ {
		if !st.fabric.Known(l) {
			continue
		}
		for first := 0; first < len(index); {
			at := st.at[index[first]]
			d := st.fabric.Domain(l, at)
			end := first + 1
			for end < len(index) && d.Contains(st.at[index[end]]) {
				end++
			}
			run := index[first:end]
			first = end
			if len(run) == len(index) {
				return out
			}
			if inner := st.fabric.Domain(narrower, at); l > narrower && inner.Len() == d.Len() {
				continue
			}
			s := st.sum(run)
			if n.all(&s) {
				out = append(out, candidate{
					reach: st.common(st.at[run[0]], st.at[run[len(run)-1]]), level: l,
					name: path.Join(set, l.String(), d.Name), index: run, left: s.free - n.total,
				})
			}
		}
		narrower = l
	}
	return out
}

// chosen returns at most so many candidates, narrow reach first, and of one reach the narrower domain and the one with the
// least left over first. Each reach gets an equal part of what the narrower ones have left: a group that the filters keep
// out of every leaf can still stand in one spine.
func chosen(all []candidate, limit int) []candidate {
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.reach, b.reach), cmp.Compare(a.level, b.level), cmp.Compare(a.left, b.left), cmp.Compare(a.name, b.name))
	})
	reaches := 0
	for i := range all {
		if i == 0 || all[i].reach != all[i-1].reach {
			reaches++
		}
	}
	var out []candidate
	for first := 0; first < len(all); reaches-- {
		end := first + 1
		for end < len(all) && all[end].reach == all[first].reach {
			end++
		}
		part := (limit - len(out) + reaches - 1) / reaches
		out = append(out, all[first:min(end, first+part)]...)
		first = end
	}
	return out
}
