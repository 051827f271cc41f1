// Package coscheduling is the Coscheduling plugin: the members of a PodGroup are planned whole, held whole, or hold nothing.
//
//	QueueSort   gangs stand together, those that failed behind their peers; formula on book.Order
//	PreEnqueue  parks members whose gang cannot be looked at yet: no PodGroup, no quorum (book.Enqueue)
//	PreFilter   plans the gang of the first member that comes and takes all cards in one ledger transaction; every planned
//	            member then has one node to look at
//	Filter      keeps others off the nodes of a gang whose turn it is; skipped while there is no turn
//	PostFilter  tells the book of a planned member that its node refused; gangs do not preempt
//	Reserve     nothing; Unreserve tells the book, which rejects the siblings and gives everything back
//	Permit      waits for the siblings' own cycles, never for capacity
//	PostBind    tells the book; the first bind lets the others go
//
// The book (engine.Gangs) knows what was planned for whom and what every gang is up to; placement finds places; the plugin
// translates the scheduler's nodes and pods for it:
//
//	NodeInfo, ledger snapshot -> placement.Node     nodes.go    amounts left, cards, which roles the node admits
//	pods of the gang          -> placement.Role     roles.go    pods that ask for the same are one role
//	placement.Plan            -> book.Place         plan.go     one ledger transaction (book.Take)
//
// Only what can be asked of a node without running other plugins is part of a plan: amounts, cards, node selector and
// affinity, taints, and anti-affinity of a pod to its like on one host. The whole filter chain still looks at each member on
// its node; a node that refuses is left out, and the member planned anew.
//
// Pods without the label scheduling.x-k8s.io/pod-group, and pods of native groups (spec.schedulingGroup), are none of this
// plugin's business: the framework's own group cycle plans the latter, and GPUTopology's Reserve works inside it.
package coscheduling
