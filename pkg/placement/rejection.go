package placement

import (
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Gap is the kind of thing that is missing.
type Gap uint8

// The gaps, in the order in which they are looked for: the first that holds is the answer.
const (
	// GapNodes: no node admits the role's members (selector, affinity, taints), or there is no node.
	GapNodes Gap = iota + 1
	// GapTotal: the nodes that admit them have too little free in total.
	GapTotal
	// GapFragments: there is enough in total, but on too many nodes in parts that are too small.
	GapFragments
	// GapTogether: each role alone would find its places, but not beside the others.
	GapTogether
	// GapResource: the GPUs would do, another resource runs short beside them.
	GapResource
	// GapApart: the running part of the gang uses several domains of the level of which it may use one.
	GapApart
	// GapSlices: there are places enough, but not for whole slices in one domain each.
	GapSlices
	// GapSlice: a slice of which members run has no place for its other members beside them.
	GapSlice
)

// Rejection says why the gang cannot be placed now. It is an answer, not an error. It formats nothing until String is
// called.
//
// Where roles ask for different things, all but Group to Gap are about one role: the one that is short the most
// places, or the one that asks for the most where every one alone would find its places.
type Rejection struct {
	// Group is the gang's name, Domain the name of the domain that came nearest and Level its level; "" is the whole
	// cluster.
	Group, Domain string
	Level         topology.Level
	// Need members are to be placed, Placeable could be: exactly the most that could where all roles ask for the same,
	// otherwise the most that any try placed. Placeable < Need.
	Need, Placeable int
	// Gap is what is missing.
	Gap Gap

	// Role is the role's name, "" where several ask for the same; Want of its members were to be placed.
	Role string
	Want int
	// Nodes is the number of nodes of the domain. Excluded of them do not admit the role; ExcludedBy says what excludes
	// them as far as it is known, the largest number first. All that follows is about the other nodes.
	Nodes, Excluded int
	ExcludedBy      []Exclusion

	// GPUs is what the role asks for of GPUs; its Kind is 0 for none.
	GPUs Amounts
	// CardNodes is the number of nodes on which at least one member finds its cards, Places the number of members that
	// find theirs, on each node at most Want. Of a role without GPUs CardNodes is 0 and Places is what the resources hold.
	CardNodes, Places int
	// Resource is the resource that limits the most nodes, "" if none does. On ResourceNodes nodes it is the scarcest and
	// leaves places for fewer members than the cards; of a role without GPUs: than Want.
	Resource      string
	ResourceNodes int

	// Slice is the problem's. With GapSlice the members with ranks FirstRank to LastRank are the slice, Want is how many of
	// them do not run, and Places how many of those the domain has places for.
	Slice               Slice
	FirstRank, LastRank int
	// Unlabelled is the level of a limit that no node carries a label of, 0 for none.
	Unlabelled topology.Level
}

// Exclusion is a number of nodes that something excludes; By is one of Problem.Bars.
type Exclusion struct {
	By    string
	Nodes int
}

// Amounts are what there is of GPUs and what is needed of them, in whole cards, bytes of memory or MIG instances.
// Of a request of several kinds it is the first of them; of several shares, the largest.
type Amounts struct {
	// Kind tells the unit; Profile is the MIG profile.
	Kind    allocate.Kind
	Profile string
	// Total is what the nodes have, used or not; Free is what is free of it.
	Total, Free int64
	// Largest is the most that is free in one piece: on one node, or for bytes on one card.
	Largest int64
	// Each is what a member needs in one piece, Pieces the number of pieces; a fraction is one of the smallest card.
	Each   int64
	Pieces int
	// Needed is what all members of the role together need. With GapTotal and GapTogether of several roles that ask for
	// plain whole cards, Needed and Free are of all roles together.
	Needed int64
	// NUMA and NIC are the request's policies.
	NUMA allocate.NUMAPolicy
	NIC  allocate.NICPolicy
}

// String says in one sentence what is missing, for example "gang train/a: 1 of 3 pods can be placed; the free GPUs are
// fragmented: 12 of 32 are free and 12 are needed, but only 1 of 4 nodes has the 4 free GPUs that each pod needs, the
// largest free block on a node is 6", or "gang train/llama: 5 of 8 pods can be placed; the best leaf, leaf-007, has 40 of
// the 64 free GPUs that are needed".
func (r *Rejection) String() string {
	var b strings.Builder
	b.WriteString("gang " + cut(r.Group) + ": " + strconv.Itoa(r.Placeable) + " of " + plural(r.Need, "pod") + " can be placed; ")
	if r.Gap == GapApart || r.Gap == GapSlice {
		b.WriteString(r.running())
		return b.String()
	}
	if r.Domain != "" && r.Gap != GapTotal {
		b.WriteString("in " + r.best() + ", ")
	}
	switch r.Gap {
	case GapNodes:
		b.WriteString(r.noNodes() + r.noLabels())
		return b.String()
	case GapTotal:
		b.WriteString(r.tooFew() + r.block())
	case GapFragments:
		b.WriteString("the " + r.GPUs.free() + " fragmented: " + r.GPUs.haveAndNeed(" and ") + ", but " + r.pieces())
	case GapTogether:
		b.WriteString("each role alone finds its places, but not beside the others: " + r.together())
	case GapResource:
		b.WriteString(r.shortResource())
	case GapSlices:
		b.WriteString(r.slices())
	case GapApart, GapSlice:
	}
	if r.Resource != "" && r.Gap != GapResource {
		b.WriteString("; " + cut(r.Resource) + " is short too, on " + plural(r.ResourceNodes, "node") + " with free GPUs")
	}
	if r.Excluded > 0 {
		b.WriteString("; " + strconv.Itoa(r.Excluded) + " of " + plural(r.Nodes, "node") + " " + isAre(r.Excluded) + " excluded" + r.by())
	}
	b.WriteString(r.noLabels())
	return b.String()
}

// pods names the role's members.
func (r *Rejection) pods() string { return r.pod() + "s" }

func (r *Rejection) pod() string {
	if r.Role == "" {
		return "pod"
	}
	return cut(r.Role) + " pod"
}

func (r *Rejection) noNodes() string {
	switch r.Nodes {
	case 0:
		return "there is no node to place them on"
	case 1:
		return "the only node does not admit its " + r.pods() + r.by()
	}
	return "none of the " + strconv.Itoa(r.Nodes) + " nodes admits its " + r.pods() + r.by()
}

// by says what excludes nodes.
func (r *Rejection) by() string {
	const most = 4
	s, sep := "", " ("
	for k, e := range r.ExcludedBy {
		if k == most {
			break
		}
		s += sep + strconv.Itoa(e.Nodes) + " " + cut(e.By)
		sep = ", "
	}
	if s != "" {
		s += ")"
	}
	return s
}

// block says that not even one member finds its cards in one piece.
func (r *Rejection) block() string {
	a := &r.GPUs
	if a.Largest >= a.Each {
		return ""
	}
	switch a.Kind {
	case allocate.KindWhole:
		return ", the largest free block on a node is " + strconv.FormatInt(a.Largest, 10) + " of the " + a.each() + " that each " + r.pod() + " needs"
	case allocate.KindShare:
		return ", the largest free part of a GPU is " + a.amount(a.Largest) + " of the " + a.amount(a.Each) + " that each " + r.pod() + " needs"
	case allocate.KindMIG:
	}
	return ", no node has the " + a.each() + " that each " + r.pod() + " needs"
}

// pieces says on how many nodes members find their cards.
func (r *Rejection) pieces() string {
	a := &r.GPUs
	open := r.Nodes - r.Excluded
	s := "no node has"
	if r.CardNodes > 0 {
		s = "only " + strconv.Itoa(r.CardNodes) + " of " + plural(open, "node") + " has"
		if r.CardNodes > 1 {
			s = "only " + plural(r.Places, "pod") + " can have, on " + strconv.Itoa(r.CardNodes) + " of " + plural(open, "node") + ","
		}
	}
	s += " the " + a.each() + " that each " + r.pod() + " needs"
	switch a.Kind {
	case allocate.KindWhole:
		return s + ", the largest free block on a node is " + strconv.FormatInt(a.Largest, 10)
	case allocate.KindShare:
		return s + ", the largest free part of a GPU is " + a.amount(a.Largest)
	case allocate.KindMIG:
	}
	return s
}

func (r *Rejection) together() string {
	a := &r.GPUs
	if a.Kind == 0 {
		return "the " + r.pods() + " need no GPUs"
	}
	return "each " + r.pod() + " needs " + a.each() + "; " + a.haveAndNeed(" and ")
}

func (r *Rejection) shortResource() string {
	resource := cut(r.Resource)
	if resource == "" {
		resource = "another resource"
	}
	open := r.Nodes - r.Excluded
	if r.GPUs.Kind == 0 {
		return "too little " + resource + ": it runs short on " + strconv.Itoa(r.ResourceNodes) + " of " + plural(open, "node") + ", in all there are places for " + plural(r.Places, r.pod())
	}
	return "too little " + resource + ": the free GPUs would hold " + plural(r.Places, "pod") + ", but " + strconv.Itoa(r.ResourceNodes) + " of the " +
		plural(r.CardNodes, "node") + " with room on " + form(r.CardNodes, "its", "their") + " GPUs " + hasHave(r.ResourceNodes) + " too little " + resource + " beside them"
}
