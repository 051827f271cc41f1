// Package placement plans whole gangs: from the members, what they ask for and the state of the nodes it makes a place
// for every member that is needed, or says in one sentence why there is none. It is pure: no clock, no cluster; a plan
// depends on its Problem alone, and not on the order of its nodes.
//
//	roles, members, need --+                    +-> Plan{node, cards of each member} -> ledger.AssumeAll, in rank order
//	nodes: cards, amounts -+-> Planner.Plan ----+-> Rejection, a sentence
//	domains, near nodes  --+                    +-> error: *InputError, or a bug
//
//	Plan:  check -> classes -> count -> for each domain: pick nodes -> deal ranks -> choose cards
//	                                    none holds the gang: the gap of the one that came nearest
//
// # Counting
//
// Members whose roles ask for the same and run on the same nodes are one class. For each class and node it is counted how
// many members the node holds by itself: the least of what each resource and the cards hold. Whole cards without a policy
// that a set could fail are divided, and so is the room of each card for a share of one card. For other requests
// members are placed one after the other on a copy of the cards until the next finds none; nodes whose cards are in one
// state share the answer. The number is exact for whole cards under every policy, for a share of one card, and for
// instances of one MIG profile. For shares of several cards and for containers that claim different things it is what
// package allocate comes to by placing one member after the other, and another arrangement may hold more.
//
// # One class
//
// The gang fits if and only if the numbers of the domain's nodes add up to what is needed. Order of preference:
//
//  1. nodes that the running part of the gang uses (Problem.Near);
//  2. the fewest other nodes: the largest number first, and for the rest one node that holds it. The rest goes where it
//     fits best, and a node is given up for a smaller one where all members keep their places;
//  3. of equal numbers, the faster ring over all cards that the gang gets on the node, then the node with fewer free
//     cards, then the lower name.
//
// Example: nodes a, b, c with 8, 8 and 4 free cards, three members of four cards. a takes two, c the third, b stays whole.
//
// # Several classes
//
// The first members of the problem that are needed are placed; where a class finds too few places, others take theirs,
// in up to 8 rounds. Classes are packed one after the other, each as above, and nodes in use cost nothing: in one order
// with the largest ask first, in another with the scarcest places first. Where both leave members over, or take more
// nodes than a lower bound, arrangements of up to 64 members are looked through, in at most 20,000 steps. So:
//
//   - a plan is always right;
//   - for up to 64 members of plain whole cards or none, an answer that came before the steps ran out is exact: a gang
//     is refused only if no selection of members fits, and the nodes are the fewest for the members that are placed. Gangs
//     of four nodes and ten members stay far below the limit;
//   - beyond that, a gang that would fit may be refused, and a plan may take more nodes than the fewest.
//
// # Ranks and cards
//
// In rank order the members of a class are dealt to its nodes in ascending order of name, so every node gets ranks that
// follow each other. Members of unknown rank come last. On one node the best set of plain cards for all members is
// chosen first, because the ring of the gang runs through it, and then dealt out; members of other requests choose one
// after the other. The ledger can take the choices in rank order, each beside those before it.
//
// # Cost
//
// Counting and picking take time in proportion to the nodes (picking sorts those with room), about 1 microsecond a node,
// and about 1 microsecond for every member. A gang that is refused because the numbers do not add up costs the
// counting, about 0.2 microseconds a node.
package placement
