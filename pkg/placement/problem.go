package placement

import (
	"fmt"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// MaxRoles is the largest number of roles of one gang: the width of Node.Roles.
const MaxRoles = 64

// Role is what all members of one kind ask for: the pods of one template.
type Role struct {
	// Name is how the role is called in sentences, for example "worker"; "" reads as "pod".
	Name string
	// Request is what a member asks for of GPUs; nil for none.
	Request *allocate.Request
	// Needs is what a member asks for of each resource of Problem.Resources, in that resource's unit, 0 or more. Cards
	// are not counted here.
	Needs []int64
	// Required is the widest level of which the role's members may use no more than one domain, if HasRequired is set.
	Required    topology.Level
	HasRequired bool
}

// Member is a pod that may be placed.
type Member struct {
	// UID is the pod's UID, not empty and not that of another member.
	UID ledger.PodUID
	// Role is an index into Problem.Roles.
	Role int
	// Rank is the pod's rank in its gang, 0 or more, or -1 if it is not known. Two members may have one rank.
	Rank int
}

// Node is one node at one moment. The planner only reads it.
type Node struct {
	// Name is the node's name, not empty and not that of another node.
	Name ledger.NodeName
	// View is the state of the node's cards, which does not change any more; nil where nothing is known of them.
	View *allocate.View
	// Free is what pods have left of each resource of Problem.Resources, in that resource's unit. A negative amount, of
	// an overcommitted node, leaves no place for members that need any of the resource.
	Free []int64
	// Total is what there is of each resource without pods; nil if unknown. Only Capacity of an empty node reads it.
	Total []int64
	// Roles has bit r set where members of role r may run: selector, affinity, taints and what else does not depend on
	// the amounts above.
	Roles uint64
	// Bars says for each role whose bit is missing what excludes it: 1 + an index into Problem.Bars, 0 if unknown. It
	// may be nil or shorter than Problem.Roles; nodes may share one slice. Only rejections read it.
	Bars []uint8
	// Position is the node's position in Problem.Fabric; -1 for a node that the fabric does not hold, which shares no
	// domain with another node. It is not read without a fabric.
	Position int
}

// Problem is a gang and the nodes that it may be placed on.
type Problem struct {
	// Group names the gang in sentences, for example "train/llama".
	Group string
	// Resources names the resources of Role.Needs and Node.Free, for example "cpu", "memory", "pods".
	Resources []string
	// Bars says what may exclude a node, in words that follow a number of nodes, for example "tainted" or "not selected
	// by node selector"; see Node.Bars.
	Bars []string
	// Roles are the gang's roles, 1 to MaxRoles.
	Roles []Role
	// Members are the pods that may be placed, at least Need. Where not all of them are placed, the first ones are.
	Members []Member
	// Need is how many members are placed, all or none; 1 or more.
	Need int
	// Nodes are the nodes, in any order: the plan does not depend on it.
	Nodes []Node
	// Near are the nodes that the running part of the gang uses, beside those of Placed. They are filled before others.
	Near map[ledger.NodeName]bool

	// Fabric is the tree of domains; nil for a cluster without: then of what follows only Placed and Rates are read.
	Fabric *topology.Fabric
	// Required is the widest level of which the gang may use no more than one domain, members that run included, if
	// HasRequired is set. A level of which no node carries a label is as narrow as the next narrower one.
	Required    topology.Level
	HasRequired bool
	// Ceiling is a second such limit, if HasCeiling is set: the operator's (a gang stays in its zone). It is no limit if
	// no node carries a label of that level.
	Ceiling    topology.Level
	HasCeiling bool
	// Slice cuts the gang into parts that stay together.
	Slice Slice
	// Placed are the members that run already; their nodes count as Near.
	Placed []Fixed
	// Rates are the bandwidths between nodes; the zero value means DefaultFabricRates.
	Rates FabricRates
}

// Slice asks that every Size members of a role that follow each other in rank use one domain of Level. Ranks r with the
// same r/Size are one slice where all of the role's members that are placed have ranks, else members are counted off in
// rank order. A slice of fewer members (the last one) takes the room of a whole one. Roles without GPUs have no slices.
type Slice struct {
	// Size is the number of members, 0 for no slices.
	Size  int
	Level topology.Level
}

// Fixed is a member that runs already.
type Fixed struct {
	// Node is the member's node, Position its position in Problem.Fabric, or -1 if the fabric does not hold it.
	Node     ledger.NodeName
	Position int
	// Role is an index into Problem.Roles, or -1 if the role is none of them.
	Role int
	// Rank is the member's rank, or -1 if it is not known.
	Rank int
}

// InputError is a problem that cannot be: the field at fault, its value (its first 64 characters are shown) and what
// is wrong with it.
type InputError struct {
	Field, Value, Reason string
	// Err is the cause where the fault was found by another package, else nil.
	Err error
}

// Error names the field, the value and the reason.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s: %.64q: %s", e.Field, e.Value, e.Reason)
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }
