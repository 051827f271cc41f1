package placement

import (
	"fmt"
	"iter"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
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
	// View is the state of the node's cards; nil where nothing is known of them.
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
	// Near are the nodes that the running part of the gang uses. They are filled before others.
	Near map[ledger.NodeName]bool
	// Domains yields the domains to look at; nil for the cluster as a whole.
	Domains DomainFunc
}

// Domain is a part of the cluster that may hold the whole gang.
type Domain struct {
	// Name is how the domain is called in sentences, for example "rack leaf-007"; "" for the whole cluster.
	Name string
	// Nodes are indices into Problem.Nodes, each at most once.
	Nodes []int
}

// DomainFunc yields candidate domains from narrow to wide, better ones first among equals: the first that holds the
// gang gets it. It may be stopped at any domain. Domain.Nodes is read before the next domain is asked for, and may be
// reused then. For plans that do not depend on the order of nodes, neither may the order of domains.
type DomainFunc func(nodes []Node) iter.Seq[Domain]

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
