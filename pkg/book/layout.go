package book

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// seat is where a member is: the position of its node in the fabric, -1 if it has none there.
type seat struct {
	position, rank int
	node           string
}

// layoutOf describes where members are, by the narrowest level that fits into the annotation: first with every node, then
// without, by leaf, then by wider and wider levels. f may be nil for a cluster whose fabric nobody knows.
func layoutOf(f *topology.Fabric, seats []seat) (string, error) {
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.node, b.node), cmp.Compare(a.rank, b.rank))
	})
	start := startLevel(f)
	text, err := layoutAt(f, start, seats, false)
	for level := start; err != nil && level <= topology.LevelCluster; level++ {
		text, err = layoutAt(f, level, seats, true)
	}
	if err != nil { // ranks without order over many thousand members
		for i := range seats {
			seats[i].rank = -1
		}
		text, err = layoutAt(f, topology.LevelCluster, seats, true)
	}
	return text, err
}

// layout describes where the members of a gang that runs are, anew if one has come, gone or moved since. While the gang does
// not run it is what it was. The caller holds mu.
func (b *Book) layout(g *group) string {
	if g.state == nil || !g.moved || g.state.Phase() != gang.PhaseRunning || g.state.Counts().Admitted > 0 {
		return g.layout
	}
	var f *topology.Fabric
	if b.settings.Fabric != nil {
		f = b.settings.Fabric()
	}
	var seats []seat
	for _, m := range g.members {
		if m.sighting.Node == "" || m.ended() {
			continue
		}
		s := seat{position: -1, rank: m.rank(), node: string(m.sighting.Node)}
		if f != nil {
			if at, ok := f.Position(s.node); ok {
				s.position = at
			}
		}
		seats = append(seats, s)
	}
	text, err := layoutOf(f, seats)
	if err != nil {
		b.logger.Error(err, "Layout of a gang cannot be written", "podGroup", g.key)
		text = g.layout
	}
	g.layout, g.moved = text, false
	return text
}

// startLevel is the leaf, or what comes nearest to it in a fabric where nobody labels leaves.
func startLevel(f *topology.Fabric) topology.Level {
	if f == nil {
		return topology.LevelCluster
	}
	for _, l := range []topology.Level{topology.LevelLeaf, topology.LevelNVLink, topology.LevelSpine, topology.LevelCore, topology.LevelZone, topology.LevelRegion} {
		if f.Known(l) {
			return l
		}
	}
	return topology.LevelCluster
}

func layoutAt(f *topology.Fabric, level topology.Level, seats []seat, summary bool) (string, error) {
	l := v1alpha1.Layout{Version: v1alpha1.Version, Summary: summary, Domains: []v1alpha1.LayoutDomain{}}
	for rest := seats; len(rest) > 0; {
		n := 1
		for n < len(rest) && sameDomain(f, level, rest[0], rest[n]) {
			n++
		}
		l.Domains = append(l.Domains, domainOf(f, level, rest[:n], summary))
		rest = rest[n:]
	}
	return l.Format()
}

func sameDomain(f *topology.Fabric, level topology.Level, a, b seat) bool {
	if f == nil || level == topology.LevelCluster {
		return true
	}
	if a.position < 0 || b.position < 0 {
		return a.node == b.node
	}
	return f.Index(level, a.position) == f.Index(level, b.position)
}

func domainOf(f *topology.Fabric, level topology.Level, seats []seat, summary bool) v1alpha1.LayoutDomain {
	d := v1alpha1.LayoutDomain{Level: level.String(), Members: len(seats), Ranks: ranksOf(seats)}
	if f != nil && level != topology.LevelCluster {
		d.Name = f.Domain(level, seats[0].position).Name
		for l := level + 1; l < topology.LevelCluster; l++ {
			if wider := f.Domain(l, seats[0].position); f.Known(l) && wider.Len() > 0 {
				d.Within = append(d.Within, l.String()+" "+wider.Name)
			}
		}
	}
	if summary {
		return d
	}
	for rest := seats; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].node == rest[0].node {
			n++
		}
		d.Nodes = append(d.Nodes, v1alpha1.LayoutNode{Name: rest[0].node, Members: n, Ranks: ranksOf(rest[:n])})
		rest = rest[n:]
	}
	return d
}

// ranksOf lists known ranks as ranges: "0-3,7".
func ranksOf(seats []seat) string {
	var ranks []int
	for _, s := range seats {
		if s.rank >= 0 {
			ranks = append(ranks, s.rank)
		}
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	var out []string
	for i := 0; i < len(ranks); {
		last := i
		for last+1 < len(ranks) && ranks[last+1] == ranks[last]+1 {
			last++
		}
		if last == i {
			out = append(out, fmt.Sprint(ranks[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", ranks[i], ranks[last]))
		}
		i = last + 1
	}
	return strings.Join(out, ",")
}
