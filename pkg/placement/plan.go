package placement

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Plan is a place for every member that is needed. It is the caller's own; what Choice and Topology point to is
// read-only.
type Plan struct {
	// LCA is the narrowest domain that holds the whole gang, members that run included. Its Level is LevelCluster where
	// no domain does; without a fabric it is the node or the cluster.
	LCA topology.Domain
	// Domains is the number of domains of each level that the gang uses, members that run included; 0 for a level of
	// which no node carries a label.
	Domains Levels
	// Assignments has Problem.Need entries in rank order: by known rank, then those of unknown rank, equal ones in the
	// order of Problem.Members.
	Assignments []Assignment
	// Nodes is the number of nodes used, New the number of those that the running part of the gang does not use.
	Nodes, New int
	// Ring is what the plan means for a ring through the members in rank order.
	Ring Ring
	// Layout says which ranks each domain has: for each level, from wide to narrow, its ranges in rank order. Members
	// that run are included, members without a rank are not. A domain has several ranges if its ranks have gaps.
	Layout []LayoutRange
}

// Levels is a number for each level from LevelHost to LevelRegion.
type Levels [topology.LevelCluster]int

// Assignment is the place of one member.
type Assignment struct {
	// Pod and Role are the member's. Rank is too, unless no member of the problem has one: then the members that are
	// placed have the lowest ranks that no running member has, in the order of Problem.Members.
	Pod        ledger.PodUID
	Role, Rank int
	// Node is the member's node.
	Node ledger.NodeName
	// Choice is what the member gets of the node's cards; empty for a role without a request.
	Choice allocate.Choice
	// Topology is what Choice refers to, the Topology of the node's View; nil where the node has none.
	Topology *topology.Node
}

// Ring is the ring that runs through all members with GPUs in rank order and back to the first, members that run
// included; through all members where none has GPUs.
type Ring struct {
	// Bottleneck is the slowest part of the ring: see FabricRates. 0 is no ring: one card, or on one node members that do not
	// all ask for whole cards.
	// What the nodes of running members offer inside is not counted.
	Bottleneck topology.Bandwidth
	// Crossings is the number of edges whose ends are in different domains of each level. OptimalCrossings is the lowest
	// number for the domains that are used: that of a ring which comes to each of them once.
	Crossings, OptimalCrossings Levels
}

// LayoutRange says that the members with ranks FirstRank to LastRank are in the domain.
type LayoutRange struct {
	Level               topology.Level
	Name                string
	FirstRank, LastRank int
}
