package simulate

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// leafLabel and spineLabel are the keys of topograph v0.3 to v0.5.
	leafLabel  = "network.topology.nvidia.com/leaf"
	spineLabel = "network.topology.nvidia.com/spine"
	// gangLeaves is the number of leaves of the machines for gangs, all under one spine.
	gangLeaves = 2

	// leafRate is what a node reaches another one with below the same leaf: the four NICs of a DGX-1, 100 Gb/s each. The
	// way over the spine has less by spineFactor: collectives of gangs that are spread lose up to 17 % (arXiv 2509.15940).
	leafRate = topology.Bandwidth(50_000)

	spineFactor = 1.2
)

// wire labels machines with their leaf and spine. Neighbours by name are below different leaves, so that who fills nodes in
// the order of their names spreads every gang.
func wire(nodes []Node) {
	for i := range nodes {
		nodes[i].Object.Labels[leafLabel] = "leaf-" + strconv.Itoa(i%gangLeaves)
		nodes[i].Object.Labels[spineLabel] = "spine-0"
	}
}

func (n *Node) leaf() string  { return n.Object.Labels[leafLabel] }
func (n *Node) spine() string { return n.Object.Labels[spineLabel] }

// leavesOf lists the leaves of seats in the order in which the ranks come to them.
func leavesOf(all []seat) []string {
	var out []string
	for i := range all {
		if !slices.Contains(out, all[i].leaf) {
			out = append(out, all[i].leaf)
		}
	}
	return out
}

// judgeLeaves holds that a gang which has room below one leaf is below one; c is what was free before.
func judgeLeaves(g *gang, all []seat, c *oracle.Cluster, nodes []Node) error {
	used := leavesOf(all)
	if len(used) < 2 {
		return nil
	}
	room := map[string]int{}
	for i := range nodes {
		leaf := nodes[i].leaf()
		if room[leaf] += c.Free(nodes[i].Object.Name).Len() / g.cards; room[leaf] >= g.size {
			return fmt.Errorf("gang %s: is spread over %s, but %s alone has room for it", g.name, strings.Join(used, ", "), leaf)
		}
	}
	return nil
}

// layoutOf is what the PodGroup of a gang with these seats must say of them.
func layoutOf(all []seat) *v1alpha1.Layout {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.spine, b.spine), cmp.Compare(a.leaf, b.leaf), cmp.Compare(a.Node, b.Node), cmp.Compare(a.rank, b.rank))
	})
	l := &v1alpha1.Layout{Version: v1alpha1.Version}
	for below := range runs(sorted, func(s *seat) string { return s.leaf }) {
		d := v1alpha1.LayoutDomain{
			Level: topology.LevelLeaf.String(), Name: below[0].leaf, Within: []string{topology.LevelSpine.String() + " " + below[0].spine},
			Members: len(below), Ranks: ranksOf(below),
		}
		for on := range runs(below, func(s *seat) string { return s.Node }) {
			d.Nodes = append(d.Nodes, v1alpha1.LayoutNode{Name: on[0].Node, Members: len(on), Ranks: ranksOf(on)})
		}
		l.Domains = append(l.Domains, d)
	}
	return l
}

// runs yields the parts of the seats that stand together and are alike.
func runs(all []seat, of func(*seat) string) func(yield func([]seat) bool) {
	return func(yield func([]seat) bool) {
		for first := 0; first < len(all); {
			end := first + 1
			for end < len(all) && of(&all[end]) == of(&all[first]) {
				end++
			}
			if !yield(all[first:end]) {
				return
			}
			first = end
		}
	}
}

func ranksOf(all []seat) string {
	var ranks topology.GPUSet
	for i := range all {
		ranks = ranks.With(all[i].rank)
	}
	return ranges(ranks)
}

// laidOut says whether the layout on the PodGroup is that of the pods: none while the gang waits. What it says of a gang that
// has ended binds nobody.
func (s *standing) laidOut() bool {
	switch s.want {
	case phaseWaiting:
		return s.state.layout == ""
	case phaseRunning:
		got, err := v1alpha1.ParseLayout(s.state.layout)
		return err == nil && reflect.DeepEqual(got, s.layout)
	}
	return true
}

// way is the ring through all cards of a gang, member by member in the order of the ranks, and back to the first.
type way struct {
	// slowest is the slowest part, at says which that is; 0 for a single card.
	slowest topology.Bandwidth
	at      string
	// nodes and leaves are where the ring leaves one.
	nodes, leaves crossings
}

// crossings are the edges of a ring that leave a domain, and how few there are in the best order of the ranks.
type crossings struct{ count, best int }

func (x crossings) String() string { return fmt.Sprintf("%d (%d)", x.count, x.best) }

// wayOf measures the ring of a gang that has seats.
func wayOf(all []seat, c *oracle.Cluster) way {
	w := way{
		nodes:  crossed(all, func(s *seat) string { return s.Node }),
		leaves: crossed(all, func(s *seat) string { return s.leaf }),
	}
	slower := func(rate topology.Bandwidth, at string) {
		if rate > 0 && (w.slowest == 0 || rate < w.slowest) {
			w.slowest, w.at = rate, at
		}
	}
	cards := map[string]topology.GPUSet{}
	for i := range all {
		cards[all[i].Node] |= all[i].Cards
	}
	for i := range all {
		rate, _ := c.Ring(all[i].Node, cards[all[i].Node])
		slower(rate, "inside a node")
	}
	switch {
	case w.leaves.count > 0:
		slower(topology.FromGBps(leafRate.GBps()/spineFactor), "between leaves")
	case w.nodes.count > 0:
		slower(leafRate, "between nodes")
	}
	return w
}

// crossed counts the crossings of a ring. At best it comes to every domain once.
func crossed(all []seat, of func(*seat) string) crossings {
	var x crossings
	seen := map[string]bool{}
	for i := range all {
		here, next := of(&all[i]), of(&all[(i+1)%len(all)])
		seen[here] = true
		if here != next {
			x.count++
		}
	}
	if len(seen) > 1 {
		x.best = len(seen)
	}
	return x
}
