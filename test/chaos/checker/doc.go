// Package checker judges a scheduler of GPUs from outside: by what the API server shows and by what the scheduler's state
// endpoint says. It shares no code with the scheduler, so that it shares no mistake either: it reads pods, nodes and JSON
// with small types of its own, and does its own sums.
//
//	watch of pods, in the order of their revisions --> Laws.SeePod, Laws.GonePod --+
//	watch of nodes -------------------------------> Laws.SeeNode, Laws.GoneNode --+--> []Violation
//	Moment (one list of everything) + State of every replica ---> AtRest ---------+
//
// # At all times
//
// Laws keeps who holds which cards. A pod is live while it exists and has not succeeded or failed; it holds what its record
// said when it was first seen bound. These hold after every event:
//
//	sold-twice   no two live pods hold the same slice of a card, by UUID, nor more memory or compute than it has
//	record       a GPU pod is first seen bound with a record that names its node and as many cards as it asks for, of the
//	             size it asks for, each listed by that node (now, or so lately that the news may not have come)
//	count        the cards that live pods hold on a node are no more than it lists
//	moved        a bound pod stays on its node
//
// When somebody edits or removes the record of a bound pod, a scheduler that restarts cannot know its cards any more, only
// how many it asked for. From then on the pod counts for "count" and not for "sold-twice". A damaged share of a card counts
// for neither: whether it sits on a card that others share is no longer known.
//
// # At rest
//
// AtRest compares one moment at which nothing is under way. Until a cluster has come to rest its answer says what is still
// missing; what it says when patience ends is a violation.
//
//	ledger   every replica holds what live bound pods hold: same pods, same nodes, same cards; of damaged ones as many cards.
//	         Nothing is assumed, nothing unknown, nothing kept for pods that are gone
//	nodes    of a clean node a replica says as many free cards as the checker counts, and no quarantine
//	gang     as many members of a gang are bound or have succeeded as it needs, or none is bound, or the leader calls it
//	         broken
//	fits     no pending pod and no pending gang fits the free cards of the clean nodes
//	replica  every replica is in sync, one leads, none has a bind of unknown outcome
//
// A node is clean when every live pod on it holds, by an undamaged record, cards that it lists. Only there the checker's
// count of free cards must be the scheduler's.
package checker
