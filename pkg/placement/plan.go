package placement

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Plan is a place for every member that is needed. It is the caller's own; what Choice and Topology point to is
// read-only.
type Plan struct {
	// Domain is the name of the domain that holds the gang, "" for the whole cluster.
	Domain string
	// Assignments has Problem.Need entries in rank order: by known rank, then those of unknown rank, equal ones in the
	// order of Problem.Members.
	Assignments []Assignment
	// Nodes is the number of nodes used, New the number of those that are not in Problem.Near.
	Nodes, New int
}

// Assignment is the place of one member.
type Assignment struct {
	// Pod, Role and Rank are the member's.
	Pod        ledger.PodUID
	Role, Rank int
	// Node is the member's node.
	Node ledger.NodeName
	// Choice is what the member gets of the node's cards; empty for a role without a request.
	Choice allocate.Choice
	// Topology is what Choice refers to, the Topology of the node's View; nil where the node has none.
	Topology *topology.Node
}
