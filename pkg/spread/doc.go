// Package spread counts pods by topology domain, and keeps the counts from one scheduling cycle to the next: a cycle reads the
// pods of those nodes only that changed since the counts were used last.
//
//	snapshot --generations--> directory: which nodes there are, which domain each is in        (one a Cache)
//	                              |
//	                              v versions
//	              Set: per node and constraint the matching pods, per domain their sum           (one a constraint set, LRU)
//	                              |
//	                              +--> Counts  immutable sums of one constraint  --> Trial: Counts and what a dry run changes
//	                              +--> Scores  immutable points of candidate nodes
//
// A constraint set is everything that decides which nodes and pods count: namespace, selectors, topology keys, node inclusion
// policies and what they look at on the pod. The caller sums it up in a key; maxSkew and minDomains are no part of it. The
// package does not know what a selector is: a Source reads a node for it.
//
// # What a cycle costs
//
// n nodes, d domains, c of the nodes changed:
//
//	walk the list          n comparisons of a generation
//	bring a Set in line    n comparisons of a version, c readings of one node's pods
//	hand out Counts        nothing if no sum changed, else one copy of d numbers, which also finds the smallest
//	count of a domain      one look-up;  smallest count: none
//
// Generations are numbers that the Source gives out once: equal generations mean the same node, in the same state, with the
// same pods. So the order of the list, the removal of nodes and lists that are a part of another one (the placements of a
// pod group) cost look-ups but no reading: what was read of a node is kept while it is away, for keepTurns changes of the list.
//
// # The minimum
//
// The minimum is over the domains with standing: those that hold a node that the constraint counts (and, where the caller
// says so, one that could serve the pod). Counts keeps the lowest few domains by count, so that a Trial that changes one or
// two domains, as preemption does, needs no pass over the others; a Trial that changes more is still exact.
//
// # Groups
//
// A constraint can count groups instead of pods: all pods of one group in a domain are one there, a pod without a group is one.
//
// # Concurrency
//
// A Cache has one mutex. Counts and Scores never change and need no lock, but for GroupPods and GroupDomains, which look into
// the Cache as it is at the call. A Trial belongs to one caller.
package spread
