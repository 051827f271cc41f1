package coscheduling

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// maxSurveys is for how many kinds of gangs what is known of the nodes is kept. A cluster runs jobs of few shapes; a survey
// takes about 350 bytes a node.
const maxSurveys = 4

// known is what the nodes offer to gangs whose roles ask for the same. It is brought up to date node by node: one is read
// again where the scheduler's NodeInfo or the ledger's state of it is another one than the last time.
type known struct {
	roles []*role
	d     *dimensions
	bars  [][]uint8
	seen  []version
	nodes []placement.Node
	// cards are the ledger's states of the nodes as cursor found them: most have not changed since the last gang, and to ask for each
	// of ten thousand takes longer than to plan.
	cards  []*ledger.NodeGPUAllocation
	cursor *ledger.Cursor
	// index is where each node stands in nodes.
	index map[ledger.NodeName]int
	// fabric is what the nodes' positions were taken from; placed says that they were.
	fabric *topology.Fabric
	placed bool
}

// version says of which state of a node an entry of known is.
type version struct {
	generation int64
	cards      *ledger.NodeGPUAllocation
}

// outdated is a version that no node has.
var outdated = version{generation: -1}

// knownFor returns what is kept for gangs of these roles, an empty one if nothing is. The most recently used ones are kept.
func (p *Plugin) knownFor(roles []*role) *known {
	at := slices.IndexFunc(p.known, func(k *known) bool { return slices.EqualFunc(k.roles, roles, sameRole) })
	if at < 0 {
		k := &known{roles: roles, d: dimensionsOf(roles), bars: barSets(len(roles))}
		p.known = slices.Insert(p.known, 0, k)
		if len(p.known) > maxSurveys {
			p.known = p.known[:maxSurveys]
		}
		return k
	}
	k := p.known[at]
	copy(p.known[1:at+1], p.known[:at])
	p.known[0] = k
	return k
}

// sameRole reports whether every node is the same to two roles.
func sameRole(a, b *role) bool {
	if len(a.alone) != len(b.alone) || len(a.alone) > 0 && a.pod.Namespace != b.pod.Namespace {
		return false
	}
	return sameAsk(a.pod, b.pod)
}

// fit makes the entries those of the given nodes, in their order. The scheduler never gives two nodes one generation, so the
// name is compared only where the generation is another one.
func (k *known) fit(infos []fwk.NodeInfo) {
	if len(infos) != len(k.nodes) {
		k.rebuild(infos)
		return
	}
	for i, info := range infos {
		if k.seen[i].generation != info.GetGeneration() && string(k.nodes[i].Name) != info.Node().Name {
			k.rebuild(infos)
			return
		}
	}
}

func (k *known) rebuild(infos []fwk.NodeInfo) {
	width := k.d.len()
	amounts := make([]int64, 2*width*len(infos))
	k.nodes, k.seen, k.placed = make([]placement.Node, len(infos)), make([]version, len(infos)), false
	k.cards, k.cursor = make([]*ledger.NodeGPUAllocation, len(infos)), nil
	k.index = make(map[ledger.NodeName]int, len(infos))
	for i, info := range infos {
		k.seen[i] = outdated
		k.index[ledger.NodeName(info.Node().Name)] = i
		k.nodes[i] = placement.Node{
			Name: ledger.NodeName(info.Node().Name), Free: amounts[:width:width], Total: amounts[width : 2*width : 2*width],
		}
		amounts = amounts[2*width:]
	}
}

// follow brings cards in line with the ledger.
func (k *known) follow(l *ledger.Ledger) {
	if k.cursor == nil {
		k.cursor = l.Follow()
	}
	if k.cursor.Read() {
		clear(k.cards)
	}
	for name, a := range k.cursor.Changed() {
		if i, ok := k.index[name]; ok {
			k.cards[i] = a
		}
	}
}

// locate gives the nodes their positions in the fabric.
func (k *known) locate(f *topology.Fabric) {
	if k.placed && k.fabric == f {
		return
	}
	for i := range k.nodes {
		k.nodes[i].Position = positionOf(f, k.nodes[i].Name)
	}
	k.fabric, k.placed = f, true
}
